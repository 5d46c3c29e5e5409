"""Scheduled jobs, asked for by outside schedulers, and done for workspaces at hours of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.jobs.models import Counts, Job, Task
from recollect.jobs.schedule import Schedule
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.api.serving import serving
from tests.api.working import until_ended, working
from tests.conftest import MakePerson, Person, make_settings

pytestmark = pytest.mark.anyio

SECRET = "the secret of the crons"
DAILY = "30 3 * * *"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, cron_secret=SECRET)


async def _done(job: Job) -> Counts:
    del job
    return {"done": 1}


@pytest.fixture
async def services(services: Services) -> Services:
    """With two scheduled jobs of the tests: one for all, one for each workspace."""
    services.jobs.offer(
        # Once a year, so that no test meets the end of a period.
        Task("test.update", _done, every="0 0 1 1 *", cron="test-update"),
        Task("test.digest", _done, every="0 0 1 1 *", cron="digest", per_workspace=True),
    )
    return replace(services, schedule=Schedule(services.jobs, {"retention": "off"}))


@pytest.fixture
async def scheduler(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody outside who knows the secret."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=30) as client:
        yield client


async def runs_of(database_url: str, task: str) -> list[tuple[UUID, str, UUID | None]]:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        found = await connection.execute(
            "select id, origin, workspace_id from jobs.runs where task = %s", [task]
        )
        return await found.fetchall()


async def end_period(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute("update jobs.schedules set last_tick = last_tick - interval '1 year'")


# Outside schedulers


async def test_a_job_runs_once_in_its_period_however_often_it_is_asked_for(
    services: Services, scheduler: httpx.AsyncClient, database_url: str
) -> None:
    first = await scheduler.post("/api/cron/test-update")
    assert (first.status_code, first.json()["is_new"], first.json()["job"]) == (202, True, "test-update")
    run = UUID(first.json()["run"])
    async with working(services):
        ended = await until_ended(services, run)
    assert (ended.state, ended.origin, ended.user_id, ended.result) == (
        "succeeded",
        "cron",
        None,
        {"done": 1},
    )

    for method in ("POST", "GET"):
        again = await scheduler.request(method, "/api/cron/test-update")
        assert (again.status_code, again.json()) == (200, {**first.json(), "is_new": False})
    assert await runs_of(database_url, "test.update") == [(run, "cron", None)]


async def test_a_scheduler_that_can_only_get_is_served_too(scheduler: httpx.AsyncClient) -> None:
    answer = await scheduler.get("/api/cron/test-update")
    assert (answer.status_code, answer.json()["is_new"]) == (202, True)


async def test_twenty_calls_at_once_are_one_run(
    services: Services, scheduler: httpx.AsyncClient, database_url: str
) -> None:
    runs: list[UUID] = []
    for _ in ("the first period of all", "the next one"):
        answers = await asyncio.gather(*(scheduler.post("/api/cron/test-update") for _ in range(20)))

        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
        [run] = {UUID(answer.json()["run"]) for answer in answers}
        runs.append(run)
        async with working(services):
            await until_ended(services, run)
        await end_period(database_url)
    assert sorted(found for found, _, _ in await runs_of(database_url, "test.update")) == sorted(runs)


async def test_in_the_next_period_it_runs_again(
    services: Services, scheduler: httpx.AsyncClient, database_url: str
) -> None:
    first = (await scheduler.post("/api/cron/test-update")).json()["run"]
    async with working(services):
        await until_ended(services, UUID(first))
    await end_period(database_url)

    second = await scheduler.post("/api/cron/test-update")

    assert (second.status_code, second.json()["is_new"]) == (202, True)
    assert second.json()["run"] != first


async def test_a_job_that_is_off_is_left_to_outside_schedulers(
    scheduler: httpx.AsyncClient, admin: Person
) -> None:
    entries = {each["job"]: each for each in (await admin.http.get("/api/schedule")).json()["data"]}
    assert (entries["retention"]["cron"], entries["retention"]["next_tick"]) == (None, None)

    assert (await scheduler.post("/api/cron/retention")).status_code == 202


async def test_a_job_of_each_workspace_is_queued_for_each(
    scheduler: httpx.AsyncClient, ana: Person, ben: Person, database_url: str
) -> None:
    answer = await scheduler.post("/api/cron/digest")

    assert (answer.status_code, answer.json()["run"]) == (202, None)
    places = [
        UUID(place["id"])
        for person in (ana, ben)
        for place in (await person.http.get("/api/workspaces")).json()["data"]
    ]
    queued = await runs_of(database_url, "test.digest")
    assert sorted(str(place) for _, _, place in queued) == sorted(map(str, places))
    assert (await scheduler.post("/api/cron/digest")).status_code == 200
    assert len(await runs_of(database_url, "test.digest")) == len(queued)


async def test_an_unknown_job_is_told_with_those_that_there_are(scheduler: httpx.AsyncClient) -> None:
    problem = assert_problem(await scheduler.post("/api/cron/nonsense"), 404, "unknown_schedule")
    for known in ("bank-purge", "digest", "test-update", "retention"):
        assert known in problem["detail"]


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer wrong",
        SECRET.encode(),
        f"Basic {SECRET}".encode(),
        f"Bearer {SECRET}x".encode(),
        f"Bearer {SECRET[:-1]}".encode(),
        "Bearer gehéim".encode(),
    ],
)
async def test_without_the_secret_nothing_runs_and_nothing_is_told(
    anonymous: httpx.AsyncClient, database_url: str, authorization: bytes | None
) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization}
    answers = [
        await anonymous.request(method, f"/api/cron/{job}", headers=headers)
        for method in ("GET", "POST")
        for job in ("test-update", "nonsense")
    ]

    for answer in answers:
        problem = assert_problem(answer, 401, "wrong_secret")
        assert "CRON_SECRET" in problem["detail"]
        assert SECRET not in answer.text
    assert await runs_of(database_url, "test.update") == []


async def test_no_users_key_stands_for_the_secret(admin: Person) -> None:
    assert_problem(await admin.http.post("/api/cron/test-update"), 401, "wrong_secret")


@pytest.mark.parametrize("unusable", [None, " "])
async def test_where_no_secret_is_set_nobody_is_let_in_and_told_what_to_set(
    home: Path, database_url: str, unusable: str | None
) -> None:
    settings = make_settings(home, database_url, cron_secret=unusable)
    async with serving(settings) as (_, address), httpx.AsyncClient(base_url=address) as http:
        for sent in ({}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {unusable}x"}):
            refused = await http.post("/api/cron/retention", headers=sent)
            assert "CRON_SECRET" in assert_problem(refused, 404, "cron_not_configured")["detail"]


# A workspace's own hours


@pytest.fixture
async def team(ana: Person, ben: Person) -> str:
    """A workspace of ana's in which ben is a member."""
    place: str = (await ana.http.post("/api/workspaces", json={"name": "Team"})).json()["id"]
    body = {"email": ben.email, "role": "member"}
    assert (await ana.http.post(f"/api/workspaces/{place}/members", json=body)).status_code == 201
    return f"/api/workspaces/{place}/schedule"


