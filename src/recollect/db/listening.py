"""Being told by Postgres that there is something new, without asking all the time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from recollect.db.queries import Queries
from recollect.kit.logs import logger
from recollect.kit.loops import heed_cancellation

log = logger("db")

_queries = Queries(__package__)

Connection = psycopg.AsyncConnection[Any]

QUIET_SECONDS = 10
"""How long to believe that nothing has happened: a notice may have been lost."""
DEAF_SECONDS = 0.5
"""How often to look where no notices come through, as behind a pooler."""
ECHO_SECONDS = 2


async def wake_ups(conninfo: str, channel: str) -> AsyncIterator[None]:
    """Yields whenever it is worth looking: at a notice, after a reconnection, and now and then in any case.
    Several notices may come as one."""
    pause = 0.1
    while True:
        heed_cancellation()
        try:
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
                await connection.execute(SQL("listen {}").format(Identifier(channel)))
                can_hear = await _hears_itself(connection)
                pause = 0.1
                yield
                async for _ in _notices(connection, QUIET_SECONDS if can_hear else DEAF_SECONDS):
                    yield
        except psycopg.OperationalError as error:
            log.warning("listening anew", channel=channel, error=type(error).__qualname__)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5)


async def _notices(connection: Connection, seconds: float) -> AsyncIterator[None]:
    while True:
        heed_cancellation()
        heard = [notice async for notice in connection.notifies(timeout=seconds, stop_after=1)]
        if not heard:
            # Silence may also mean that the connection is dead.
            await connection.execute(_queries.ping.text)
        yield


async def _hears_itself(connection: Connection) -> bool:
    """A pooler in transaction mode accepts "listen" and never delivers anything."""
    channel = f"recollect_echo_{token_hex(8)}"
    await connection.execute(SQL("listen {}").format(Identifier(channel)))
    await connection.execute(_queries.notify.text, {"channel": channel})
    heard: list[psycopg.Notify] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ECHO_SECONDS):
            while not any(notice.channel == channel for notice in heard):
                heard = [notice async for notice in connection.notifies(stop_after=1)]
    await connection.execute(SQL("unlisten {}").format(Identifier(channel)))
    can_hear = any(notice.channel == channel for notice in heard)
    if not can_hear:
        log.warning("no notices come through: a pooler in between? looking twice a second instead")
    return can_hear
