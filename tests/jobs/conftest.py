"""Queueing and waiting, in few words."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import UUID

import psycopg

from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.jobs.models import Job, Run
from tests.conftest import until

ENDED = {"succeeded", "failed", "cancelled"}
COLUMNS = {field.name for field in fields(Job)} - {"tenancy", "is_finished", "_step", "_told_at"}
BEGIN = Query(
    "begin",
    "For the test.",
    "select b.* from jobs.runs r, private.begin_run(r.id, r.ticket) b"
    " where r.id = %(id)s and b.id is not null",
)


async def queue(
    services: Services,
    task: str,
    arguments: dict[str, Any] | None = None,
    *,
    by: Caller = SERVICE,
    **options: Any,
) -> UUID:
    async with services.tenancy.acting_as(by) as tx:
        return await services.jobs.enqueue(tx, task, arguments, **options)


async def look(services: Services, run: UUID, by: Caller = SERVICE) -> Run:
    async with services.tenancy.acting_as(by) as tx:
        return await services.jobs.get(tx, run)


async def ended(services: Services, run: UUID, seconds: float = 30) -> Run:
    async def found() -> Run | None:
        seen = await look(services, run)
        return seen if seen.state in ENDED else None

    result: Run = await until(found, seconds)
    return result


async def tickets(services: Services) -> int:
    async with await psycopg.AsyncConnection.connect(services.database.worker, autocommit=True) as connection:
        cursor = await connection.execute("select count(*)::int from procrastinate_jobs")
        row = await cursor.fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def no_tickets(services: Services) -> bool:
    return await tickets(services) == 0


async def begun(services: Services, run: UUID) -> Job:
    """The run, as a worker has it that has just fetched it."""
    async with services.tenancy.acting_as(SERVICE) as tx:
        row = await tx.one(BEGIN, {"id": run})
    return Job(**{name: row[name] for name in COLUMNS}, tenancy=services.tenancy)
