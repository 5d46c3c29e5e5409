"""The schedule: every tick once, whoever asks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from recollect.access.membership_models import NamedWorkspace
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import InvalidInput, Misconfigured, NotAllowed, NotFound
from recollect.jobs.models import Job, Run, Task
from recollect.jobs.schedule import Schedule, Triggered, tick_before, valid_cron
from recollect.jobs.service import Jobs
from tests.conftest import Person

pytestmark = pytest.mark.anyio

THREE = datetime(2026, 3, 1, 3, 30, tzinfo=UTC)
DAY = timedelta(days=1)


async def nothing(job: Job) -> None:
    pass


def schedule_of(*tasks: Task, **overrides: str) -> Schedule:
    jobs = Jobs(keep_days=1)
    jobs.offer(*tasks)
    return Schedule(jobs, overrides)


def daily(*, per_workspace: bool = False) -> Task:
    return Task("daily", nothing, every="30 3 * * *", cron="daily", per_workspace=per_workspace)


async def queued(services: Services) -> list[Run]:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return [run for run in await services.jobs.list(tx) if run.task == "daily"]


async def end_all(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("truncate jobs.procrastinate_jobs cascade")
        await connection.execute("update jobs.runs set state = 'succeeded'")


@pytest.mark.parametrize(
    ("expression", "now", "tick"),
    [
        ("30 3 * * *", THREE, THREE),
        ("30 3 * * *", THREE + timedelta(seconds=59), THREE),
        ("30 3 * * *", THREE - timedelta(seconds=1), THREE - DAY),
        ("*/15 * * * *", THREE + timedelta(minutes=14), THREE),
        ("0 0 29 2 *", THREE, datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_the_last_tick_up_to_now(expression: str, now: datetime, tick: datetime) -> None:
    assert tick_before(expression, now) == tick


@pytest.mark.parametrize("expression", ["", "daily", "61 * * * *", "* * * * * *", "@daily", "30 3 * *"])
def test_what_is_not_a_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInput):
        valid_cron(expression)


async def test_a_job_comes_due_once_per_tick(services: Services, database_url: str) -> None:
    schedule = schedule_of(daily())
    # Seen for the first time, nothing was missed.
    assert await schedule.queue_due(services.tenancy, THREE) == 0
    assert await schedule.queue_due(services.tenancy, THREE + DAY) == 1
    assert await schedule.queue_due(services.tenancy, THREE + DAY + timedelta(hours=5)) == 0
    await end_all(database_url)
    assert await schedule.queue_due(services.tenancy, THREE + 2 * DAY) == 1
    runs = await queued(services)
    assert [run.origin for run in runs] == ["schedule", "schedule"]
    assert {run.user_id for run in runs} == {None}


async def test_ticks_that_were_missed_are_honoured_once_together(services: Services) -> None:
    await schedule_of(daily()).queue_due(services.tenancy, THREE)
    # The server was off for five days.
    back = schedule_of(daily())
    assert await back.queue_due(services.tenancy, THREE + 5 * DAY + timedelta(hours=7)) == 1
    assert len(await queued(services)) == 1


async def test_schedulers_that_look_at_once_queue_once(services: Services) -> None:
    schedules = [schedule_of(daily()) for _ in range(8)]
    await schedules[0].queue_due(services.tenancy, THREE)
    honoured = await asyncio.gather(
        *(schedule.queue_due(services.tenancy, THREE + DAY) for schedule in schedules)
    )
    assert sum(honoured) == 1
    assert len(await queued(services)) == 1


async def trigger(services: Services, schedule: Schedule) -> Triggered:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return await schedule.trigger(tx, "daily")


async def test_an_outside_scheduler_is_heard_once_per_period(services: Services, database_url: str) -> None:
    schedule = schedule_of(daily())
    answers = await asyncio.gather(*(trigger(services, schedule) for _ in range(10)))
    assert sum(answer.is_new for answer in answers) == 1
    assert len({answer.run for answer in answers}) == 1
    await end_all(database_url)
    again = await trigger(services, schedule)
    assert (again.is_new, again.run) == (False, answers[0].run)
    assert await schedule.queue_due(services.tenancy) == 0
    # The next period.
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update jobs.schedules set last_tick = last_tick - interval '1 day'")
    assert (await trigger(services, schedule)).is_new


async def test_a_job_that_is_off_is_left_to_outside_schedulers(services: Services) -> None:
    schedule = schedule_of(daily(), daily="off")
    for day in range(3):
        assert await schedule.queue_due(services.tenancy, THREE + day * DAY) == 0
    assert (await trigger(services, schedule)).is_new


async def test_the_settings_say_when(services: Services) -> None:
    schedule = schedule_of(daily(), daily="0 12 * * *")
    await schedule.queue_due(services.tenancy, THREE)
    assert await schedule.queue_due(services.tenancy, THREE + timedelta(hours=1)) == 0
    assert await schedule.queue_due(services.tenancy, THREE + timedelta(hours=9)) == 1
    with pytest.raises(Misconfigured, match="weekly; known are: daily"):
        schedule_of(daily(), weekly="0 0 * * 0")
    with pytest.raises(Misconfigured, match="not a cron expression"):
        schedule_of(daily(), daily="at noon")


async def test_an_unknown_job_names_the_known_ones(services: Services) -> None:
    with pytest.raises(NotFound, match="There are: daily"):
        async with services.tenancy.acting_as(SERVICE) as tx:
            await schedule_of(daily()).trigger(tx, "nightly")


@pytest.fixture
async def workspace(services: Services, ana: Person) -> UUID:
    async with services.tenancy.acting_as(ana.caller) as tx:
        return (await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))).id


async def test_a_workspace_may_keep_its_own_hours(
    services: Services, ana: Person, workspace: UUID, database_url: str
) -> None:
    schedule = schedule_of(daily(per_workspace=True))
    async with services.tenancy.acting_as(ana.caller) as tx:
        await schedule.set_hours(tx, workspace, "daily", "0 12 * * *")
    await schedule.queue_due(services.tenancy, THREE)
    # The others' hour: ana's personal workspace, but not the one with its own.
    await schedule.queue_due(services.tenancy, THREE + DAY)
    ours = [run.workspace_id for run in await queued(services)].count(workspace)
    assert ours == 1  # its noon has passed meanwhile
    await end_all(database_url)
    await schedule.queue_due(services.tenancy, THREE + DAY + timedelta(hours=1))
    assert [run.workspace_id for run in await queued(services)].count(workspace) == 1
    await schedule.queue_due(services.tenancy, THREE + DAY + timedelta(hours=9))
    assert [run.workspace_id for run in await queued(services)].count(workspace) == 2


async def test_hours_are_for_those_who_manage_the_workspace(
    services: Services, ana: Person, ben: Person, workspace: UUID
) -> None:
    schedule = schedule_of(daily(per_workspace=True))
    with pytest.raises((NotAllowed, NotFound)):
        async with services.tenancy.acting_as(ben.caller) as tx:
            await schedule.set_hours(tx, workspace, "daily", "0 12 * * *")
    async with services.tenancy.acting_as(ana.caller) as tx:
        await schedule.set_hours(tx, workspace, "daily", "0 12 * * *")
    async with services.tenancy.acting_as(ben.caller) as tx:
        assert await schedule.hours(tx, workspace) == []
    async with services.tenancy.acting_as(ana.caller) as tx:
        assert [hours.cron for hours in await schedule.hours(tx, workspace)] == ["0 12 * * *"]
        await schedule.drop_hours(tx, workspace, "daily")
        assert await schedule.hours(tx, workspace) == []


async def test_a_job_of_all_has_no_hours_of_a_workspace(
    services: Services, ana: Person, workspace: UUID
) -> None:
    with pytest.raises(InvalidInput):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await schedule_of(daily()).set_hours(tx, workspace, "daily", "0 12 * * *")


async def test_new_hours_begin_to_count_when_they_are_set(
    services: Services, ana: Person, workspace: UUID, database_url: str
) -> None:
    schedule = schedule_of(daily(per_workspace=True))
    for cron, now in (("0 3 * * *", THREE), ("0 5 * * *", THREE + timedelta(hours=7))):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await schedule.set_hours(tx, workspace, "daily", cron)
        # Five o'clock has passed, but it was nobody's hour then.
        assert await schedule.queue_due(services.tenancy, now) == 0
    assert await schedule.queue_due(services.tenancy, THREE + timedelta(hours=26)) == 2


async def test_the_schedule_can_be_looked_at(services: Services) -> None:
    schedule = schedule_of(daily(), daily="off")
    async with services.tenancy.acting_as(SERVICE) as tx:
        [before] = await schedule.entries(tx)
    assert (before.job, before.cron, before.next_tick, before.last_tick) == ("daily", None, None, None)
    triggered = await trigger(services, schedule)
    async with services.tenancy.acting_as(SERVICE) as tx:
        [after] = await schedule_of(daily()).entries(tx)
    assert (after.cron, after.last_tick, after.last_run) == (
        "30 3 * * *",
        triggered.period,
        triggered.run,
    )
    assert after.next_tick
    assert after.next_tick > datetime.now(UTC)
