"""Waiting for Postgres to say that there is something new."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from recollect.bootstrap import Services
from recollect.db.listening import wake_ups

pytestmark = pytest.mark.anyio


async def test_a_listener_ends_though_a_cancellation_was_lost_while_it_looked(services: Services) -> None:
    looking = asyncio.Event()

    async def listen() -> None:
        async for _ in wake_ups(services.database.worker, "recollect_events"):
            if not looking.is_set():
                looking.set()
                # As a driver does whose connection breaks just then.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

    listener = asyncio.create_task(listen())
    await looking.wait()
    listener.cancel()
    await asyncio.wait([listener], timeout=10)

    assert listener.cancelled()
