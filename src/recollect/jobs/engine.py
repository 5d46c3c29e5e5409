"""The queue's engine: procrastinate, its tables in the schema "jobs", its statements fenced."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any

import procrastinate
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job as Ticket
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from procrastinate.schema import migrations_path
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from recollect.db.queries import Queries, Query
from recollect.db.turns import PATIENCE, alone, connected
from recollect.kit.logs import logger

log = logger("jobs")
# What it logs we log ourselves, and its tracebacks may quote what is private.
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)

queries = Queries(__package__)


@dataclass(frozen=True)
class Pace:
    """How often a worker does what it does beside its jobs, in seconds."""

    poll: float = 2
    """For jobs whose time has come; new ones are announced."""
    heartbeat: float = 5
    sweep: float = 5
    stalled_after: float = 20
    """How long after its last heartbeat a worker is taken for dead, and its jobs are done again."""
    patience: float = 15
    """How long a job that has ended waits for the database to be told so."""
    stop: float = 8
    """How long running jobs are waited for when the worker stops."""
    first_retry: float = 5
    longest_retry: float = 3600


PACE = Pace()


async def ensure_engine(conninfo: str) -> None:
    """Bring the engine's tables in, or up to date with the library."""
    newest = _library_migrations()[-1]
    async with connected(conninfo) as conn, alone(conn, "recollect queue", PATIENCE):
        [(found,)] = await (await conn.execute(queries.installed_engine.text)).fetchall()
        if found is not None and found >= newest:
            return  # also where a newer server has been here
        await conn.execute("set local search_path = jobs, pg_temp")
        if found is None:
            await conn.execute(_library_schema())
            await conn.execute((resources.files(__package__) / "install.sql").read_bytes())
        else:
            for name in _library_migrations():
                if name > found:
                    await conn.execute((migrations_path / name).read_bytes())
        await conn.execute(f"comment on table jobs.procrastinate_jobs is '{newest}'".encode())


def _library_schema() -> bytes:
    return (resources.files("procrastinate.sql") / "schema.sql").read_bytes()


def _library_migrations() -> list[str]:
    return sorted(path.name for path in migrations_path.iterdir() if path.suffix == ".sql")


class LostTrack(Exception):
    """A job has ended, but the queue could not be told: this worker must sign on anew to have it swept."""


class FencedManager(JobManager):
    """Ends a ticket only for the worker that still has it.

    As it comes, the library stops the worker, and what it is doing with it, as soon as Postgres is away for a
    moment. This one is patient: long jobs live through a restart of the database.
    """

    def __init__(self, connector: BaseConnector, pace: Pace) -> None:
        super().__init__(connector)
        self._pace = pace
        self._begun: dict[int, dict[str, Any]] = {}
        self._gone: set[int] = set()
        self._in_hand: set[int] = set()
        self._may_have_more = False
        self._worker_id: int | None = None
        self.lost_track = asyncio.Event()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Ticket | None:
        """The next job, and in the same statement its record taken."""
        del queues  # workers do everybody's jobs
        try:
            if self._may_have_more:
                held = {"worker_id": worker_id, "in_hand": list(self._in_hand)}
                await self.connector.execute_query_async(queries.give_back_unheard.text, **held)
                self._may_have_more = False
            row = await self.connector.execute_query_one_async(queries.take_next.text, worker_id=worker_id)
        except ConnectorException as error:
            log.warning("no job can be fetched", error=type(error).__qualname__)
            # One may be ours by now, and the answer that said so lost with the connection.
            self._may_have_more = True
            await asyncio.sleep(self._pace.poll)
            return None
        if row["id"] is None:
            return None
        run = {name[4:]: row.pop(name) for name in tuple(row) if name.startswith("run_")}
        self._in_hand.add(row["id"])
        if run["id"] is not None:
            self._begun[row["id"]] = run
        return Ticket.from_row(row)

    async def register_worker(self) -> int:
        self._worker_id = await super().register_worker()
        return self._worker_id

    async def update_heartbeat(self, worker_id: int) -> None:
        # If it fails for long, others do our jobs, and ours are fenced off.
        with contextlib.suppress(ConnectorException):
            await self.connector.execute_query_async(queries.beat.text, worker_id=worker_id)

    async def listen_for_jobs(self, **options: Any) -> None:
        while True:
            with contextlib.suppress(ConnectorException):
                await super().listen_for_jobs(**options)
            await asyncio.sleep(self._pace.poll)

    def begun(self, ticket_id: int) -> dict[str, Any] | None:
        """The record that was taken with a ticket; None if it need not be done after all."""
        return self._begun.pop(ticket_id, None)

    def is_gone(self, ticket_id: int) -> None:
        """The ticket was taken out of the queue together with the job's last effect."""
        self._gone.add(ticket_id)

    async def finish_job(self, job: Ticket, status: Status, delete_job: bool) -> None:  # noqa: ARG002
        # Whatever became of it: the record is in jobs.runs.
        if job.id in self._gone:
            self._gone.discard(job.id)
            self._in_hand.discard(job.id)
            return
        await self._end(queries.end_ticket, job)

    async def retry_job(
        self,
        job: Ticket,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        del priority, queue, lock  # none of them changes
        await self._end(queries.requeue_ticket, job, at=retry_at)

    async def _end(self, query: Query, job: Ticket, **more: Any) -> None:
        held = {"id": job.id, "worker_id": job.worker_id, "attempts": job.attempts}
        deadline = asyncio.get_running_loop().time() + self._pace.patience
        pause = 0.1
        while True:
            try:
                await self.connector.execute_query_async(query.text, **held, **more)
            except ConnectorException as error:
                log.warning("a ticket waits for the database", error=type(error).__qualname__)
                if asyncio.get_running_loop().time() > deadline:
                    self.lost_track.set()
                    raise
            else:
                self._in_hand.discard(held["id"])
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2)

    async def sweep(self) -> None:
        """Give the jobs of dead workers back to the queue, again and again."""
        while not self.lost_track.is_set():
            try:
                # First we say that we live: after a while without the database it would seem that we do not.
                if self._worker_id is not None:
                    await self.connector.execute_query_async(queries.beat.text, worker_id=self._worker_id)
                rows = await self.connector.execute_query_all_async(
                    queries.sweep.text, seconds=self._pace.stalled_after
                )
                for row in rows:
                    log.warning("a job of a dead worker is done again", job=str(row["run"]))
            except ConnectorException as error:
                log.warning(
                    "dead workers are not looked for", error=type(error.__cause__ or error).__qualname__
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pace.sweep):
                    await self.lost_track.wait()
        raise LostTrack


@asynccontextmanager
async def open_engine(
    conninfo: str, concurrency: int, pace: Pace
) -> AsyncIterator[tuple[procrastinate.App, FencedManager]]:
    """An app of procrastinate on connections of its own: it listens on one of them for new jobs."""
    connector = procrastinate.PsycopgConnector(pool_factory=_pool, conninfo=conninfo, max_size=concurrency)
    app = procrastinate.App(connector=connector)
    app.job_manager = manager = FencedManager(connector, pace)
    async with app.open_async():
        yield app, manager


def _pool(**options: Any) -> AsyncConnectionPool[Any]:
    # As it comes, each statement costs four round trips: a check, begin, the statement, commit.
    # And what it prepares in a session is gone, or somebody else's, where a pooler hands sessions round.
    kwargs = {"prepare_threshold": None}
    return AsyncConnectionPool(
        **{**options, "min_size": 1, "check": None, "configure": _configure, "kwargs": kwargs}
    )


async def _configure(connection: AsyncConnection[Any]) -> None:
    await connection.set_autocommit(True)
