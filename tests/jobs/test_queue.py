"""Jobs: queued with the change that wants them, done once, with their user's rights."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.access.membership_models import NamedWorkspace
from recollect.bank.models import Put
from recollect.bootstrap import Services
from recollect.db.tenancy import NOBODY
from recollect.errors import NotAllowed, NotFound, NotSignedIn
from recollect.jobs.models import Counts, GiveUp, Job, Task
from tests.conftest import Person, until
from tests.jobs.conftest import ended, look, no_tickets, queue, tickets

pytestmark = pytest.mark.anyio


async def test_a_job_exists_if_and_only_if_the_change_does(services: Services, ana: Person) -> None:
    with pytest.raises(RuntimeError, match="on second thought"):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.bank.put(tx, ana.id, Put(key="a", value=1))
            await services.jobs.enqueue(tx, "anything")
            raise RuntimeError("on second thought")
    assert await tickets(services) == 0
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.bank.put(tx, ana.id, Put(key="a", value=1))
        await services.jobs.enqueue(tx, "anything")
    assert await tickets(services) == 1


async def test_a_job_leaves_its_counts_and_times(services: Services, worker: None, ana: Person) -> None:
    async def count(job: Job) -> Counts:
        return {"sum": sum(job.arguments["numbers"])}

    services.jobs.offer(Task("count", count))
    run = await ended(services, await queue(services, "count", {"numbers": [1, 2]}, by=ana.caller))
    assert (run.state, run.result, run.attempt, run.origin) == ("succeeded", {"sum": 3}, 1, "request")
    assert (run.user_id, run.asked_by) == (ana.id, ana.id)
    assert run.started_at
    assert run.finished_at
    assert run.created_at <= run.started_at <= run.finished_at
    await until(lambda: no_tickets(services))


async def test_a_job_has_its_users_rights_and_no_more(
    services: Services, worker: None, ana: Person, ben: Person
) -> None:
    async def pry(job: Job) -> Counts:
        async with job.step() as tx:
            own = await services.bank.get_memory(tx, ana.id)
            others = await services.bank.get_memory(tx, UUID(job.arguments["victim"]))
        return {"own": len(own), "others": len(others)}

    services.jobs.offer(Task("pry", pry))
    for person in (ana, ben):
        async with services.tenancy.acting_as(person.caller) as tx:
            await services.bank.put(tx, person.id, Put(key="a", value=1))
    run = await ended(services, await queue(services, "pry", {"victim": str(ben.id)}, by=ana.caller))
    assert run.result == {"own": 1, "others": 0}


async def test_nobody_queues_for_others(services: Services, ana: Person, ben: Person) -> None:
    async with services.tenancy.acting_as(ben.caller) as tx:
        workspace = (await services.membership.create_workspace(tx, NamedWorkspace(name="Ben's"))).id
    with pytest.raises(NotAllowed):
        await queue(services, "x", by=ana.caller, user_id=ben.id)
    with pytest.raises(NotAllowed):
        await queue(services, "x", by=ana.caller, workspace_id=workspace)
    with pytest.raises((NotAllowed, NotSignedIn)):
        await queue(services, "x", by=NOBODY)
    run = await queue(services, "x", by=ben.caller, workspace_id=workspace)
    with pytest.raises(NotFound):
        await look(services, run, ana.caller)
    for verb in (services.jobs.cancel, services.jobs.retry):
        with pytest.raises(NotFound):
            async with services.tenancy.acting_as(ana.caller) as tx:
                await verb(tx, run)


async def test_a_job_for_later_waits_for_its_time(services: Services, worker: None) -> None:
    async def nothing(job: Job) -> None:
        pass

    services.jobs.offer(Task("nothing", nothing))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    later = await queue(services, "nothing", at=tomorrow)
    soon = await queue(services, "nothing", at=datetime.now(UTC) + timedelta(milliseconds=300))
    run = await ended(services, soon)
    assert run.started_at
    assert run.started_at >= run.due_at
    assert (await look(services, later)).state == "waiting"


async def test_progress_can_be_read_while_it_runs(services: Services, worker: None, ana: Person) -> None:
    told, go = asyncio.Event(), asyncio.Event()

    async def slow(job: Job) -> None:
        await job.progress(3, 10)
        told.set()
        await go.wait()

    services.jobs.offer(Task("slow", slow))
    queued = await queue(services, "slow", by=ana.caller)
    await told.wait()
    run = await look(services, queued, ana.caller)
    assert (run.state, run.done, run.total) == ("running", 3, 10)
    go.set()
    await ended(services, queued)


async def test_a_job_in_steps_goes_on_where_it_was_interrupted(
    services: Services, worker: None, ana: Person
) -> None:
    async def write(job: Job) -> None:
        for number in range(job.checkpoint or 0, 5):
            async with job.step() as tx:
                entry = {"key": f"k{number}", "value": job.attempt}
                await services.bank.put(tx, ana.id, Put(**entry))
                await job.progress(number + 1, 5, checkpoint=number + 1)
            if number == 2 and job.attempt == 1:
                raise ConnectionError

    services.jobs.offer(Task("write", write))
    run = await ended(services, await queue(services, "write", by=ana.caller))
    assert (run.state, run.done, run.total) == ("succeeded", 5, 5)
    async with services.tenancy.acting_as(ana.caller) as tx:
        entries = await services.bank.get_memory(tx, ana.id)
    assert [entry.value for entry in entries] == [1, 1, 1, 2, 2]


async def test_a_cancelled_job_stops_and_changes_nothing_more(
    services: Services, worker: None, ana: Person
) -> None:
    entered = asyncio.Event()
    was_cancelled = False

    async def endless(job: Job) -> None:
        nonlocal was_cancelled
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            was_cancelled = True

    services.jobs.offer(Task("endless", endless))
    queued = await queue(services, "endless", by=ana.caller)
    await entered.wait()
    async with services.tenancy.acting_as(ana.caller) as tx:
        assert (await services.jobs.cancel(tx, queued)).state == "cancelled"
    await until(lambda: no_tickets(services))
    assert was_cancelled
    assert (await look(services, queued)).state == "cancelled"


async def test_a_waiting_job_that_is_cancelled_never_begins(services: Services, ana: Person) -> None:
    queued = await queue(services, "whatever", by=ana.caller)
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.jobs.cancel(tx, queued)
    assert await tickets(services) == 0


async def test_with_a_user_go_their_jobs(services: Services, ana: Person, ben: Person) -> None:
    await queue(services, "x", by=ana.caller)
    kept = await queue(services, "x", by=ben.caller)
    await services.access.remove_user(ana.email)
    assert await tickets(services) == 1
    assert (await look(services, kept)).user_id == ben.id


async def test_finished_jobs_are_forgotten_in_time(
    services: Services, ana: Person, database_url: str
) -> None:
    old, fresh = [await queue(services, "x", by=ana.caller) for _ in range(2)]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "update jobs.runs set finished_at = now() - interval '31 days' where id = %s",
            (old,),
        )
    assert await services.jobs.purge(services.tenancy) == 1
    assert (await look(services, fresh)).state == "waiting"
    with pytest.raises(NotFound):
        await look(services, old)


async def test_a_job_that_is_not_there_is_not_found(services: Services, ana: Person) -> None:
    with pytest.raises(NotFound):
        await look(services, uuid4(), ana.caller)


async def test_what_is_for_the_server_to_do_is_not_done_for_users(
    services: Services, worker: None, ana: Person
) -> None:
    run = await ended(services, await queue(services, "retention", by=ana.caller))
    assert (run.state, run.result) == ("failed", None)


async def test_progress_within_a_step_is_part_of_it(services: Services, worker: None, ana: Person) -> None:
    async def half(job: Job) -> None:
        async with job.step():
            await job.progress(1, 2)
            raise GiveUp("undone")

    services.jobs.offer(Task("half", half))
    run = await ended(services, await queue(services, "half", by=ana.caller))
    assert (run.done, run.total) == (0, None)