async def test_a_workspace_keeps_its_own_hours(
    scheduler: httpx.AsyncClient, ana: Person, ben: Person, team: str, database_url: str
) -> None:
    for cron in ("0 5 * * mon-fri", DAILY):
        answer = await ana.http.put(f"{team}/digest", json={"cron": cron})
        assert (answer.status_code, answer.json()["cron"]) == (200, cron)
    [hours] = (await ben.http.get(team)).json()["data"]
    assert (hours["job"], hours["cron"], hours["workspace_id"]) == ("digest", DAILY, team.split("/")[3])

    await scheduler.post("/api/cron/digest")
    queued = {str(place) for _, _, place in await runs_of(database_url, "test.digest")}
    assert len(queued) == 2  # the two personal ones
    assert hours["workspace_id"] not in queued

    assert (await ana.http.delete(f"{team}/digest")).status_code == 204
    assert (await ben.http.get(team)).json() == {"data": []}
    assert_problem(await ana.http.delete(f"{team}/digest"), 404, "unknown_schedule")


@pytest.mark.parametrize(
    "cron",
    [
        "tomorrow!",
        "* * * * * *",
        "61 * * * *",
        "0 0 31 2 *",  # there is no such day, ever
        "R R * * *",  # another moment each time it is asked
        "R(0-9),5 * * * *",
    ],
)
async def test_hours_that_are_none_are_refused(ana: Person, team: str, cron: str) -> None:
    assert_problem(await ana.http.put(f"{team}/digest", json={"cron": cron}), 422, "invalid_cron")


@pytest.mark.parametrize(
    "body", [{}, {"cron": ""}, {"cron": "x" * 201}, {"cron": 5}, {"cron": DAILY, "a": 1}]
)
async def test_a_body_that_does_not_fit_is_refused(ana: Person, team: str, body: Any) -> None:
    assert_problem(await ana.http.put(f"{team}/digest", json=body), 422, "invalid_input")


async def test_only_jobs_that_are_done_per_workspace_have_hours(ana: Person, team: str) -> None:
    known = assert_problem(
        await ana.http.put(f"{team}/nonsense", json={"cron": DAILY}), 404, "unknown_schedule"
    )
    assert "digest" in known["detail"]
    refused = await ana.http.put(f"{team}/test-update", json={"cron": DAILY})
    assert "for all at once" in assert_problem(refused, 422)["detail"]


async def test_members_look_and_strangers_find_nothing(
    ana: Person, ben: Person, team: str, person: MakePerson
) -> None:
    await ana.http.put(f"{team}/digest", json={"cron": DAILY})
    assert_problem(await ben.http.put(f"{team}/digest", json={"cron": "1 1 * * *"}), 403, "not_allowed")
    assert_problem(await ben.http.delete(f"{team}/digest"), 404)

    stranger = (await person("eva@example.com")).http
    nowhere = f"/api/workspaces/{uuid4()}/schedule"
    for method, path, body in (
        ("GET", "", None),
        ("PUT", "/digest", {"cron": DAILY}),
        ("DELETE", "/digest", None),
    ):
        theirs = await stranger.request(method, team + path, json=body)
        missing = await stranger.request(method, nowhere + path, json=body)
        assert_problem(theirs, 404)
        assert theirs.json() == missing.json()
    [hours] = (await ana.http.get(team)).json()["data"]
    assert hours["cron"] == DAILY
