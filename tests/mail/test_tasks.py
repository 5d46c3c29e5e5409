"""The digest, as a job that workers do."""

from __future__ import annotations

import pytest

from recollect.bootstrap import Services
from recollect.jobs.models import Run
from recollect.mail.smtp import MailServer
from recollect.mail.tasks import tasks
from tests.conftest import Person, working
from tests.jobs.conftest import ended, queue
from tests.mail.conftest import AddUser, Sql, Tell, sending, states
from tests.mail.servers import Mailbox, mail_server

pytestmark = pytest.mark.anyio


async def _digest(services: Services, server: MailServer) -> Run:
    services.jobs.offer(*tasks(sending(server)))
    async with working(services):
        return await ended(services, await queue(services, "mail.digest"))


async def test_a_worker_sends_the_digest_and_records_how_many(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    for name in ("ana", "ben"):
        user = await add_user(f"{name}@example.com")
        for _ in range(2):
            await tell(user)
    async with mail_server(Mailbox()) as server:
        run = await _digest(services, server)
    assert (run.state, run.result) == (
        "succeeded",
        {"letters": 2, "messages": 4, "refused": 0, "postponed": 0},
    )
    assert set(await states(sql)) == {"sent"}


async def test_one_full_mailbox_does_not_fail_the_digest(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    mailbox = Mailbox(answers={"ana@example.com": ["452 4.2.2 mailbox full"] * 9})
    for name in ("ana", "ben"):
        await tell(await add_user(f"{name}@example.com"))
    async with mail_server(mailbox) as server:
        run = await _digest(services, server)
    assert (run.state, run.attempt) == ("succeeded", 1)
    assert run.result == {"letters": 1, "messages": 1, "refused": 0, "postponed": 1}
    assert await sql("select from events.log where type = 'job.failed'") == []


async def test_a_server_that_is_away_fails_it(services: Services, add_user: AddUser, tell: Tell) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(Mailbox()) as gone:
        pass
    run = await _digest(services, gone)
    assert (run.state, run.attempt) == ("failed", 4)
    assert run.error is not None
    assert "cannot be reached" in run.error


async def test_users_have_nothing_from_queueing_it_themselves(services: Services, ana: Person) -> None:
    queued = await queue(services, "mail.digest", by=ana.caller)
    async with working(services):
        run = await ended(services, queued)
    assert (run.state, run.attempt) == ("failed", 1)
    assert run.error == "This is for the server itself to do."


async def test_settings_that_cannot_work_are_put_before_a_person_at_once(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(Mailbox(sender_answers=["553 not your address"] * 9)) as server:
        run = await _digest(services, server)
    assert (run.state, run.attempt) == ("failed", 1)
    assert run.error is not None
    assert "RECOLLECT_MAIL_FROM" in run.error
    assert await states(sql) == ["waiting"]


def test_it_is_on_the_schedule() -> None:
    [task] = tasks(sending(None))
    assert (task.name, task.cron, task.every) == ("mail.digest", "mail-digest", "*/15 * * * *")
