"""Jobs: queued with the change that wants them, done once, with their user's rights."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.access.membership_models import NamedWorkspace
from recollect.bank.models import Put
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import NOBODY, SERVICE
from recollect.errors import NotAllowed, NotFound, NotSignedIn, Superseded
from recollect.jobs.models import Counts, GiveUp, Job, Task, TryLater
from recollect.jobs.worker import DEATHS
from tests.conftest import QUICK, Person, until, working
from tests.jobs.conftest import ended, look, queue, tickets

pytestmark = pytest.mark.anyio

COLUMNS = {field.name for field in fields(Job)} - {"tenancy", "is_finished", "_step", "_told_at"}
BEGIN = Query(
    "begin",
    "For the test.",
    "select b.* from jobs.runs r, private.begin_run(r.id, r.ticket) b"
    " where r.id = %(id)s and b.id is not null",
)


async def no_tickets(services: Services) -> bool:
    return await tickets(services) == 0


async def begun(services: Services, run: UUID) -> Job:
    """The run, as a worker has it that has just fetched it."""
    async with services.tenancy.acting_as(SERVICE) as tx:
        row = await tx.one(BEGIN, {"id": run})
    return Job(**{name: row[name] for name in COLUMNS}, tenancy=services.tenancy)


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


async def test_a_failing_job_is_tried_again_and_then_put_aside(
    services: Services, worker: None, ana: Person
) -> None:
    async def fail(job: Job) -> Counts:
        raise ValueError(f"my password is hunter{job.attempt}")

    services.jobs.offer(Task("fail", fail, attempts=3))
    run = await ended(services, await queue(services, "fail", by=ana.caller))
    assert (run.state, run.attempt) == ("failed", 3)
    assert [failure.attempt for failure in run.failures] == [1, 2, 3]
    # The kind and the place, not the text: it may quote what is private.
    assert run.error is not None
    assert run.error.startswith("ValueError at test_queue.py:")
    assert "hunter" not in run.model_dump_json()

    async def told() -> list[object]:
        async with services.tenancy.acting_as(ana.caller) as tx:
            return [e for e in await services.events.list(tx) if e.type == "job.failed"]

    [event] = await until(told)
    assert event.data == {"task": "fail", "error": run.error}
    assert event.subject == f"job/{run.id}"


async def test_a_dead_letter_can_be_tried_again(services: Services, worker: None, ana: Person) -> None:
    is_mended = False

    async def fragile(job: Job) -> Counts:
        if not is_mended:
            raise GiveUp("It is broken.")
        return {"done": 1}

    services.jobs.offer(Task("fragile", fragile))
    queued = await queue(services, "fragile", by=ana.caller)
    run = await ended(services, queued)
    assert (run.state, run.error, run.attempt) == ("failed", "It is broken.", 1)
    is_mended = True
    async with services.tenancy.acting_as(ana.caller) as tx:
        assert (await services.jobs.retry(tx, queued)).state == "waiting"
    run = await ended(services, queued)
    assert (run.state, run.result, len(run.failures)) == ("succeeded", {"done": 1}, 1)


async def test_trying_later_is_no_failure(services: Services, worker: None) -> None:
    asked = 0

    async def impatient(job: Job) -> None:
        nonlocal asked
        asked += 1
        if asked < 4:
            raise TryLater(timedelta(milliseconds=10))

    services.jobs.offer(Task("impatient", impatient, attempts=1))
    run = await ended(services, await queue(services, "impatient"))
    assert (run.state, run.attempt, run.failures) == ("succeeded", 1, [])


async def test_an_unknown_task_is_put_aside_with_its_name(services: Services, worker: None) -> None:
    run = await ended(services, await queue(services, "no.such"))
    assert (run.state, run.error) == ("failed", 'No worker here knows the task "no.such".')


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


async def test_who_lost_a_job_can_do_nothing_in_its_name(services: Services, ana: Person) -> None:
    queued = await queue(services, "x", by=ana.caller)
    slow = await begun(services, queued)
    quick = await begun(services, queued)
    with pytest.raises(Superseded):
        async with slow.step() as tx:
            await services.bank.put(tx, ana.id, Put(key="a", value="slow"))
    with pytest.raises(Superseded):
        await slow.progress(1, 1)
    async with quick.step() as tx:
        await services.bank.put(tx, ana.id, Put(key="a", value="quick"))
        await quick.finish(tx, {"written": 1})
    for late in (slow, quick):
        with pytest.raises(Superseded):
            async with late.step():
                pass
    assert (await look(services, queued)).result == {"written": 1}


async def test_a_job_is_not_taken_over_in_the_middle_of_a_step(services: Services, ana: Person) -> None:
    queued = await queue(services, "x", by=ana.caller)
    job = await begun(services, queued)
    async with job.step() as tx:
        taking = asyncio.create_task(begun(services, queued))
        await services.bank.put(tx, ana.id, Put(key="a", value=1))
        assert not taking.done()
        await job.finish(tx)
    with pytest.raises(NotFound):
        await taking


async def test_what_is_done_is_not_done_again_whatever_happens_afterwards(services: Services) -> None:
    times = 0

    async def effect(job: Job) -> None:
        nonlocal times
        times += 1
        async with job.step() as tx:
            await job.finish(tx, {"times": times})
        raise ConnectionError("the worker falls over")

    services.jobs.offer(Task("effect", effect))
    queued = await queue(services, "effect")
    async with working(services):
        await until(lambda: no_tickets(services))
        # A second look by the worker, which would find what was given back.
        await ended(services, await queue(services, "no.such"))
    run = await look(services, queued)
    assert (run.state, run.result, run.error, times) == ("succeeded", {"times": 1}, None, 1)


async def test_a_job_whose_worker_dies_each_time_is_put_aside(services: Services) -> None:
    queued = await queue(services, "deadly")
    for _ in range(DEATHS):
        await begun(services, queued)  # and nothing more is heard of it

    async def deadly(job: Job) -> None:
        raise AssertionError("it must not be tried again")

    services.jobs.offer(Task("deadly", deadly, attempts=2))
    async with working(services):
        run = await ended(services, queued)
    assert (run.state, run.error) == ("failed", "Its worker died each time.")


async def test_a_worker_that_stops_gives_back_what_it_has_not_done(services: Services) -> None:
    entered = asyncio.Event()
    is_second = False

    async def long(job: Job) -> None:
        entered.set()
        if not is_second:
            await asyncio.sleep(60)

    services.jobs.offer(Task("long", long))
    queued = await queue(services, "long")
    async with working(services):
        await entered.wait()
    run = await look(services, queued)
    assert (run.state, run.attempt) == ("waiting", 0)
    is_second = True
    async with working(services):
        assert (await ended(services, queued)).state == "succeeded"


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


async def test_a_ticket_that_a_job_had_before_is_void(services: Services, database_url: str) -> None:
    """Cancelled while its worker was dead, and tried again: the old ticket comes up as well."""
    begun_times = 0

    async def effect(job: Job) -> None:
        nonlocal begun_times
        begun_times += 1

    services.jobs.offer(Task("effect", effect))
    queued = await queue(services, "effect")
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        # As a worker leaves it that fetched it and died.
        await connection.execute("update jobs.procrastinate_jobs set status = 'doing'")
    async with services.tenancy.acting_as(SERVICE) as tx:
        await services.jobs.cancel(tx, queued)
    async with services.tenancy.acting_as(SERVICE) as tx:
        await services.jobs.retry(tx, queued)
    assert await tickets(services) == 2
    async with working(services):
        await until(lambda: no_tickets(services))
    assert begun_times == 1
    assert (await look(services, queued)).state == "succeeded"


async def test_a_long_job_lives_through_a_restart_of_the_database(
    services: Services, worker: None, database_url: str
) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def long(job: Job) -> Counts:
        entered.set()
        await go.wait()
        return {"attempt": job.attempt}

    services.jobs.offer(Task("long", long))
    queued = await queue(services, "long")
    await entered.wait()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        for _ in range(20):
            # Everybody's connection is cut, again and again, for longer than a worker waits when it stops.
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.3)
    go.set()
    assert (await ended(services, queued)).result == {"attempt": 1}


async def test_a_worker_that_was_taken_for_dead_signs_on_again(
    services: Services, worker: None, database_url: str
) -> None:
    async def nothing(job: Job) -> None:
        pass

    services.jobs.offer(Task("nothing", nothing))
    await ended(services, await queue(services, "nothing"))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("delete from jobs.procrastinate_workers")
    assert (await ended(services, await queue(services, "nothing"))).state == "succeeded"


async def test_a_long_job_of_a_living_worker_is_left_alone(services: Services, worker: None) -> None:
    async def long(job: Job) -> Counts:
        await asyncio.sleep(QUICK.stalled_after + 2 * QUICK.sweep)
        return {"attempt": job.attempt}

    services.jobs.offer(Task("long", long))
    assert (await ended(services, await queue(services, "long"))).result == {"attempt": 1}


@pytest.mark.parametrize("words", ["with a NUL \0 in it", "with half a character \ud800 in it"])
async def test_a_reason_that_postgres_cannot_store_loses_no_job(
    services: Services, worker: None, words: str
) -> None:
    async def odd(job: Job) -> None:
        raise GiveUp(words)

    services.jobs.offer(Task("odd", odd))
    run = await ended(services, await queue(services, "odd"))
    assert run.state == "failed"
    assert run.error
    assert run.error.startswith("with ")


async def test_a_task_that_was_cancelled_from_within_has_failed(services: Services, worker: None) -> None:
    async def careless(job: Job) -> None:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    services.jobs.offer(Task("careless", careless, attempts=2))
    run = await ended(services, await queue(services, "careless"))
    assert (run.state, len(run.failures)) == ("failed", 2)


async def test_what_is_for_the_server_to_do_is_not_done_for_users(
    services: Services, worker: None, ana: Person
) -> None:
    run = await ended(services, await queue(services, "retention", by=ana.caller))
    assert (run.state, run.result) == ("failed", None)


async def test_interruptions_do_not_use_up_the_attempts(services: Services) -> None:
    async def fragile(job: Job) -> Counts:
        if job.failed == 0:
            raise ConnectionError
        return {"attempt": job.attempt}

    services.jobs.offer(Task("fragile", fragile, attempts=2))
    queued = await queue(services, "fragile")
    for _ in range(3):
        await begun(services, queued)  # its worker dies
    async with working(services):
        assert (await ended(services, queued)).result == {"attempt": 5}


async def test_progress_within_a_step_is_part_of_it(services: Services, worker: None, ana: Person) -> None:
    async def half(job: Job) -> None:
        async with job.step():
            await job.progress(1, 2)
            raise GiveUp("undone")

    services.jobs.offer(Task("half", half))
    run = await ended(services, await queue(services, "half", by=ana.caller))
    assert (run.done, run.total) == (0, None)
