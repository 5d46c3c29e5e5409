"""The administrator's connection, and the lock for what two processes must not do at once.

The lock lives and dies with a transaction, because a pooler may give each one another session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg

from recollect.errors import Misconfigured, Unavailable

Connection = psycopg.AsyncConnection[Any]
Result = TypeVar("Result")

# What passes when one waits and tries again.
PASSING = (pg.LockNotAvailable, pg.DeadlockDetected)


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds, and how often."""

    turn: float = 120
    """For another process that does the same."""
    lock: float = 5
    """For a table: everybody who queues behind us waits as long."""
    attempts: int = 5
    pause: float = 2


PATIENCE = Patience()


@asynccontextmanager
async def connected(conninfo: str) -> AsyncIterator[Connection]:
    try:
        # No prepared statements: behind a pooler they may end up in another session.
        async with await psycopg.AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None, client_encoding="utf8"
        ) as conn:
            require_postgres_16(conn.info.server_version)
            # Who waited for the lock has to see what the one before has done.
            await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
            yield conn
    except pg.InsufficientPrivilege as error:
        raise Misconfigured(
            f"Postgres refused: {error.diag.message_primary}. Migrate as the role that owns the "
            "database's schema."
        ) from error
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database cannot be reached, or hung up: {error}") from error
    except psycopg.ProgrammingError as error:
        if error.sqlstate:
            raise
        # Not chained: psycopg quotes the address, password and all.
        raise Misconfigured(
            "The database's address is not one that Postgres understands, such as "
            "postgresql://user:password@host:5432/database."
        ) from None


def require_postgres_16(version: int) -> None:
    if version < 160000:
        raise Misconfigured(
            f"Recollect needs Postgres 16 or newer, and this server is version {version // 10000}. "
            "Older ones cannot grant a role without its rights being inherited."
        )


@asynccontextmanager
async def alone(conn: Connection, doing: str, patience: Patience) -> AsyncIterator[None]:
    """A transaction that no other process has at the same time in this database."""
    async with conn.transaction():
        # A "set" in one migration must not reach the next.
        await conn.execute("reset all")
        await _wait_at_most(conn, patience.turn)
        try:
            await conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [doing])
        except pg.LockNotAvailable as error:
            raise Unavailable(
                f"Another process has been busy with this database ({doing}) for more than "
                f"{patience.turn:g} s; wait until it is done, or end it, and try again."
            ) from error
        await _wait_at_most(conn, patience.lock)
        yield


async def _wait_at_most(conn: Connection, seconds: float) -> None:
    # Work itself may take as long as it takes: what hurts others is the waiting.
    await conn.execute(
        "select set_config('lock_timeout', %s, true), set_config('statement_timeout', '0', true)",
        [f"{round(seconds * 1000)}ms"],
    )


async def patiently(
    work: Callable[[], Awaitable[Result]],
    subject: str,
    patience: Patience,
    passing: tuple[type[psycopg.Error], ...] = PASSING,
) -> Result:
    """Do it, and again if something was in the way that may be gone by then."""
    for attempt in range(1, patience.attempts + 1):
        try:
            return await work()
        except passing as error:
            if attempt == patience.attempts:
                raise Unavailable(
                    f"{subject}: another session was in the way {attempt} times "
                    f"({error.diag.message_primary}), and nothing was changed. End the long "
                    "transactions (pg_stat_activity shows them) and try again."
                ) from error
        await asyncio.sleep(patience.pause)
    raise ValueError("patience.attempts must be at least 1")
