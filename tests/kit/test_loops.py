"""Loops end when they are told to."""

from __future__ import annotations

import asyncio

import pytest

from recollect.kit import loops

pytestmark = pytest.mark.anyio


async def test_a_cancellation_that_was_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "CANCELLED_AGAIN_AFTER", 0.05)
    lost = 0

    async def hard_of_hearing() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 2:
                    raise

    deaf, other = asyncio.create_task(hard_of_hearing()), asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await loops.stop(deaf, other)

    assert lost == 2
    assert deaf.cancelled()
    assert other.cancelled()


async def test_a_loop_ends_though_its_work_lets_a_cancellation_pass() -> None:
    begun = 0

    async def hard_of_hearing() -> None:
        nonlocal begun
        begun += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ConnectionError from None

    loop = asyncio.create_task(loops.for_ever(hard_of_hearing))
    await asyncio.sleep(0)
    loop.cancel()
    await asyncio.wait([loop], timeout=10)

    assert loop.cancelled()
    assert begun == 1
