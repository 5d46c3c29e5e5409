"""E-mails that are not taken now: tried again less and less often, and in nobody else's way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recollect.bootstrap import Services
from recollect.mail.models import Delivered
from recollect.mail.service import DELAYS
from recollect.mail.smtp import MailServerAway
from tests.mail.conftest import AddUser, Sql, Tell, sending, states, time_passes
from tests.mail.servers import Mailbox, mail_server

pytestmark = pytest.mark.anyio

FULL = "452 4.2.2 mailbox full"


async def test_not_now_is_tried_again_and_the_others_are_not_kept_waiting(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    people = {name: await add_user(f"{name}@example.com") for name in ("ana", "ben", "eva")}
    for user in people.values():
        await tell(user)
    mailbox.answers["ben@example.com"] = ["451 4.7.1 come back later"]
    async with mail_server(mailbox) as server:
        done = await sending(server).deliver(services.tenancy)
        assert done == Delivered(letters=2, messages=2, postponed=1)
        assert sorted(mailbox.recipients) == ["ana@example.com", "eva@example.com"]
        [waiting] = await sql("select user_id, state, error from mail.messages where state <> 'sent'")
        assert (waiting["user_id"], waiting["state"]) == (people["ben"], "waiting")
        assert waiting["error"] == "451 4.7.1 come back later"

        # Not yet, and what is said meanwhile goes along.
        await tell(people["ben"], "Said meanwhile")
        assert await sending(server).deliver(services.tenancy) == Delivered()
        await time_passes(sql)
        done = await sending(server).deliver(services.tenancy)
    assert done == Delivered(letters=1, messages=2)
    assert set(await states(sql)) == {"sent"}
    assert len(mailbox.of("ben@example.com")) == 1


async def test_it_is_tried_less_and_less_often_and_has_failed_in_the_end(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    await tell(await add_user("full@example.com"))
    mailbox.answers["full@example.com"] = [FULL] * (len(DELAYS) + 1)
    waits = []
    async with mail_server(mailbox) as server:
        for _ in DELAYS:
            await sending(server).deliver(services.tenancy)
            [row] = await sql("select state, not_before - now() as wait from mail.messages")
            assert row["state"] == "waiting"
            waits.append(row["wait"])
            await time_passes(sql)
        await sending(server).deliver(services.tenancy)
        assert mailbox.answers["full@example.com"] == []
        [row] = await sql("select state, error from mail.messages")
        assert (row["state"], row["error"]) == ("failed", FULL)
        # A new message is a new beginning.
        await tell((await sql("select user_id from mail.messages"))[0]["user_id"])
        assert (await sending(server).deliver(services.tenancy)).messages == 1
    for wait, delay in zip(waits, DELAYS, strict=True):
        assert delay - timedelta(minutes=1) < wait <= delay
    assert timedelta(days=5) <= sum(DELAYS, timedelta()) < timedelta(days=6)


async def test_some_who_upset_the_server_do_not_stop_everybodys_mail(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    people = {await add_user(f"user{number}@example.com"): f"user{number}@example.com" for number in range(8)}
    for user in people:
        await tell(user)
    first, *_ = bad = [people[user] for user in sorted(people)[:3]]  # their turn comes first
    for address in bad:
        mailbox.answers[address] = ["421 4.7.0 try later"] * 100
    async with mail_server(mailbox) as server:
        with pytest.raises(MailServerAway, match=r"421 4\.7\.0 try later"):
            await sending(server).deliver(services.tenancy)
        done = await sending(server).deliver(services.tenancy)
    assert (done.letters, done.postponed) == (5, 0)
    assert set(mailbox.recipients) == set(people.values()) - set(bad)
    assert len(mailbox.answers[first]) == 99


async def test_a_server_that_is_away_is_nobodys_fault(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(mailbox) as gone:
        pass
    with pytest.raises(MailServerAway):
        await sending(gone).deliver(services.tenancy)
    [row] = await sql("select postponed, not_before from mail.messages")
    assert (row["postponed"], row["not_before"]) == (0, None)
