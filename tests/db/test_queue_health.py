"""The doctor and the metrics say when work is left lying."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from recollect.bootstrap import Services
from recollect.db.health.queue import of_queue
from tests.conftest import Person

pytestmark = pytest.mark.anyio

Connection = psycopg.AsyncConnection[DictRow]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as opened:
        yield opened


async def queue_one(services: Services, person: Person) -> None:
    async with services.tenancy.acting_as(person.caller) as tx:
        await services.jobs.enqueue(tx, "x")


async def statuses(connection: Connection) -> dict[str, str]:
    return {check.name: check.status for check in await of_queue(connection)}


async def test_all_is_well_when_nothing_waits(connection: Connection) -> None:
    assert await statuses(connection) == {"jobs": "ok", "events": "ok"}


async def test_work_that_nobody_does_is_found(
    connection: Connection, services: Services, ana: Person
) -> None:
    await queue_one(services, ana)
    await ana.http.post(ana.memory, json={"key": "a", "value": 1})
    assert await statuses(connection) == {"jobs": "ok", "events": "ok"}
    await connection.execute("update jobs.runs set due_at = now() - interval '2 minutes'")
    await connection.execute("update events.log set happened_at = now() - interval '2 minutes'")
    assert await statuses(connection) == {"jobs": "fail", "events": "fail"}
    await connection.execute("insert into jobs.procrastinate_workers default values")
    assert (await statuses(connection))["jobs"] == "warn"


async def test_dead_letters_are_mentioned(connection: Connection, services: Services, ana: Person) -> None:
    await queue_one(services, ana)
    await connection.execute("update jobs.runs set state = 'failed', finished_at = now()")
    [jobs, _] = await of_queue(connection)
    assert (jobs.status, "1 jobs failed" in jobs.detail) == ("warn", True)


async def test_the_metrics_tell_the_backlog(
    anonymous: httpx.AsyncClient, services: Services, ana: Person
) -> None:
    await queue_one(services, ana)
    text = (await anonymous.get("/metrics")).text
    assert "recollect_jobs_waiting 1.0" in text
    assert "recollect_live_listeners 0.0" in text
