"""Jobs and the schedule from the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from recollect.bootstrap import Services
from recollect.jobs.models import Counts, GiveUp, Job, Task
from tests.api.working import enqueue, until, until_ended, working
from tests.cli.conftest import CODE, Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def test_jobs_are_listed_shown_and_counted_for_a_user_or_for_all(
    recollect: Run, services: Services, ana: Person, ben: Person
) -> None:
    of_ana = await enqueue(services, "test.a", {"n": 1}, by=ana.caller)
    of_service = await enqueue(services, "test.b")
    as_ana, as_ben = ("--user", ana.email), ("--user", ben.email)

    mine, theirs, everything, only_b, cut, shown, counted, refused = await asyncio.gather(
        recollect("jobs", "list", *as_ana, "--json"),
        recollect("jobs", "list", *as_ben, "--json"),
        recollect("jobs", "list", "--all", "--json"),
        recollect("jobs", "list", "--all", "--task", "test.b", "--state", "waiting", "--json"),
        recollect("jobs", "list", "--all", "--limit", "1"),
        recollect("jobs", "show", str(of_ana), *as_ana, "--json"),
        recollect("jobs", "counts", *as_ana, "--json"),
        recollect("jobs", "show", str(of_ana), *as_ben),
    )

    assert [each["id"] for each in mine.json] == [str(of_ana)]
    assert theirs.json == []
    assert [each["id"] for each in everything.json] == [str(of_service), str(of_ana)]
    assert [each["id"] for each in only_b.json] == [str(of_service)]
    assert (str(of_service) in cut.out, str(of_ana) in cut.out, "--limit" in cut.err) == (True, False, True)
    assert (shown.json["task"], shown.json["arguments"]) == ("test.a", {"n": 1})
    none = {"running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    assert counted.json == {**none, "waiting": 1}
    assert "no such job" in refused.sentence


async def test_a_job_is_cancelled_and_queued_again(
    recollect: Run, services: Services, ana: Person, ben: Person
) -> None:
    job = str(await enqueue(services, "test.a", by=ana.caller))

    assert "not yours" in (await recollect("jobs", "cancel", job, "--user", ben.email)).sentence
    assert (await recollect("jobs", "cancel", job, "--user", ana.email, "--json")).json[
        "state"
    ] == "cancelled"
    assert "ended already" in (await recollect("jobs", "cancel", job, "--all")).sentence
    assert (await recollect("jobs", "retry", job, "--all", "--json")).json["state"] == "waiting"
    assert (await recollect("jobs", "retry", str(uuid4()), "--all")).sentence.startswith("There is no such")


@pytest.mark.parametrize("whose", [(), ("--user", "ana@example.com", "--all")])
@pytest.mark.parametrize("command", [("list",), ("wait", str(uuid4()))])
async def test_whose_jobs_has_to_be_said_and_once(
    recollect: Run, command: tuple[str, ...], whose: tuple[str, ...]
) -> None:
    assert (await recollect("jobs", *command, *whose)).sentence.startswith("Say whose jobs")


async def test_waiting_ends_with_the_job_and_says_how_it_ended(
    recollect: Run, services: Services, ana: Person
) -> None:
    async def count(job: Job) -> Counts:
        await job.progress(2, 2)
        return {"counted": 2}

    async def fail(job: Job) -> None:
        del job
        raise GiveUp("It cannot be done.")

    services.jobs.offer(Task("test.count", count), Task("test.fail", fail))
    good, bad, never = [
        str(await enqueue(services, task, by=ana.caller)) for task in ("test.count", "test.fail", "test.fail")
    ]
    await ana.http.post(f"/api/jobs/{never}/cancel")
    as_ana = ("--user", ana.email)
    async with working(services):
        done, failed, failed_json, cancelled = await asyncio.gather(
            recollect("jobs", "wait", good, *as_ana, "--json"),
            recollect("jobs", "wait", bad, *as_ana),
            recollect("jobs", "wait", bad, "--all", "--json"),
            recollect("jobs", "wait", never, *as_ana),
        )

    assert (done.json["state"], done.json["done"], done.json["result"]) == ("succeeded", 2, {"counted": 2})
    assert failed.sentence == "The job failed: It cannot be done."
    assert (failed_json.code, '"state": "failed"' in failed_json.out) == (1, True)
    assert cancelled.sentence == "The job was cancelled."


async def test_who_stops_waiting_leaves_the_job_running_and_is_told(
    environment: dict[str, str], tmp_path: Path, services: Services, ana: Person
) -> None:
    looked_at, go_on = asyncio.Event(), asyncio.Event()

    async def linger(job: Job) -> None:
        await job.progress(1, 3)
        looked_at.set()
        await go_on.wait()

    services.jobs.offer(Task("test.linger", linger))
    job = await enqueue(services, "test.linger", by=ana.caller)
    async with working(services):
        await asyncio.wait_for(looked_at.wait(), 30)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "recollect", "jobs", "wait", str(job), "--user", ana.email),
            # As on a terminal, where the bar is drawn: that it is there tells that the command waits.
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": CODE,
                "HOME": str(tmp_path),
                "FORCE_COLOR": "1",
                **environment,
            },
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        drawn = await asyncio.wait_for(process.stderr.readuntil(b"1/3"), 30)
        process.send_signal(signal.SIGINT)
        _, rest = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 130
        assert b"test.linger, running" in drawn
        assert f"The job goes on without you; recollect jobs cancel {job}".encode() in rest
        assert b"Traceback" not in rest
        assert (await until(services, job, lambda _: True)).state == "running"
        go_on.set()
        assert (await until_ended(services, job)).state == "succeeded"


async def test_the_schedule_is_listed_and_a_job_of_it_run_once_in_its_period(
    recollect: Run, services: Services
) -> None:
    # Once a year, so that the test does not meet the end of a period.
    yearly = {"RECOLLECT_SCHEDULE": '{"retention": "0 0 1 1 *", "bank-purge": "off"}'}
    entries = {each["job"]: each for each in (await recollect("schedule", "list", "--json", **yearly)).json}
    assert (entries["retention"]["cron"], entries["bank-purge"]["cron"]) == ("0 0 1 1 *", None)

    first = (await recollect("schedule", "run", "retention", "--json", **yearly)).json
    again = await recollect("schedule", "run", "retention", **yearly)
    unknown = await recollect("schedule", "run", "nonsense", **yearly)

    assert first["is_new"] is True
    assert "already" in again.out
    assert "retention" in unknown.sentence
    async with working(services):
        ended = await until_ended(services, first["run"])
    assert (ended.state, ended.task) == ("succeeded", "retention")
