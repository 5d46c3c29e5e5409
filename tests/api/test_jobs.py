"""Jobs over HTTP: everybody sees and changes their own, workspaces theirs, admins all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from recollect.bootstrap import Services
from recollect.errors import Superseded
from recollect.jobs.models import Counts, GiveUp, Job, Task
from tests.api.raw import assert_problem
from tests.api.working import enqueue, until, until_ended, working
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio


async def idle(job: Job) -> Counts:
    del job
    return {"idled": 1}


@pytest.fixture
async def worker(services: Services) -> AsyncIterator[None]:
    services.jobs.offer(Task("test.idle", idle))
    async with working(services):
        yield


async def listed(person: Person, path: str = "/api/jobs", **wanted: Any) -> list[str]:
    answer = await person.http.get(path, params=wanted)
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["data"]]


async def shared_by(owner: Person, *others: tuple[Person, str]) -> UUID:
    """A workspace with these members."""
    place = (await owner.http.post("/api/workspaces", json={"name": "Team"})).json()["id"]
    for other, role in others:
        body = {"email": other.email, "role": role}
        answer = await owner.http.post(f"/api/workspaces/{place}/members", json=body)
        assert answer.status_code == 201, answer.text
    return UUID(place)


# Looking


@pytest.mark.usefixtures("worker")
async def test_a_job_tells_who_asked_how_it_went_and_how_long_it_took(
    services: Services, ana: Person
) -> None:
    job = await enqueue(services, "test.idle", {"a": [1]}, by=ana.caller)
    await until_ended(services, job)

    found = (await ana.http.get(f"/api/jobs/{job}")).json()

    assert (found["state"], found["result"], found["attempt"]) == ("succeeded", {"idled": 1}, 1)
    assert (found["task"], found["arguments"], found["origin"]) == ("test.idle", {"a": [1]}, "request")
    assert (found["user_id"], found["asked_by"]) == (str(ana.id), str(ana.id))
    assert found["created_at"] <= found["started_at"] <= found["finished_at"]
    assert (found["error"], found["failures"]) == (None, [])


async def test_progress_can_be_read_while_a_job_runs(services: Services, ana: Person) -> None:
    at_half, go_on = asyncio.Event(), asyncio.Event()

    async def count(job: Job) -> None:
        await job.progress(5, 10)
        at_half.set()
        await go_on.wait()
        await job.progress(10, 10)

    services.jobs.offer(Task("test.count", count))
    job = await enqueue(services, "test.count", by=ana.caller)
    async with working(services):
        await asyncio.wait_for(at_half.wait(), 30)
        running = (await ana.http.get(f"/api/jobs/{job}")).json()
        assert (running["state"], running["done"], running["total"]) == ("running", 5, 10)
        assert await listed(ana, state="running") == [str(job)]
        go_on.set()
        await until_ended(services, job)
    ended = (await ana.http.get(f"/api/jobs/{job}")).json()
    assert (ended["state"], ended["done"], ended["total"]) == ("succeeded", 10, 10)


async def test_jobs_are_listed_newest_first_in_pages_and_by_state_and_task(
    services: Services, ana: Person
) -> None:
    tasks = ("test.a", "test.b", "test.a", "test.b", "test.a")
    newest_first = [str(await enqueue(services, task, by=ana.caller)) for task in tasks][::-1]
    await ana.http.post(f"/api/jobs/{newest_first[0]}/cancel")

    assert await listed(ana) == newest_first
    assert await listed(ana, task="test.b") == [newest_first[1], newest_first[3]]
    assert await listed(ana, state="cancelled") == newest_first[:1]
    assert await listed(ana, state="cancelled", task="test.b") == []

    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await ana.http.get("/api/jobs", params={"limit": 2, "state": "waiting", **cursor})).json()
        pages.append([each["id"] for each in page["data"]])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert pages == [newest_first[1:3], newest_first[3:]]


async def test_a_cursor_is_good_for_its_own_list_and_caller_alone(
    services: Services, ana: Person, ben: Person, admin: Person
) -> None:
    for person in (ana, ana, ben):
        await enqueue(services, "test.a", by=person.caller)
    cursor = (await ana.http.get("/api/jobs", params={"limit": 1})).json()["nextCursor"]

    for http, path, more in (
        (ben.http, "/api/jobs", {}),
        (ana.http, "/api/jobs", {"state": "waiting"}),
        (ana.http, "/api/jobs", {"task": "test.a"}),
        (admin.http, "/api/admin/jobs", {}),
    ):
        refused = await http.get(path, params={"cursor": cursor, **more})
        assert_problem(refused, 422, "invalid_cursor")


@pytest.mark.parametrize(
    "wanted", [{"state": "lost"}, {"task": ""}, {"task": "t" * 129}, {"limit": "0"}, {"more": "1"}]
)
async def test_a_list_that_makes_no_sense_is_refused(ana: Person, wanted: dict[str, str]) -> None:
    assert_problem(await ana.http.get("/api/jobs", params=wanted), 422, "invalid_input")


async def test_jobs_are_counted_by_state(services: Services, ana: Person, ben: Person) -> None:
    none = {"waiting": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    job, _ = [await enqueue(services, "test.a", by=ana.caller) for _ in range(2)]
    await ana.http.post(f"/api/jobs/{job}/cancel")

    assert (await ana.http.get("/api/jobs/counts")).json() == {**none, "waiting": 1, "cancelled": 1}
    assert (await ben.http.get("/api/jobs/counts")).json() == none


# Whose


async def test_anothers_job_is_as_if_there_were_none(services: Services, ana: Person, ben: Person) -> None:
    job = await enqueue(services, "test.a", {"secret": "ana's"}, by=ana.caller)
    for method, what in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
        theirs = await ben.http.request(method, f"/api/jobs/{job}{what}")
        nowhere = await ben.http.request(method, f"/api/jobs/{uuid4()}{what}")
        assert_problem(theirs, 404)
        assert theirs.json() == nowhere.json()
    assert await listed(ben) == []
    assert (await ana.http.get(f"/api/jobs/{job}")).json()["state"] == "waiting"


async def test_a_workspace_sees_its_jobs_and_its_admins_change_them(
    services: Services, ana: Person, ben: Person, person: MakePerson
) -> None:
    eva = await person("eva@example.com")
    team = await shared_by(ana, (ben, "member"), (eva, "admin"))
    job = await enqueue(services, "test.a", by=ana.caller, workspace_id=team)

    assert await listed(ben) == await listed(eva) == [str(job)]
    assert_problem(await ben.http.post(f"/api/jobs/{job}/cancel"), 404)
    assert (await eva.http.post(f"/api/jobs/{job}/cancel")).json()["state"] == "cancelled"


async def test_a_key_that_may_only_read_cancels_and_retries_nothing(
    services: Services, person: MakePerson
) -> None:
    reader = await person("eva@example.com", scopes=("jobs:read",))
    job = await enqueue(services, "test.a", by=reader.caller)

    assert await listed(reader) == [str(job)]
    for what in ("cancel", "retry"):
        assert_problem(await reader.http.post(f"/api/jobs/{job}/{what}"), 403, "not_allowed")


async def test_a_stranger_sees_nothing(anonymous: httpx.AsyncClient) -> None:
    for path in ("/api/jobs", "/api/jobs/counts", f"/api/jobs/{uuid4()}", "/api/admin/jobs", "/api/schedule"):
        assert_problem(await anonymous.get(path), 401, "not_signed_in")


# Stopping


async def test_a_waiting_job_that_is_cancelled_never_runs(services: Services, ana: Person) -> None:
    ran: list[UUID] = []

    async def note(job: Job) -> None:
        ran.append(job.id)

    services.jobs.offer(Task("test.note", note))
    job, other = [await enqueue(services, "test.note", by=ana.caller) for _ in range(2)]

    cancelled = await ana.http.post(f"/api/jobs/{job}/cancel")

    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    async with working(services):
        await until_ended(services, other)
    assert ran == [other]
    assert_problem(await ana.http.post(f"/api/jobs/{job}/cancel"), 409, "conflict")


async def test_a_running_job_that_is_cancelled_gets_no_further_step(services: Services, ana: Person) -> None:
    began = asyncio.Event()
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def two_steps(job: Job) -> None:
        async with job.step() as tx:
            await services.bank.set_memory_key(tx, ana.id, "first", 1)
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            # The engine interrupts the task, once; one that does not listen is stopped by its next step.
            await asyncio.Event().wait()
        try:
            async with job.step() as tx:
                await services.bank.set_memory_key(tx, ana.id, "second", 2)
        except Superseded as error:
            outcome.set_result(error.detail)
            raise
        outcome.set_result("it went on")

    services.jobs.offer(Task("test.steps", two_steps))
    job = await enqueue(services, "test.steps", by=ana.caller)
    async with working(services):
        await asyncio.wait_for(began.wait(), 30)
        answer = await ana.http.post(f"/api/jobs/{job}/cancel")
        assert answer.json()["state"] == "cancelled"
        assert "cancelled" in await asyncio.wait_for(outcome, 30)
    found = (await ana.http.get(f"/api/jobs/{job}")).json()
    assert (found["state"], found["failures"]) == ("cancelled", [])
    entries = (await ana.http.get(ana.memory)).json()["data"]
    assert [entry["key"] for entry in entries] == ["first"]


async def test_a_job_that_waits_for_nothing_is_interrupted_when_cancelled(
    services: Services, ana: Person
) -> None:
    began, interrupted = asyncio.Event(), asyncio.Event()

    async def linger(job: Job) -> None:
        del job
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()

    services.jobs.offer(Task("test.linger", linger))
    job = await enqueue(services, "test.linger", by=ana.caller)
    async with working(services):
        await asyncio.wait_for(began.wait(), 30)
        await ana.http.post(f"/api/jobs/{job}/cancel")
        await asyncio.wait_for(interrupted.wait(), 30)
    assert (await until_ended(services, job)).state == "cancelled"


# Trying again


async def test_a_dead_letter_is_tried_again_with_all_its_attempts(services: Services, ana: Person) -> None:
    is_mended = False

    async def fragile(job: Job) -> Counts:
        del job
        if not is_mended:
            raise GiveUp("The other side is broken.")
        return {"mended": 1}

    services.jobs.offer(Task("test.fragile", fragile))
    job = await enqueue(services, "test.fragile", by=ana.caller)
    async with working(services):
        await until_ended(services, job)
        dead = (await ana.http.get("/api/jobs", params={"state": "failed"})).json()["data"]
        assert [(each["id"], each["error"]) for each in dead] == [(str(job), "The other side is broken.")]

        is_mended = True
        again = await ana.http.post(f"/api/jobs/{job}/retry")
        assert (again.status_code, again.json()["state"], again.json()["error"]) == (202, "waiting", None)
        await until(services, job, lambda run: run.state == "succeeded")

    found = (await ana.http.get(f"/api/jobs/{job}")).json()
    assert (found["result"], found["attempt"], found["error"]) == ({"mended": 1}, 1, None)
    assert [failure["error"] for failure in found["failures"]] == ["The other side is broken."]
    assert_problem(await ana.http.post(f"/api/jobs/{job}/retry"), 409, "conflict")


async def test_a_retry_sent_twice_under_one_key_is_one_retry(services: Services, ana: Person) -> None:
    job = await enqueue(services, "test.a", by=ana.caller)
    await ana.http.post(f"/api/jobs/{job}/cancel")
    once = {"Idempotency-Key": "again"}

    first, second = [await ana.http.post(f"/api/jobs/{job}/retry", headers=once) for _ in range(2)]

    assert (first.status_code, second.status_code) == (202, 202)
    assert second.headers["idempotency-replayed"] == "true"
    assert first.json() == second.json()


async def test_no_second_job_of_a_key_is_queued_by_retrying(services: Services, ana: Person) -> None:
    cancelled = await enqueue(services, "test.a", by=ana.caller, key="one")
    await ana.http.post(f"/api/jobs/{cancelled}/cancel")
    await enqueue(services, "test.a", by=ana.caller, key="one")

    refused = assert_problem(await ana.http.post(f"/api/jobs/{cancelled}/retry"), 409, "conflict")
    assert "same key" in refused["detail"]


# Admins


async def test_an_admin_sees_everybodys_jobs_and_the_services_own(
    services: Services, ana: Person, admin: Person
) -> None:
    of_ana = await enqueue(services, "test.a", by=ana.caller)
    of_service = await enqueue(services, "test.b")

    assert await listed(admin) == []
    assert await listed(admin, "/api/admin/jobs") == [str(of_service), str(of_ana)]
    assert await listed(admin, "/api/admin/jobs", task="test.a") == [str(of_ana)]
    assert (await admin.http.get("/api/admin/jobs/counts")).json()["waiting"] == 2
    assert (await admin.http.get(f"/api/admin/jobs/{of_service}")).json()["user_id"] is None

    for job in (of_ana, of_service):
        cancelled = await admin.http.post(f"/api/admin/jobs/{job}/cancel")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
        assert_problem(await admin.http.post(f"/api/admin/jobs/{job}/cancel"), 409)
        queued = await admin.http.post(f"/api/admin/jobs/{job}/retry")
        assert (queued.status_code, queued.json()["state"]) == (202, "waiting")
    assert_problem(await admin.http.get(f"/api/admin/jobs/{uuid4()}"), 404, "unknown_job")


async def test_only_admins_get_there_and_nothing_happens_for_others(
    services: Services, ana: Person, person: MakePerson
) -> None:
    no_longer = await person("eva@example.com", is_admin=True)
    await services.access.set_admin(no_longer.email, is_admin=False)
    job = await enqueue(services, "test.a")
    for other in (ana, no_longer):
        for method, path in (
            ("GET", "/api/admin/jobs"),
            ("GET", "/api/admin/jobs/counts"),
            ("GET", f"/api/admin/jobs/{job}"),
            ("POST", f"/api/admin/jobs/{job}/cancel"),
            ("POST", f"/api/admin/jobs/{job}/retry"),
            ("GET", "/api/schedule"),
        ):
            assert_problem(await other.http.request(method, path), 403, "not_allowed")
    assert (await until(services, job, lambda _: True)).state == "waiting"


# The schedule


async def test_the_schedule_says_what_comes_due_when(admin: Person) -> None:
    entries = {each["job"]: each for each in (await admin.http.get("/api/schedule")).json()["data"]}

    retention = entries["retention"]
    assert (retention["task"], retention["cron"], retention["per_workspace"]) == (
        "retention",
        "7 * * * *",
        False,
    )
    assert retention["next_tick"].endswith(":07:00Z")
    assert retention["last_tick"] is None
