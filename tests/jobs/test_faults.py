"""Jobs that fail, workers that die, databases that restart: nothing is lost, nothing done twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from recollect.bank.models import Put
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import NotFound, Superseded
from recollect.jobs.engine import open_engine
from recollect.jobs.models import Counts, GiveUp, Job, Task, TryLater
from recollect.jobs.worker import DEATHS
from tests.conftest import QUICK, Person, until, working
from tests.jobs.conftest import begun, ended, look, no_tickets, queue, tickets

pytestmark = pytest.mark.anyio


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
    assert run.error.startswith("ValueError at test_faults.py:")
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


async def test_a_worker_that_stops_lets_running_jobs_end(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def steady(job: Job) -> Counts:
        begun.set()
        await asyncio.sleep(QUICK.stop / 2)
        return {"attempt": job.attempt}

    async def ends_before_it() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(QUICK.stop / 8)

    services.jobs.offer(Task("steady", steady))
    monkeypatch.setattr(services.relay, "watch", ends_before_it)
    async with working(services):
        queued = await queue(services, "steady")
        await begun.wait()
    run = await look(services, queued)
    assert (run.state, run.result) == ("succeeded", {"attempt": 1})


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


async def test_a_job_that_was_fetched_and_never_heard_of_is_given_back(
    services: Services, database_url: str
) -> None:
    """The database went away between taking it and saying so."""
    async with open_engine(services.database.worker, 1, QUICK) as (_, manager):
        worker_id = await manager.register_worker()
        queued = await queue(services, "x")
        in_hand = await manager.fetch_job(None, worker_id)
        lost = await queue(services, "y")
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            # As if the answer had been on its way when the connections were cut.
            await connection.execute(
                "update jobs.procrastinate_jobs set status = 'doing', worker_id = %s where status = 'todo'",
                (worker_id,),
            )
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        assert await manager.fetch_job(None, worker_id) is None
        again = await until(lambda: manager.fetch_job(None, worker_id))
    assert in_hand is not None
    assert [each.task_kwargs["run"] for each in (in_hand, again)] == [str(queued), str(lost)]


async def test_jobs_of_one_key_that_died_together_are_all_done_again(
    services: Services, database_url: str
) -> None:
    times: list[str] = []

    async def note(job: Job) -> None:
        times.append(str(job.id))

    services.jobs.offer(Task("note", note))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        runs = []
        for _ in range(3):
            runs.append(await queue(services, "note", key="k"))
            # Begun, so that the key is free for the next one; and then its worker dies.
            await connection.execute("update jobs.procrastinate_jobs set status = 'doing'")
    async with working(services):
        for run in runs:
            await ended(services, run)
    assert sorted(times) == sorted(map(str, runs))
