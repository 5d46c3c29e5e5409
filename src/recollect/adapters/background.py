"""Something that is open on an event loop of its own, for whoever has none, or one that ends before it: the
one place where other people's code meets Recollect inside one process."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - so that its ending is on Python's list before ours
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

from recollect.db.database import Database
from recollect.kit.logs import be_a_guest
from recollect.settings import Settings

CLOSE_SECONDS = 10
# Closing takes threads. When atexit's functions are called, executors have ended, and since 3.12 no thread
# can be started. Executors end by way of this list, the latest entry first, so that we still have them.
_register_while_threads_work = getattr(threading, "_register_atexit", atexit.register)

T = TypeVar("T")
R = TypeVar("R")
Opening = Callable[[Settings], AbstractAsyncContextManager[T]]


class Background(Generic[T]):
    """An event loop in a thread of its own, with something open on it from the first call on."""

    def __init__(self, settings: Settings, opening: Opening[T]) -> None:
        be_a_guest()
        self._settings = settings
        self._opening = opening
        self._started = threading.Event()
        self._opened: asyncio.Future[T] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live()), name="recollect", daemon=True
        )
        self._thread.start()
        self._started.wait()

    def call(self, work: Callable[[T], Awaitable[R]]) -> Future[R]:
        """Do something with what is open, over there; the answer comes to any thread."""
        return asyncio.run_coroutine_threadsafe(self._call(work), self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(CLOSE_SECONDS)

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        # What is still open then is closed by asyncio.run, which cancels it and waits for its end.
        await self._stopping.wait()

    def _call(self, work: Callable[[T], Awaitable[R]]) -> Coroutine[Any, Any, R]:
        async def call() -> R:
            return await work(await self._open())

        return call()

    async def _open(self) -> T:
        if self._opened is None or self._holding is None or self._holding.done():
            self._opened = self._loop.create_future()
            self._holding = asyncio.create_task(self._hold_open(self._opened))
        # One caller's impatience must not end what others wait for too.
        return await asyncio.shield(self._opened)

    async def _hold_open(self, opened: asyncio.Future[T]) -> None:
        try:
            async with self._opening(self._settings) as it:
                opened.set_result(it)
                # Until asyncio.run cancels it, once: nothing disturbs what closes then.
                await self._loop.create_future()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)


@asynccontextmanager
async def kept_running(database: Database) -> AsyncIterator[None]:
    """An embedded Postgres that is started anew if it dies."""
    watching = asyncio.create_task(database.embedded.watch()) if database.embedded is not None else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()


class PerProcess(Generic[T]):
    """What this process has open in the background, made when it is first needed and closed when the program
    ends. Neither a loop nor a connection survives a fork, so a child begins with none."""

    def __init__(self, opening: Opening[T]) -> None:
        self._opening = opening
        self._turn = threading.Lock()
        self._background: Background[T] | None = None
        self._of_ancestors: list[Background[T] | None] = []
        os.register_at_fork(after_in_child=self._leave_to_parent)
        _register_while_threads_work(self.close)

    def get(self, settings: Callable[[], Settings]) -> Background[T]:
        with self._turn:
            if self._background is None:
                self._background = Background(settings(), self._opening)
            return self._background

    def close(self) -> None:
        with self._turn:
            background, self._background = self._background, None
        if background is not None:
            background.close()

    def _leave_to_parent(self) -> None:
        # The lock may have been held by a thread that is not here. What the parent has open is kept and never
        # touched: closing it, even by forgetting it, could hang up on the parent.
        self._turn = threading.Lock()
        self._of_ancestors.append(self._background)
        self._background = None
