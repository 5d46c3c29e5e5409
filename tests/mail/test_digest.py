"""What is in a digest, and what is left out of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.mail.models import Delivered
from tests.mail.conftest import BASE, AddUser, Sql, Tell, sending, states
from tests.mail.servers import Mailbox, mail_server

pytestmark = pytest.mark.anyio


def text_of(message: EmailMessage, kind: str = "plain") -> str:
    part = message.get_body((kind,))
    assert part is not None
    content: str = part.get_content()
    return content


# One e-mail, and what it looks like


async def test_all_that_waits_comes_in_one_e_mail_oldest_first(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    for number in range(3):
        await tell(ana, f"Subject {number}", f"Paragraph {number}.\n\nAnother.", link=f"/jobs/{number}")

    async with mail_server(mailbox) as server:
        done = await sending(server).deliver(services.tenancy)

    assert done == Delivered(letters=1, messages=3)
    assert mailbox.recipients == ["ana@example.com"]
    [message] = mailbox.received
    assert message["Subject"] == "3 messages from Recollect"
    for kind in ("plain", "html"):
        text = text_of(message, kind)
        places = [text.index(f"Subject {number}") for number in range(3)]
        assert places == sorted(places)
        assert f"{BASE}/jobs/2" in text
    assert await states(sql) == ["sent"] * 3
    assert (await sql("select bool_and(sent_at is not null) as all_sent from mail.messages"))[0]["all_sent"]


async def test_a_sent_message_is_not_sent_again(
    services: Services, add_user: AddUser, tell: Tell, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"))
    async with mail_server(mailbox) as server:
        for _ in range(2):
            await sending(server).deliver(services.tenancy)
    assert len(mailbox.received) == 1


async def test_the_headers_are_what_mail_programs_expect(
    services: Services, add_user: AddUser, tell: Tell, mailbox: Mailbox, sql: Sql
) -> None:
    ana = await add_user("ana@example.com")
    await sql("update public.profiles set full_name = 'Ana Ñandú, \"the\" first' where id = %s", ana)
    await tell(ana, "Größe " * 30)
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)

    [message], [raw] = mailbox.received, mailbox.raw
    assert str(message["From"]) == "Recollect <noreply@example.com>"
    [to] = message["To"].addresses
    assert (to.display_name, to.addr_spec) == ('Ana Ñandú, "the" first', "ana@example.com")
    assert message["Subject"] == ("Größe " * 30).strip()
    assert abs(parsedate_to_datetime(message["Date"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert message["Message-ID"].endswith("@example.com>")
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["List-Unsubscribe"].startswith(f"<{BASE}/unsubscribe?token=")
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert message.get_content_type() == "multipart/alternative"
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= 998


async def test_a_digest_is_bounded_and_says_how_many_more_there_are(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    for number in range(53):
        await tell(ana, f"<{number:02}>")
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
        await sending(server).deliver(services.tenancy)
    [message] = mailbox.received
    text = text_of(message)
    assert "<49>" in text
    assert "<50>" not in text
    assert f"and 3 more: {BASE}/mail" in text
    assert set(await states(sql)) == {"sent"}


async def test_each_gets_their_own_and_nothing_of_others(
    services: Services, add_user: AddUser, tell: Tell, mailbox: Mailbox
) -> None:
    await tell(await add_user("ana@example.com"), "For Ana")
    await tell(await add_user("ben@example.com"), "For Ben")
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
    for name, other in (("ana", "Ben"), ("ben", "Ana")):
        [message] = mailbox.of(f"{name}@example.com")
        assert message["Subject"] == f"For {name.title()}"
        assert [address.addr_spec for address in message["To"].addresses] == [f"{name}@example.com"]
        assert f"For {other}" not in text_of(message)


async def test_what_others_wrote_is_inert(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    await sql(
        "update profiles set full_name = %s where id = %s", "Ana\r\nBcc: eve@example.com\r\n\r\nhi", ana
    )
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    await tell(
        ana,
        f"Hello\r\nBcc: eve@example.com\r\n\r\nBody {hostile}",
        f"\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b1mbold\x00\x08 \u202egnp.exe\n\n{hostile}",
    )
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)

    assert mailbox.recipients == ["ana@example.com"]
    [message] = mailbox.received
    assert message["Bcc"] is None
    assert len(message.get_all("To", [])) == len(message.get_all("Subject", [])) == 1
    html = text_of(message, "html")
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html
    assert "red bold gnp.exe" in text_of(message)
    assert not any(ord(each) < 32 and each not in "\r\n" for each in text_of(message))


# Kept, not sent


async def test_without_a_mail_server_messages_are_held(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    ana = await add_user("ana@example.com")
    await tell(ana, "Said when there was one")
    mail = sending(None)
    async with services.tenancy.acting_as(SERVICE) as tx:
        await mail.send(tx, ana, "job.failed", "A subject", "Text.")
    assert await states(sql) == ["waiting", "held"]
    assert await mail.deliver(services.tenancy) == Delivered()
    assert await states(sql) == ["held", "held"]


async def test_a_new_mail_server_is_not_flooded_with_what_is_old(
    services: Services, add_user: AddUser, sql: Sql, mailbox: Mailbox
) -> None:
    ana = await add_user("ana@example.com")
    for age in ("2 days", "1 hour"):
        async with services.tenancy.acting_as(SERVICE) as tx:
            made = await sending(None).send(tx, ana, "job.failed", f"From {age} ago", "Text.")
        await sql("update mail.messages set created_at = now() - %s::interval where id = %s", age, made)
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
    [message] = mailbox.received
    assert message["Subject"] == "From 1 hour ago"
    assert await states(sql) == ["held", "sent"]


@pytest.mark.parametrize(
    "change",
    [
        "email_confirmed_at = null",
        "email = null",
        "deleted_at = now()",
        "banned_until = now() + interval '1 day'",
    ],
)
async def test_nobody_is_written_to_who_cannot_be(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox, change: str
) -> None:
    ana, ben = await add_user("ana@example.com"), await add_user("ben@example.com")
    for user in (ana, ben):
        await tell(user)
    await sql(f"update auth.users set {change} where id = %s", ana)
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
    assert mailbox.recipients == ["ben@example.com"]
    assert await states(sql) == ["held", "sent"]


@pytest.mark.parametrize("kind", ["job.failed", "*"])
async def test_what_is_muted_is_kept_and_not_sent(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql, mailbox: Mailbox, kind: str
) -> None:
    ana: UUID = await add_user("ana@example.com")
    await tell(ana, "Before")
    await sql("insert into mail.preferences (user_id, kind) values (%s, %s)", ana, kind)
    await tell(ana, "After")
    await tell(ana, "Something else", kind="rules.digest")
    assert await states(sql) == ["waiting", "muted", "muted" if kind == "*" else "waiting"]
    async with mail_server(mailbox) as server:
        await sending(server).deliver(services.tenancy)
    expected = [] if kind == "*" else ["Something else"]
    assert [message["Subject"] for message in mailbox.received] == expected
    assert await states(sql) == ["muted", "muted", "muted" if kind == "*" else "sent"]


async def test_the_link_in_the_header_is_for_the_kind_if_there_is_but_one(
    services: Services, add_user: AddUser, tell: Tell, mailbox: Mailbox
) -> None:
    ana, ben = await add_user("ana@example.com"), await add_user("ben@example.com")
    await tell(ana, kind="job.failed")
    for kind in ("job.failed", "rules.digest"):
        await tell(ben, kind=kind)
    async with mail_server(mailbox) as server:
        mail = sending(server)
        await mail.deliver(services.tenancy)

    def unsubscribes(name: str) -> str:
        [message] = mailbox.of(f"{name}@example.com")
        return mail.ticket(message["List-Unsubscribe"].partition("token=")[2].rstrip(">")).kind

    assert (unsubscribes("ana"), unsubscribes("ben")) == ("job.failed", "*")
