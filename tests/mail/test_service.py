"""Leaving messages, and the rights to."""

from __future__ import annotations

import json
from uuid import uuid4

import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import NOBODY, SERVICE, Caller
from recollect.errors import InvalidInput, NotAllowed, NotFound
from tests.conftest import Person
from tests.events.webhooks.conftest import as_user
from tests.mail.conftest import AddUser, Sql, Tell

pytestmark = pytest.mark.anyio


class Regret(Exception):
    """Something that undoes a transaction."""


async def test_a_message_is_there_if_and_only_if_the_change_is(
    services: Services, add_user: AddUser, sql: Sql
) -> None:
    ana = await add_user("ana@example.com")
    with pytest.raises(Regret):
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.mail.send(tx, ana, "job.failed", "Undone", "Text.")
            raise Regret
    async with services.tenancy.acting_as(SERVICE) as tx:
        for subject in ("First", "Second"):
            await services.mail.send(tx, ana, "job.failed", subject, "Text.")
    rows = await sql("select subject from mail.messages order by created_at")
    assert [row["subject"] for row in rows] == ["First", "Second"]


async def test_with_the_rights_of_a_user_only_that_user_is_told(
    services: Services, add_user: AddUser, sql: Sql
) -> None:
    ana, ben = await add_user("ana@example.com"), await add_user("ben@example.com")
    async with services.tenancy.acting_as(Caller.user(ana)) as tx:
        await services.mail.send(tx, ana, "rules.digest", "To myself", "Text.")
    for caller in (Caller.user(ana), NOBODY):
        with pytest.raises(NotAllowed):
            async with services.tenancy.acting_as(caller) as tx:
                await services.mail.send(tx, ben, "rules.digest", "To somebody else", "Text.")
    assert [row["user_id"] for row in await sql("select user_id from mail.messages")] == [ana]


async def test_who_claims_to_be_the_service_is_not(services: Services, ana: Person, ben: Person) -> None:
    async with as_user(services, ana) as connection:
        claims = json.dumps({"sub": str(ana.id), "role": "service_role"})
        await connection.execute("select set_config('request.jwt.claims', %s, true)", (claims,))
        with pytest.raises(psycopg.Error, match="for yourself alone"):
            await connection.execute("select private.send_mail(%s, 'job.failed', 'Hi', 'Text.')", (ben.id,))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"kind": "Job Failed"}, "kind"),
        ({"kind": "*"}, "kind"),
        ({"kind": "a" * 101}, "kind"),
        ({"subject": " \r\n\x00"}, "subject"),
        ({"link": "javascript:alert(1)"}, "link"),
        ({"link": "//elsewhere.example"}, "link"),
        ({"link": "/\\elsewhere.example"}, "link"),
        ({"link": "https://"}, "link"),
        ({"link": "/a b\r\nBcc: eve@example.com"}, "link"),
    ],
)
async def test_what_cannot_be_sent_is_refused_by_name(
    services: Services, add_user: AddUser, given: dict[str, str], named: str
) -> None:
    ana = await add_user("ana@example.com")
    wanted = {"kind": "job.failed", "subject": "A subject", "text": "Text.", **given}
    with pytest.raises(InvalidInput, match=f"^{named}: "):
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.mail.send(tx, ana, **wanted)


async def test_nobody_is_told_who_is_not_there(services: Services) -> None:
    with pytest.raises(NotFound):
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.mail.send(tx, uuid4(), "job.failed", "A subject", "Text.")


async def test_what_is_too_long_is_cut(services: Services, add_user: AddUser, tell: Tell, sql: Sql) -> None:
    await tell(await add_user("ana@example.com"), "s" * 1_000, "t" * 100_000)
    [row] = await sql("select subject, body from mail.messages")
    assert (len(row["subject"]), len(row["body"])) == (200, 10_000)
    assert row["body"].endswith("t…")


async def test_messages_go_after_ninety_days(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    ana = await add_user("ana@example.com")
    for age in (89, 91, 200):
        made = await tell(ana, f"{age} days")
        await sql(
            "update mail.messages set created_at = now() - %s * interval '1 day' where id = %s", age, made
        )
    assert await services.mail.purge(services.tenancy) == 2
    assert [row["subject"] for row in await sql("select subject from mail.messages")] == ["89 days"]


async def test_a_users_messages_go_with_the_user(
    services: Services, add_user: AddUser, tell: Tell, sql: Sql
) -> None:
    ana = await add_user("ana@example.com")
    await tell(ana)
    await sql("insert into mail.preferences (user_id, kind) values (%s, '*')", ana)
    await sql("select private.remove_user(%s)", ana)
    assert await sql("select 1 from mail.messages union all select 1 from mail.preferences") == []
