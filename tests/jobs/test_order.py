"""Which job is done when: keys, order, and a fair share for every tenant."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.jobs.models import Job, Task
from tests.conftest import Person, until, working
from tests.jobs.conftest import ended, queue, tickets

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
