"""Messages and preferences over HTTP."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest

from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person
from tests.mail.conftest import Sql, Tell

pytestmark = pytest.mark.anyio

MESSAGES = "/api/mail/messages"
PREFERENCES = "/api/mail/preferences"


async def test_messages_come_newest_first_a_page_at_a_time(ana: Person, tell: Tell) -> None:
    for number in range(5):
        await tell(ana.id, f"Subject {number}", link="/jobs")
    page = (await ana.http.get(MESSAGES, params={"limit": 3})).json()
    rest = (await ana.http.get(MESSAGES, params={"limit": 3, "cursor": page["nextCursor"]})).json()
    assert [message["subject"][-1] for message in page["data"] + rest["data"]] == list("43210")
    assert "nextCursor" not in rest
    first = page["data"][0]
    assert {name: first[name] for name in ("kind", "body", "link", "state", "readAt", "sentAt", "error")} == {
        "kind": "job.failed",
        "body": "Text.",
        "link": "/jobs",
        "state": "waiting",
        "readAt": None,
        "sentAt": None,
        "error": None,
    }


async def test_a_cursor_is_no_use_to_others(ana: Person, ben: Person, tell: Tell) -> None:
    for person in (ana, ben):
        for _ in range(2):
            await tell(person.id)
    cursor = (await ana.http.get(MESSAGES, params={"limit": 1})).json()["nextCursor"]
    assert_problem(await ben.http.get(MESSAGES, params={"cursor": cursor}), 422, "invalid_cursor")


async def test_a_message_is_read_once(ana: Person, tell: Tell) -> None:
    message = await tell(ana.id)
    first = (await ana.http.post(f"{MESSAGES}/{message}/read")).json()
    assert first["readAt"] is not None
    assert (await ana.http.post(f"{MESSAGES}/{message}/read")).json() == first
    assert (await ana.http.get(MESSAGES)).json()["data"] == [first]


async def test_a_message_can_be_deleted(ana: Person, tell: Tell) -> None:
    message = await tell(ana.id)
    assert (await ana.http.delete(f"{MESSAGES}/{message}")).status_code == 204
    assert (await ana.http.get(MESSAGES)).json() == {"data": []}
    assert_problem(await ana.http.delete(f"{MESSAGES}/{message}"), 404, "unknown_message")


async def test_others_messages_do_not_exist(ana: Person, ben: Person, tell: Tell) -> None:
    message = await tell(ana.id)
    assert (await ben.http.get(MESSAGES)).json() == {"data": []}
    for message_id in (message, uuid4()):
        assert_problem(await ben.http.post(f"{MESSAGES}/{message_id}/read"), 404, "unknown_message")
        assert_problem(await ben.http.delete(f"{MESSAGES}/{message_id}"), 404, "unknown_message")
    [kept] = (await ana.http.get(MESSAGES)).json()["data"]
    assert kept["readAt"] is None


async def test_mail_is_for_those_who_are_signed_in(anonymous: httpx.AsyncClient) -> None:
    for path in (MESSAGES, PREFERENCES):
        assert_problem(await anonymous.get(path), 401, "not_signed_in")


async def test_scopes_are_kept(person: MakePerson, tell: Tell) -> None:
    reader = await person("reader@example.com", scopes=("mail:read",))
    message = await tell(reader.id)
    assert (await reader.http.get(MESSAGES)).status_code == 200
    assert (await reader.http.get(PREFERENCES)).status_code == 200
    for refused in (
        await reader.http.post(f"{MESSAGES}/{message}/read"),
        await reader.http.delete(f"{MESSAGES}/{message}"),
        await reader.http.put(PREFERENCES, json={"muted": []}),
    ):
        assert refused.status_code == 403


async def test_preferences_are_replaced_as_a_whole(ana: Person, ben: Person, sql: Sql) -> None:
    assert (await ana.http.get(PREFERENCES)).json() == {"muted": []}
    for wanted in (["job.failed", "rules.digest"], ["*", "job.failed"], []):
        answer = await ana.http.put(PREFERENCES, json={"muted": [*wanted, *wanted]})
        assert answer.json() == {"muted": wanted}
        assert (await ana.http.get(PREFERENCES)).json() == {"muted": wanted}
        assert (await ben.http.get(PREFERENCES)).json() == {"muted": []}


async def test_what_was_muted_stays_muted_since_then(ana: Person, sql: Sql) -> None:
    await ana.http.put(PREFERENCES, json={"muted": ["job.failed"]})
    [before] = await sql("select muted_at from mail.preferences")
    await ana.http.put(PREFERENCES, json={"muted": ["job.failed"]})
    assert await sql("select muted_at from mail.preferences") == [before]


@pytest.mark.parametrize(
    "body",
    [{}, {"muted": "job.failed"}, {"muted": ["Job Failed"]}, {"muted": ["a"] * 101}, {"muted": [], "x": 1}],
)
async def test_preferences_that_make_no_sense_are_refused(ana: Person, body: dict[str, object]) -> None:
    assert_problem(await ana.http.put(PREFERENCES, json=body), 422, "invalid_input")
