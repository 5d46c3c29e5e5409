"""Jobs by the Python client, against a real server and a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from recollect.bootstrap import Services
from recollect.client import Job as SeenJob
from recollect.client import Recollect
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.jobs.models import Counts, GiveUp, Job, Task
from tests.api.working import enqueue, working
from tests.client.relay import relaying
from tests.conftest import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory(address: str, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(address, key=ana.key) as client:
        yield client


async def test_a_job_is_waited_for_and_its_progress_told(
    services: Services, memory: Recollect, ana: Person
) -> None:
    go_on = asyncio.Event()

    async def count(job: Job) -> Counts:
        await job.progress(1, 2)
        await go_on.wait()
        return {"counted": 2}

    seen: list[tuple[str, int]] = []

    def look(job: SeenJob) -> None:
        seen.append((job.state, job.done))
        if job.done == 1:
            go_on.set()

    services.jobs.offer(Task("test.count", count))
    job = await enqueue(services, "test.count", by=ana.caller)
    async with working(services), asyncio.timeout(30):
        ended = await memory.wait_for_job(job, on_progress=look)

    assert (ended.id, ended.state, ended.result, ended.has_ended) == (job, "succeeded", {"counted": 2}, True)
    assert ("running", 1) in seen
    assert await memory.job(str(job)) == ended


async def test_a_job_that_failed_is_an_answer_and_can_be_tried_again(
    services: Services, memory: Recollect, ana: Person
) -> None:
    async def fail(job: Job) -> None:
        del job
        raise GiveUp("It cannot be done.")

    services.jobs.offer(Task("test.fail", fail))
    job = await enqueue(services, "test.fail", by=ana.caller)
    async with working(services), asyncio.timeout(30):
        ended = await memory.wait_for_job(job)
    assert (ended.state, ended.error) == ("failed", "It cannot be done.")
    assert [failure.error for failure in ended.failures] == ["It cannot be done."]

    assert (await memory.retry_job(job)).state == "waiting"
    assert (await memory.cancel_job(job)).state == "cancelled"
    with pytest.raises(Conflict, match="ended already"):
        await memory.cancel_job(job)


async def test_jobs_are_listed_newest_first_up_to_a_limit(
    services: Services, memory: Recollect, ana: Person, ben: Person
) -> None:
    newest_first = [await enqueue(services, f"test.{n % 2}", by=ana.caller) for n in range(4)][::-1]
    await enqueue(services, "test.0", by=ben.caller)

    async def ids(**wanted: object) -> list[UUID]:
        return [job.id for job in await memory.jobs(**wanted)]  # type: ignore[arg-type]  # each by its name

    assert await ids() == newest_first
    assert await ids(limit=3) == newest_first[:3]
    assert await ids(task="test.1", state="waiting") == newest_first[::2]
    assert await ids(state="failed") == []
    with pytest.raises(InvalidInput, match="state"):
        await memory.jobs(state="lost")
    with pytest.raises(InvalidInput, match="limit"):
        await memory.jobs(limit=0)


async def test_a_cancellation_whose_answer_was_lost_is_sent_again_and_happens_once(
    services: Services, address: str, ana: Person
) -> None:
    job = await enqueue(services, "test.a", by=ana.caller)
    async with relaying(address) as relay, Recollect(relay.address, key=ana.key) as memory:
        relay.lost_answers = 1

        assert (await memory.cancel_job(job)).state == "cancelled"


async def test_a_job_that_is_not_there_or_no_id_is_refused(memory: Recollect) -> None:
    for call in (memory.job, memory.cancel_job, memory.retry_job, memory.wait_for_job):
        with pytest.raises(NotFound):
            await call(uuid4())
        with pytest.raises(InvalidInput, match="job_id"):
            await call("../counts")
