"""From threads that have no event loop into the queue: the one place where other people's sync code meets
Recollect, which is async only."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from uuid import UUID

import psycopg

from recollect.bootstrap import bring_up_to_date, open_database
from recollect.db import database as databases
from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import Unavailable
from recollect.settings import Settings

ANSWER_SECONDS = 30
CLOSE_SECONDS = 10

queries = Queries(__package__)


class Forwarder:
    """An event loop in a thread of its own, with the database open on it from the first job on."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started = threading.Event()
        self._opened: asyncio.Future[Tenancy] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live()), name="recollect", daemon=True
        )
        self._thread.start()
        self._started.wait()

    def forward(self, task: str, arguments: Mapping[str, str], message: str) -> UUID:
        """The job that this message leads to, the same one however often it is forwarded."""
        answer = asyncio.run_coroutine_threadsafe(self._forward(task, arguments, message), self._loop)
        try:
            return answer.result(ANSWER_SECONDS)
        # None of it is the message's fault, whose parts were checked: it is tried again until it stands.
        except (psycopg.Error, OSError, CancelledError) as error:
            raise Unavailable from error
        finally:
            answer.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(CLOSE_SECONDS)

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        # What is still open then is closed by asyncio.run, which cancels it and waits for its end.
        await self._stopping.wait()

    async def _forward(self, task: str, arguments: Mapping[str, str], message: str) -> UUID:
        tenancy = await self._tenancy()
        async with tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            parameters = {"task": task, "arguments": json.dumps(arguments), "message": message}
            row = await tx.one(queries.forward_job, parameters, last=True)
        run: UUID = row["id"]
        return run

    async def _tenancy(self) -> Tenancy:
        if self._opened is None or self._holding is None or self._holding.done():
            self._opened = self._loop.create_future()
            self._holding = asyncio.create_task(self._hold_open(self._opened))
        # One message's impatience must not end what others wait for too.
        return await asyncio.shield(self._opened)

    async def _hold_open(self, opened: asyncio.Future[Tenancy]) -> None:
        try:
            async with open_database(self._settings) as (database, _):
                await bring_up_to_date(database)
                async with databases.open_tenancy(database, pool_size=1, worker_concurrency=1) as tenancy:
                    opened.set_result(tenancy)
                    if database.embedded is not None:
                        await database.embedded.watch()
                    await self._stopping.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)


class PerProcess:
    """The forwarder of this process, made when it is first needed. Neither a loop nor a connection survives a
    fork, so a child begins with none."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._forwarder: Forwarder | None = None
        self._of_ancestors: list[Forwarder | None] = []
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def get(self, settings: Callable[[], Settings]) -> Forwarder:
        with self._turn:
            if self._forwarder is None:
                self._forwarder = Forwarder(settings())
            return self._forwarder

    def close(self) -> None:
        with self._turn:
            forwarder, self._forwarder = self._forwarder, None
        if forwarder is not None:
            forwarder.close()

    def _leave_to_parent(self) -> None:
        # The lock may have been held by a thread that is not here. What the parent has open is kept and never
        # touched: closing it, even by forgetting it, could hang up on the parent.
        self._turn = threading.Lock()
        self._of_ancestors.append(self._forwarder)
        self._forwarder = None


here = PerProcess()
