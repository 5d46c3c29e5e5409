"""Jobs in the dashboard, as a browser without scripts sees them."""

from __future__ import annotations

import asyncio
import re
from uuid import UUID, uuid4

import httpx
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.jobs.models import Counts, GiveUp, Job, Task
from recollect.web.jobs_pages import PER_PAGE
from tests.api.working import enqueue, until, until_ended, working
from tests.conftest import Person

pytestmark = pytest.mark.anyio

EMAIL, PASSWORD = "eva@example.com", "correct horse"


async def signed_in(services: Services, browser: httpx.AsyncClient, *, is_admin: bool = False) -> Caller:
    user = await services.access.create_user(NewUser(email=EMAIL, password=PASSWORD, is_admin=is_admin))
    answer = await browser.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    assert answer.status_code == 303
    return Caller.user(user.id)


@pytest.fixture
async def eva(services: Services, anonymous: httpx.AsyncClient) -> Caller:
    """Signed in; from here on ``anonymous`` is her browser."""
    return await signed_in(services, anonymous)


async def seen(browser: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", answer.text)
    return answer.text


def listed(page: str) -> list[str]:
    return re.findall(r'<a href="/jobs/([0-9a-f-]{36})">', page)


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    job = f"/jobs/{uuid4()}"
    for method, path in (("GET", "/jobs"), ("GET", job), ("POST", f"{job}/cancel"), ("POST", f"{job}/retry")):
        answer = await anonymous.request(method, path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_jobs_are_found_from_every_page_newest_first_and_by_state(
    services: Services, anonymous: httpx.AsyncClient, eva: Caller, ana: Person
) -> None:
    assert "No jobs here." in await seen(anonymous, "/jobs")
    assert '<a href="/jobs">Jobs</a>' in await seen(anonymous, "/")
    newest_first = [str(await enqueue(services, f"test.{n}", by=eva)) for n in range(3)][::-1]
    await enqueue(services, "test.secret", by=ana.caller)
    await anonymous.post(f"/jobs/{newest_first[0]}/cancel")

    page = await seen(anonymous, "/jobs")
    assert listed(page) == newest_first
    assert "test.secret" not in page
    cancelled = await seen(anonymous, "/jobs?state=cancelled")
    assert listed(cancelled) == newest_first[:1]
    assert re.search(r'state=cancelled" aria-current="page">Cancelled <span class="quiet">1<', cancelled)
    assert listed(await seen(anonymous, "/jobs?task=test.1")) == [newest_first[1]]


async def test_a_long_list_comes_in_pages_that_keep_the_filter(
    services: Services, anonymous: httpx.AsyncClient, eva: Caller
) -> None:
    for _ in range(PER_PAGE + 1):
        await enqueue(services, "test.a", by=eva)

    first = await seen(anonymous, "/jobs?state=waiting")
    [older] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await seen(anonymous, older.replace("&amp;", "&"))

    assert (len(listed(first)), len(listed(second))) == (PER_PAGE, 1)
    assert not set(listed(first)) & set(listed(second))
    assert 'rel="next"' not in second
    assert (await anonymous.get("/jobs?cursor=made-up")).headers["location"] == "/jobs"


async def test_a_running_job_shows_how_far_it_is_and_is_cancelled_by_a_button(
    services: Services, anonymous: httpx.AsyncClient, eva: Caller
) -> None:
    at_work = asyncio.Event()

    async def linger(job: Job) -> None:
        await job.progress(3, 12)
        at_work.set()
        await asyncio.Event().wait()

    services.jobs.offer(Task("test.linger", linger))
    job = await enqueue(services, "test.linger", by=eva)
    async with working(services):
        await asyncio.wait_for(at_work.wait(), 30)
        for path in ("/jobs", f"/jobs/{job}"):
            page = await seen(anonymous, path)
            assert '<progress value="3" max="12"' in page
            assert "3 of 12" in page
        assert f'<form method="post" action="/jobs/{job}/cancel">' in page

        answer = await anonymous.post(f"/jobs/{job}/cancel")

        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    page = await seen(anonymous, f"/jobs/{job}")
    assert 'class="state cancelled"' in page
    assert f"/jobs/{job}/retry" in page
    again = await anonymous.post(f"/jobs/{job}/cancel")
    assert (again.status_code, "has ended already" in again.text) == (409, True)


async def test_a_job_tells_everything_and_a_dead_letter_is_tried_again(
    services: Services, anonymous: httpx.AsyncClient, eva: Caller
) -> None:
    is_mended = False

    async def fragile(job: Job) -> Counts:
        del job
        if not is_mended:
            raise GiveUp("The other side <b>is</b> broken.")
        return {"sent": 7}

    services.jobs.offer(Task("test.fragile", fragile))
    job = await enqueue(services, "test.fragile", {"to": "<script>alert(1)</script>"}, by=eva)
    async with working(services):
        await until_ended(services, job)
        page = await seen(anonymous, f"/jobs/{job}")
        assert "The other side &lt;b&gt;is&lt;/b&gt; broken." in page
        assert "Failed attempts" in page
        assert "alert(1)" in page

        is_mended = True
        answer = await anonymous.post(f"/jobs/{job}/retry")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
        await until(services, job, lambda run: run.state == "succeeded")
    page = await seen(anonymous, f"/jobs/{job}")
    for told in ("sent: 7", "you", "(request)", "Began", "Ended", "Took", str(job), "Failed attempts"):
        assert told in page
    assert "<form" not in page.partition("<main>")[2]
    refused = await anonymous.post(f"/jobs/{job}/retry")
    assert (refused.status_code, "Only a job that failed" in refused.text) == (409, True)


@pytest.mark.usefixtures("eva")
async def test_anothers_job_is_as_if_there_were_none(
    services: Services, anonymous: httpx.AsyncClient, ana: Person
) -> None:
    job = await enqueue(services, "test.secret", by=ana.caller)
    for method, what in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
        theirs = await anonymous.request(method, f"/jobs/{job}{what}")
        missing = await anonymous.request(method, f"/jobs/{uuid4()}{what}")
        assert (theirs.status_code, theirs.text) == (404, missing.text)
        assert "There is no such job" in theirs.text
    assert (await anonymous.get("/jobs?everybody=true")).status_code == 403
    assert "Everybody" not in await seen(anonymous, "/jobs")
    assert (await until(services, job, lambda _: True)).state == "waiting"


async def test_an_admin_looks_at_everybodys_jobs_and_changes_them(
    services: Services, anonymous: httpx.AsyncClient, ana: Person
) -> None:
    await signed_in(services, anonymous, is_admin=True)
    of_ana = await enqueue(services, "test.a", by=ana.caller)
    of_service = await enqueue(services, "test.b")

    assert listed(await seen(anonymous, "/jobs")) == []
    assert listed(await seen(anonymous, "/jobs?everybody=true")) == [str(of_service), str(of_ana)]
    assert str(ana.id) in await seen(anonymous, f"/jobs/{of_ana}")
    assert "the server" in await seen(anonymous, f"/jobs/{of_service}")
    for job in (of_ana, of_service):
        assert (await anonymous.post(f"/jobs/{job}/cancel")).status_code == 303
        assert (await until(services, job, lambda _: True)).state == "cancelled"
    await seen(anonymous, f"/jobs/{uuid4()}", 404)


async def test_another_site_cannot_cancel_anything(
    services: Services, anonymous: httpx.AsyncClient, eva: Caller
) -> None:
    job: UUID = await enqueue(services, "test.a", by=eva)
    refused = await anonymous.post(f"/jobs/{job}/cancel", headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    assert (await until(services, job, lambda _: True)).state == "waiting"
