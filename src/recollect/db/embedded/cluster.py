"""A new cluster: initdb beside its final place, then one rename."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from recollect.db.embedded.accounts import run_as
from recollect.db.embedded.failures import DidNotStart, advice_on
from recollect.db.embedded.keeper import environment
from recollect.db.embedded.locks import Lock
from recollect.db.embedded.places import Places, give

_LONGEST_INITDB = 300.0
_HBA = "local all all scram-sha-256\n"


def create_unless_there(
    places: Places, bin_dir: Path, keeper_lock: Lock, superuser: str, password: str
) -> None:
    """Whoever calls this holds the keeper's lock, so nobody else is creating it."""
    if (places.data_dir / "PG_VERSION").exists():
        return
    if places.data_dir.exists() and any(places.data_dir.iterdir()):
        raise DidNotStart(f"{places.data_dir} holds something that is no Postgres: move it away.")
    prefix = f".{places.data_dir.name}.new-"
    _remove_interrupted(places.base, prefix)
    new = Path(tempfile.mkdtemp(dir=places.base, prefix=prefix))
    password_file = new.with_name(f"{new.name}.password")
    try:
        _write_password(places, password_file, password)
        if places.account is not None:
            give(new, places.account)
        _initdb(places, _command(places, bin_dir, new, superuser, password_file), keeper_lock)
        _write_hba(new / "pg_hba.conf")
        new.rename(places.data_dir)
        _sync_directory(places.base)
    finally:
        password_file.unlink(missing_ok=True)
        shutil.rmtree(new, ignore_errors=True)


def _remove_interrupted(base: Path, prefix: str) -> None:
    for leftover in base.glob(f"{prefix}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _write_password(places: Places, path: Path, password: str) -> None:
    if not password or "\n" in password or "\r" in password:
        raise DidNotStart("The password of the embedded Postgres has to be one line of text.")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        if places.account is not None:
            os.fchown(fd, places.account.uid, places.account.gid)
        file.write(f"{password}\n")


def _command(places: Places, bin_dir: Path, new: Path, superuser: str, password_file: Path) -> list[str]:
    # Only 17 and later bring a UTF-8 locale of their own; the system's may be missing or change.
    own_locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return [
        str(bin_dir / "initdb"),
        f"--pgdata={new}",
        f"--username={superuser}",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        *(own_locale if places.major >= 17 else []),
        "--data-checksums",
        "--no-instructions",
    ]


def _initdb(places: Places, command: list[str], keeper_lock: Lock) -> None:
    try:
        subprocess.run(
            command,
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST_INITDB,
            # If we are killed, it goes on for a while: it keeps the lock for as long.
            pass_fds=(keeper_lock.fileno(),),
            check=True,
            **run_as(places.account),
        )
    except subprocess.SubprocessError as error:
        output: bytes = getattr(error, "output", None) or b""
        said = "\n".join(output.decode(errors="replace").splitlines()[-12:])
        raise DidNotStart(
            f"Creating the database in {places.base} failed. {advice_on(said)} "
            f"The last lines of initdb are:\n{said}"
        ) from error


def _write_hba(path: Path) -> None:
    # As root we write in a directory that is another user's by now: follow no link of theirs.
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(fd, "w") as file:
        file.write(_HBA)
        file.flush()
        os.fsync(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
