"""File locks that the kernel takes back when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from types import TracebackType


class Lock:
    """One flock of its own; two of them on one path exclude each other within a process too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        _open_locks.add(self)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd

    def try_shared(self) -> bool:
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        return self._try(fcntl.LOCK_EX)

    def wait_exclusive(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def close(self) -> None:
        """Give the lock back, unless the open file was passed on to a child process."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_open_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_in_child() -> None:
    # A flock lives as long as any copy of its descriptor: a forked worker must not keep it.
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_close_in_child)
