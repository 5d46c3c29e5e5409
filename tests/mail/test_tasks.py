"""The digest, as a job that workers do."""

from __future__ import annotations

import pytest

from recollect.bootstrap import Services
from recollect.jobs.models import Run
from recollect.mail.smtp import MailServer
from recollect.mail.tasks import tasks
from tests.conftest import working
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


async def test_what_was_postponed_is_tried_again_by_the_same_job(
    services: Services, add_user: AddUser, tell: Tell
) -> None:
    mailbox = Mailbox(answers={"ana@example.com": ["451 come back later"]})
    await tell(await add_user("ana@example.com"))
    async with mail_server(mailbox) as server:
        run = await _digest(services, server)
    assert (run.state, run.attempt) == ("succeeded", 2)
    assert "451 come back later" in run.failures[0].error
    assert len(mailbox.received) == 1


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
