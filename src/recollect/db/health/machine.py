"""This machine's side: the home, the secret in it, and the disk below."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from recollect.db.health.check import Check
from recollect.settings import Settings

LOW_DISK = 1_000_000_000
FULL_DISK = 200_000_000


def of_machine(settings: Settings) -> list[Check]:
    return [home(settings.home), secret_key(settings)]


def home(path: Path) -> Check:
    if not path.exists():
        return Check("home", "ok", f"{path} is not there yet; the first start makes it.")
    if not path.is_dir():
        return Check("home", "fail", f"{path} is not a directory.", "Set RECOLLECT_HOME to a directory.")
    if (mode := _mode(path)) & 0o022:
        return Check(
            "home",
            "fail",
            f"Others may write to {path} (mode {mode:o}), and so replace what lies in it.",
            f"Take that away: chmod go-w {path}",
        )
    return Check("home", "ok", f"{path} (mode {mode:o})")


def secret_key(settings: Settings) -> Check:
    if settings.secret_key is not None:
        return Check("secret", "ok", "It comes from RECOLLECT_SECRET_KEY.")
    path = settings.home / "secret.key"
    if not path.exists():
        return Check("secret", "ok", f"{path} is not there yet; the first start makes it.")
    if not os.access(path, os.R_OK):
        return Check(
            "secret",
            "fail",
            f"{path} cannot be read by this user.",
            "Run as the user who owns it, or set RECOLLECT_HOME to a home of your own.",
        )
    if (mode := _mode(path)) & 0o077:
        return Check(
            "secret",
            "fail",
            f"Others may read {path} (mode {mode:o}), and whoever has it can open the database.",
            f"Take that away: chmod 600 {path}",
        )
    return Check("secret", "ok", f"{path} (mode {mode:o})")


def disk(where: Path, free: int | None = None) -> Check:
    free = shutil.disk_usage(where).free if free is None else free
    detail = f"{free / 1e9:,.1f} GB free where the data lies ({where})."
    if free < FULL_DISK:
        return Check("disk", "fail", detail, "Free some space now: a full disk stops the database.")
    if free < LOW_DISK:
        return Check("disk", "warn", detail, "Free some space before it runs out.")
    return Check("disk", "ok", detail)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
