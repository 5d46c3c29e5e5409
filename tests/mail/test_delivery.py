"""Sending through real mail servers: those that work, those that do not, and senders that die."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.errors import Misconfigured
from recollect.kit.secret import ServerSecret
from recollect.mail import store
from recollect.mail.models import Delivered, Letter
from recollect.mail.service import Mail
from recollect.mail.smtp import MailServer, MailServerAway, MailServerRefuses
from tests.conftest import SECRET
from tests.mail.conftest import BASE, AddUser, Sql, Tell, sending, states, time_passes
from tests.mail.servers import PASSWORD, Certificate, Mailbox, mail_server, silent_server

pytestmark = pytest.mark.anyio

AT_ONCE = timedelta(0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"))


# The way to the server


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_over_tls_with_a_password(
    services: Services,
    add_user: AddUser,
    tell: Tell,
    mailbox: Mailbox,
    certificate: Certificate,
    security: str,
) -> None:
    await tell(await add_user("ana@example.com"))
    options = {"security": security, "certificate": certificate, "password": PASSWORD}
    async with mail_server(mailbox, **options) as server:  # type: ignore[arg-type]
        assert PASSWORD not in repr(server)
        await sending(server).deliver(services.tenancy)
    assert len(mailbox.received) == 1


async def test_a_wrong_password_leaves_messages_waiting_and_is_not_repeated(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox, certificate: Certificate
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(
        mailbox, security="starttls", certificate=certificate, password="a wrong password"
    ) as server:
        with pytest.raises(MailServerRefuses, match="RECOLLECT_SMTP_USERNAME") as caught:
            await sending(server).deliver(services.tenancy)
    assert "password of" not in str(caught.value)
    assert "wrong password" not in str(caught.value)
    [row] = await sql("select state, claimed_at, error from mail.messages")
    assert (row["state"], row["claimed_at"]) == ("waiting", None)
    assert "password of" not in row["error"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_that_nobody_vouches_for_gets_nothing(
    services: Services,
    add_user: AddUser,
    tell: Tell,
    sql: Sql,
    mailbox: Mailbox,
    certificate: Certificate,
    security: str,
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(mailbox, security=security, certificate=certificate) as server:  # type: ignore[arg-type]
        stranger = MailServer(server.host, server.port, server.security)
        with pytest.raises(MailServerRefuses, match="certificate"):
            await sending(stranger).deliver(services.tenancy)
    assert mailbox.received == []
    assert await states(sql) == ["waiting"]


async def test_nothing_is_sent_in_the_clear_where_tls_was_asked_for(
    services: Services, add_user: AddUser, tell: Tell, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(mailbox, security="starttls", offers_tls=False) as server:
        with pytest.raises(MailServerRefuses, match="STARTTLS"):
            await sending(server).deliver(services.tenancy)
    assert mailbox.received == []


def test_an_address_to_send_from_is_asked_for() -> None:
    secret, server = ServerSecret(SECRET.encode()), MailServer("127.0.0.1", 1)
    for given in (None, "", "nobody", "two@example.com, more@example.com", "a@b\r\nBcc: eve@example.com"):
        with pytest.raises(Misconfigured, match="RECOLLECT_MAIL_FROM"):
            Mail(secret, server=server, mail_from=given)


# When it does not work


async def test_an_address_that_does_not_exist_fails_alone(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    for name in ("ana", "ben", "eva"):
        await tell(await add_user(f"{name}@example.com"))
    mailbox.answers["ben@example.com"] = ["550 5.1.1 <ben@example.com> \x07unknown " + "x" * 600]
    async with mail_server(mailbox) as server:
        done = await sending(server).deliver(services.tenancy)
    assert done == Delivered(letters=2, messages=2, refused=1)
    [row] = await sql("select state, error from mail.messages where state <> 'sent'")
    assert row["state"] == "failed"
    assert row["error"].startswith("550 5.1.1 <ben@example.com> unknown xxx")
    assert len(row["error"]) <= 300


async def test_an_e_mail_that_is_refused_as_such_fails_without_its_links(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"))
    mailbox.data_answers = [f"554 5.7.1 spam: {BASE}/unsubscribe?token=c2VjcmV0 is bad"]
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
    [row] = await sql("select state, error from mail.messages")
    assert row["state"] == "failed"
    assert "c2VjcmV0" not in row["error"]
    assert "is bad" in row["error"]


async def test_a_sender_that_is_refused_is_a_matter_of_settings(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"))
    mailbox.sender_answers = ["553 not your address"]
    async with mail_server(mailbox) as server:
        with pytest.raises(MailServerRefuses, match="RECOLLECT_MAIL_FROM"):
            await sending(server).deliver(services.tenancy)
    assert await states(sql) == ["waiting"]


@pytest.mark.parametrize(
    "address",
    ["nobody", "a@b\r\nRCPT TO:<eve@example.com>", "a b@example.com", "ä@example.com", "@example.com"],
)
async def test_what_is_no_address_fails_alone(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox, address: str
) -> None:
    ana, ben = await add_user("ana@example.com"), await add_user("ben@example.com")
    await sql("update auth.users set email = %s where id = %s", address, ana)
    for user in (ana, ben):
        await tell(user)
    async with mail_server(mailbox) as server:
        done = await sending(server).deliver(services.tenancy)
    assert (done.letters, done.refused) == (1, 1)
    assert mailbox.recipients == ["ben@example.com"]
    assert sorted(await states(sql)) == ["failed", "sent"]


async def test_a_server_that_is_not_there_leaves_everything_waiting(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    for name in ("ana", "ben"):
        await tell(await add_user(f"{name}@example.com"))
    async with mail_server(mailbox) as gone:
        pass
    with pytest.raises(MailServerAway):
        await sending(gone).deliver(services.tenancy)
    assert await states(sql) == ["waiting"] * 2
    async with mail_server(mailbox) as server:
        assert (await sending(server).deliver(services.tenancy)).letters == 2


async def test_a_server_that_says_nothing_is_not_waited_for(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    await tell(await add_user("ana@example.com"))
    async with silent_server(seconds=0.2) as server, asyncio.timeout(30):
        with pytest.raises(MailServerAway):
            await sending(server).deliver(services.tenancy)
    assert await states(sql) == ["waiting"]


async def test_an_e_mail_that_may_have_arrived_is_sent_again_as_the_same(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    await tell(ana, "First")
    mailbox.hangs = True
    async with mail_server(mailbox, seconds=0.3) as server, asyncio.timeout(30):
        assert (await sending(server).deliver(services.tenancy)).postponed == 1
    [row] = await sql("select error from mail.messages")
    assert "did not answer in time" in row["error"]
    await tell(ana, "Said meanwhile")
    await time_passes(sql)
    mailbox.hangs = False
    async with mail_server(mailbox) as server:
        for _ in range(2):
            await sending(server).deliver(services.tenancy)

    first, again, later = mailbox.received
    assert first["Message-ID"] == again["Message-ID"] != later["Message-ID"]
    assert [message["Subject"] for message in (again, later)] == ["First", "Said meanwhile"]
    assert set(await states(sql)) == {"sent"}


async def test_a_server_that_fails_for_everybody_is_left_alone(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    for number in range(6):
        await tell(await add_user(f"user{number}@example.com"))
    mailbox.sender_answers = ["452 too busy"] * 6
    async with mail_server(mailbox) as server:
        with pytest.raises(MailServerAway, match="452 too busy"):
            await sending(server).deliver(services.tenancy)
    assert len(mailbox.sender_answers) == 3
    assert await states(sql) == ["waiting"] * 6


# Two senders, and dead ones


async def test_two_senders_send_each_message_once_and_each_user_one_e_mail(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    users = [await add_user(f"user{number}@example.com") for number in range(12)]
    for user in users:
        for number in range(3):
            await tell(user, f"Subject {number}")
    async with mail_server(mailbox) as server:
        rounds = await asyncio.gather(*(sending(server).deliver(services.tenancy) for _ in range(4)))
    assert sum(each.messages for each in rounds) == 36
    assert sorted(mailbox.recipients) == sorted(f"user{number}@example.com" for number in range(12))
    assert set(await states(sql)) == {"sent"}


async def test_no_two_senders_are_given_the_same_user(
    services: Services, add_user: AddUser, tell: Tell
) -> None:
    users = {await add_user(f"user{number}@example.com") for number in range(8)}
    for user in users:
        for _ in range(20):
            await tell(user)

    async def claim() -> Letter | None:
        async with services.tenancy.acting_as(SERVICE) as tx:
            return await store.claim(
                tx, after=UUID(int=0), lease=timedelta(minutes=1), held_for=timedelta(days=1), shown=50
            )

    letters = await asyncio.gather(*(claim() for _ in range(9)))
    assert letters.count(None) == 1
    assert {letter.user_id for letter in letters if letter} == users
    assert {letter.total for letter in letters if letter} == {20}


async def _dies_while_sending(services: Services, mail: Mail, mailbox: Mailbox) -> None:
    mailbox.hangs = True
    sender = asyncio.create_task(mail.deliver(services.tenancy))
    await asyncio.wait_for(mailbox.took_one.wait(), 30)
    sender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sender
    mailbox.hangs = False


async def test_what_a_dead_sender_had_in_hand_is_sent_by_another(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    await tell(ana, "First")
    async with mail_server(mailbox) as server:
        await _dies_while_sending(services, sending(server), mailbox)
        assert (await sql("select claimed_at from mail.messages"))[0]["claimed_at"] is not None

        # As long as it might be alive, nobody else sends it.
        assert await sending(server).deliver(services.tenancy) == Delivered()
        assert len(mailbox.received) == 1

        assert (await sending(server, lease=AT_ONCE).deliver(services.tenancy)).messages == 1
    first, again = mailbox.received
    assert first["Message-ID"] == again["Message-ID"]
    assert await states(sql) == ["sent"]
