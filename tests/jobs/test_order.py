"""Which job is done when: keys, order, and a fair share for every tenant."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from recollect.access.membership_models import NamedWorkspace, NewWorkspaceMember
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.jobs.models import Job, Task, TryLater
from tests.conftest import Person, until, working
from tests.jobs.conftest import ended, look, queue, tickets

pytestmark = pytest.mark.anyio


async def test_one_job_waits_per_key(services: Services, ana: Person, ben: Person) -> None:
    first = await queue(services, "x", by=ana.caller, key="daily")
    assert await queue(services, "x", by=ana.caller, key="daily") == first
    assert await queue(services, "x", by=ana.caller, key="other") != first
    assert await queue(services, "y", by=ana.caller, key="daily") != first
    assert await queue(services, "x", by=ben.caller, key="daily") != first
    assert await tickets(services) == 4
    many = await asyncio.gather(*(queue(services, "x", key="at once") for _ in range(10)))
    assert len(set(many)) == 1


async def test_a_key_is_free_again_when_its_job_has_begun(services: Services) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def wait(job: Job) -> None:
        entered.set()
        await go.wait()

    services.jobs.offer(Task("wait", wait))
    first = await queue(services, "wait", key="k")
    async with working(services):
        await entered.wait()
        second = await queue(services, "wait", key="k")
        assert second != first
        go.set()
        assert (await ended(services, first)).state == (await ended(services, second)).state == "succeeded"


async def test_one_tenants_many_jobs_do_not_starve_anothers_one(
    services: Services, ana: Person, ben: Person
) -> None:
    order: list[UUID | None] = []

    async def note(job: Job) -> None:
        order.append(job.user_id)

    services.jobs.offer(Task("note", note))
    async with services.tenancy.acting_as(ana.caller) as tx:
        for _ in range(200):
            await services.jobs.enqueue(tx, "note")
    await queue(services, "note", by=ben.caller)
    async with working(services, concurrency=1):
        # Queued while the other's are being done, it does not wait for them either.
        await until(lambda: len(order) >= 50)
        done_before = len(order)
        late = await queue(services, "note", by=ben.caller)
        await ended(services, late)
        served = [position for position, user in enumerate(order) if user == ben.id]
        assert served[0] <= 2
        assert served[1] <= done_before + 20
        await until(lambda: len(order) == 202)


async def test_a_tenant_with_a_backlog_is_not_starved_by_a_stream_of_others(
    services: Services, ana: Person, ben: Person
) -> None:
    order: list[UUID | None] = []

    async def note(job: Job) -> None:
        order.append(job.user_id)
        if job.user_id == ben.id and len(order) < 300:
            # There is always another one of ben's.
            async with job.step() as tx:
                await services.jobs.enqueue(tx, "note")

    services.jobs.offer(Task("note", note))
    async with services.tenancy.acting_as(ana.caller) as tx:
        for _ in range(30):
            await services.jobs.enqueue(tx, "note")
    await queue(services, "note", by=ben.caller)
    async with working(services, concurrency=1):
        await until(lambda: order.count(ana.id) == 30)
    assert len(order) < 100


async def test_jobs_about_one_thing_are_done_in_order_even_when_one_fails(services: Services) -> None:
    order: list[int] = []

    async def note(job: Job) -> None:
        if job.arguments["n"] == 0 and job.attempt < 3:
            raise ValueError
        order.append(job.arguments["n"])

    services.jobs.offer(Task("note", note))
    async with services.tenancy.acting_as(SERVICE) as tx:
        runs = [await services.jobs.enqueue(tx, "note", {"n": n}, in_order_of="subject") for n in range(8)]
    async with working(services, concurrency=8):
        for run in runs:
            await ended(services, run)
    assert order == list(range(8))


async def test_members_of_a_workspace_queue_by_the_same_key_without_waiting_for_each_other(
    services: Services, ana: Person, ben: Person
) -> None:
    async with services.tenancy.acting_as(ana.caller) as tx:
        shared = (await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))).id
        await services.membership.workspace_members.add(tx, shared, NewWorkspaceMember(user_id=ben.id))
    runs = [
        await queue(services, "x", by=caller, key="k", workspace_id=shared)
        for caller in (ana.caller, ben.caller, SERVICE, ana.caller)
    ]
    assert len(set(runs)) == 3
    assert runs[0] == runs[3]


async def test_nobody_waits_for_a_strangers_order(services: Services, ana: Person, ben: Person) -> None:
    async def nothing(job: Job) -> None:
        pass

    services.jobs.offer(Task("nothing", nothing))
    never = datetime.now(UTC) + timedelta(days=3650)
    await queue(services, "nothing", by=ana.caller, in_order_of="thing", at=never)
    async with working(services):
        run = await queue(services, "nothing", by=ben.caller, in_order_of="thing")
        assert (await ended(services, run)).state == "succeeded"


async def test_order_holds_also_where_a_later_one_is_for_later(services: Services) -> None:
    order: list[int] = []

    async def note(job: Job) -> None:
        order.append(job.arguments["n"])

    services.jobs.offer(Task("note", note))
    soon = datetime.now(UTC) + timedelta(milliseconds=200)
    async with services.tenancy.acting_as(SERVICE) as tx:
        runs = [
            await services.jobs.enqueue(tx, "note", {"n": n}, in_order_of="s", at=soon if n == 1 else None)
            for n in range(3)
        ]
    async with working(services):
        for run in runs:
            await ended(services, run)
    assert order == [0, 1, 2]


async def test_a_key_stays_taken_while_its_job_waits_to_be_tried_again(
    services: Services, worker: None
) -> None:
    tried = asyncio.Event()

    async def later(job: Job) -> None:
        tried.set()
        raise TryLater(timedelta(days=1))

    services.jobs.offer(Task("later", later))
    first = await queue(services, "later", key="k")
    await tried.wait()

    async def is_back() -> bool:
        return (await look(services, first)).state == "waiting"

    await until(is_back)
    await until(lambda: _given_back(services))
    assert await queue(services, "later", key="k") == first


async def _given_back(services: Services) -> bool:
    async with await psycopg.AsyncConnection.connect(services.database.worker, autocommit=True) as connection:
        cursor = await connection.execute("select count(*) from procrastinate_jobs where status = 'todo'")
        return await cursor.fetchone() == (1,)


async def test_ones_jobs_are_listed_with_those_of_ones_workspaces_once_each(
    services: Services, ana: Person, ben: Person
) -> None:
    async with services.tenancy.acting_as(ana.caller) as tx:
        shared = (await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))).id
        await services.membership.workspace_members.add(tx, shared, NewWorkspaceMember(user_id=ben.id))
    both = await queue(services, "x", by=ana.caller, workspace_id=shared)
    own = await queue(services, "x", by=ana.caller)
    await queue(services, "x")
    for caller, seen in ((ana.caller, [own, both]), (ben.caller, [both])):
        async with services.tenancy.acting_as(caller) as tx:
            assert [run.id for run in await services.jobs.list(tx)] == seen
            assert await services.jobs.counts(tx) == {"waiting": len(seen)}
    async with services.tenancy.acting_as(SERVICE) as tx:
        assert await services.jobs.counts(tx) == {"waiting": 3}
