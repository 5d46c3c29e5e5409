"""Where a home's cluster, sockets, locks and log are; makes the directories, opens up none."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recollect.db.embedded.accounts import Account, owner_of, unprivileged
from recollect.errors import Misconfigured

SYSTEM_DIR = Path("/var/lib/recollect")
# Not tempfile.gettempdir(): two processes of one home may differ in TMPDIR and must still meet.
TEMP_DIR = Path("/tmp")  # noqa: S108 - see above
# macOS allows 104 bytes for a socket's path, the file name and a final NUL included.
_LONGEST_SOCKET_DIR = 104 - len("/.s.PGSQL.5432") - 1


@dataclass(frozen=True)
class Places:
    base: Path
    data_dir: Path
    socket_dir: Path
    locks: Path
    log: Path
    major: int
    account: Account | None
    """Who Postgres runs as; None for whoever we are."""

    @property
    def keeper_lock(self) -> Path:
        """Held by the keeper as long as it lives; says which postmaster is up, once one is."""
        return self.locks / "keeper.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by all users; whoever has it exclusively knows that there are none."""
        return self.locks / "users.lock"

    @property
    def leaving_lock(self) -> Path:
        """Lets one process at a time look at users.lock, as looking means locking it."""
        return self.locks / "leaving.lock"


def arrange(home: Path, major: int) -> Places:
    home = home.expanduser().resolve()
    name = f"postgres-{major}"
    if os.geteuid() == 0:
        base, account = _places_for_root(home, name)
    else:
        base, account = home, None
        make(home, 0o700)
    locks = base / f"{name}.locks"
    make(locks, 0o700)
    return Places(
        base=base,
        data_dir=base / name,
        socket_dir=socket_dir_for(base, major, account),
        locks=locks,
        log=home / "postgres.log",
        major=major,
        account=account,
    )


def _places_for_root(home: Path, name: str) -> tuple[Path, Account]:
    """Postgres runs as somebody who may be unable to enter the home, and it stays closed.

    Where a cluster is already comes first: modes that change later must not hide its data.
    """
    outside = SYSTEM_DIR / _digest(home)
    if (outside / name).exists():
        make(home, 0o700)
        return outside, owner_of(outside / name)
    if (home / name).exists():
        account = owner_of(home / name)
        if not account.can_reach(home):
            raise Misconfigured(
                f"Postgres runs as {account.name}, who owns {home / name} but may not enter one "
                f"of the directories above it: allow that (chmod o+x), or run as {account.name}."
            )
        return home, account
    account = unprivileged()
    if _may_hold_a_cluster(home, account):
        make(home, 0o711)
        return home, account
    make(home, 0o700)
    make(SYSTEM_DIR, 0o711)
    _require(SYSTEM_DIR, owners={0, account.uid}, closed=0o022)
    make(outside, 0o711)
    (outside / "WHERE").write_text(f"The Postgres data of {home}\n")
    return outside, account


def _may_hold_a_cluster(home: Path, account: Account) -> bool:
    if not home.exists():
        return account.can_reach(next(parent for parent in home.parents if parent.exists()))
    status = home.stat()
    ours_alone = status.st_uid == 0 and not status.st_mode & 0o022
    return ours_alone and account.can_reach(home)


def socket_dir_for(base: Path, major: int, account: Account | None) -> Path:
    path = base / f"run-{major}"
    text = os.fsencode(path)
    # libpq splits a host at its commas, and Postgres the list of socket directories at quotes.
    if len(text) > _LONGEST_SOCKET_DIR or set(text) & set(b',"\\'):
        path = TEMP_DIR / f"recollect-{os.geteuid()}-{_digest(base)}-{major}"
    owner = os.geteuid() if account is None else account.uid
    make(path, 0o700)
    _require(path, owners={os.geteuid(), owner}, closed=0o077)
    if account is not None:
        give(path, account)
    return path


def give(path: Path, account: Account) -> None:
    """Change a directory's owner, and never the owner of what a symlink points to."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(fd, account.uid, account.gid)
    finally:
        os.close(fd)


def make(path: Path, mode: int) -> None:
    """Make a directory and those above it that are missing; leave existing ones as they are."""
    if path.exists():
        return
    make(path.parent, mode)
    # It appears with its final mode: another process must not judge it by an earlier one.
    new = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    new.chmod(mode)
    try:
        new.rename(path)
    except OSError:
        new.rmdir()
        if not path.is_dir():
            raise


def _require(path: Path, *, owners: set[int], closed: int) -> None:
    status = path.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid not in owners
        or stat.S_IMODE(status.st_mode) & closed
    ):
        raise Misconfigured(
            f"{path} was there already and cannot be trusted, as others could change it: "
            "remove it, or correct its owner and mode."
        )


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
