"""The operating-system account that Postgres runs under when Recollect runs as root."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from recollect.errors import Misconfigured

_CANDIDATES = ("recollect", "postgres", "nobody")


class RunAs(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int

    def can_reach(self, path: Path) -> bool:
        """Whether it may pass through every directory down to ``path``, that one included."""
        return all(self._may_execute(step.stat()) for step in (*reversed(path.parents), path))

    def _may_execute(self, status: os.stat_result) -> bool:
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def run_as(account: Account | None) -> RunAs:
    """What ``subprocess`` needs to start a program under this account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def unprivileged() -> Account:
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise Misconfigured(
        "Postgres refuses to run as root, and none of the users recollect, postgres and nobody "
        "exists: add one (useradd --system recollect), or run Recollect as an ordinary user."
    )


def owner_of(path: Path) -> Account:
    status = path.stat()
    if status.st_uid == 0:
        raise Misconfigured(
            f"{path} belongs to root, and Postgres refuses to run as root: "
            f"give it to another user (chown -R postgres {path})."
        )
    try:
        entry = pwd.getpwuid(status.st_uid)
    except KeyError:
        return Account(str(status.st_uid), status.st_uid, status.st_gid)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
