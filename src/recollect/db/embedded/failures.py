"""What can go wrong around the embedded Postgres, in sentences that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import Misconfigured

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_DISK_FULL = "The disk is full: free some space, then start again."


class DidNotStart(Misconfigured):
    """The embedded Postgres did not start."""

    code = "embedded_postgres_did_not_start"


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into advice."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        match error.errno:
            case number if number in _FULL:
                advice = _DISK_FULL
            case number if number in _FORBIDDEN:
                advice = "Give this user write access to it, or choose another home directory."
            case _:
                advice = "Check that path, then start again."
        raise DidNotStart(f"{doing} failed at {where}: {error.strerror}. {advice}") from error


def did_not_start(why: str, log: Path) -> DidNotStart:
    last_lines = tail(log)
    return DidNotStart(
        f"The embedded Postgres {why}. {advice_on(last_lines)} "
        f"Its log is {log}; the last lines are:\n{last_lines}"
    )


def advice_on(output: str) -> str:
    full = "No space left on device" in output
    return _DISK_FULL if full else "Correct what it says, then start again."


def tail(log: Path, lines: int = 12) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:]) or "(nothing)"
