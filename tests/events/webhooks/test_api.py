"""Webhooks over HTTP: who may have them, what is told about them, and what was delivered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from standardwebhooks import WebhookVerificationError

from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.events.webhooks.addresses import AddressRefused
from recollect.events.webhooks.models import NewEndpoint
from recollect.events.webhooks.service import MAX_ENDPOINTS, Webhooks
from recollect.events.webhooks.store import SecretBox
from tests.api.serving import serving
from tests.conftest import MakePerson, Person, make_settings
from tests.events.webhooks.conftest import Turns, as_user, hook, personal, remember, shared
from tests.events.webhooks.receiving import OK, Receiver, status

pytestmark = pytest.mark.anyio

BROKEN = status(500, b"out of order")
SOMEWHERE = "http://127.0.0.1:9/hooks"


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_webhook_is_made_read_changed_and_removed(ana: Person) -> None:
    place = f"{await personal(ana)}/webhooks"
    body = {"url": SOMEWHERE, "types": ["bank.*", "bank.*", "memory.added"], "description": "Sync"}
    answer = await ana.http.post(place, json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["secret"].startswith("whsec_")
    assert (made["url"], made["types"]) == (SOMEWHERE, ["bank.*", "memory.added"])
    assert (made["is_enabled"], made["created_by"]) == (True, str(ana.id))

    shown = {name: value for name, value in made.items() if name != "secret"}
    address = f"{place}/{made['id']}"
    assert (await ana.http.get(address)).json() == shown
    assert (await ana.http.get(place)).json() == {"data": [shown]}

    changed = await ana.http.patch(address, json={"types": ["*"], "is_enabled": False})
    assert changed.status_code == 200, changed.text
    now = changed.json()
    assert (now["types"], now["url"], now["description"]) == (["*"], SOMEWHERE, "Sync")
    assert (now["is_enabled"], now["disabled_reason"]) == (False, "Disabled by hand.")

    assert (await ana.http.delete(address)).status_code == 204
    assert problem(await ana.http.get(address)) == (404, "unknown_webhook")


async def test_the_secret_is_shown_once(ana: Person, turns: Turns) -> None:
    made = await hook(ana, SOMEWHERE)
    await remember(ana, "tone")
    await turns.deliver(made)
    answers = [
        await ana.http.get(made.address),
        await ana.http.get(f"{made.workspace}/webhooks"),
        await ana.http.get(f"{made.address}/deliveries"),
        await ana.http.patch(made.address, json={"description": "x"}),
        await ana.http.post(f"{made.address}/test"),
    ]
    for answer in answers:
        assert answer.status_code < 300
        assert "secret" not in answer.text
    [stored] = await turns.sql("select sealed_secret from events.endpoints")
    assert made.secret.encode() not in bytes(stored["sealed_secret"])


async def test_the_database_itself_keeps_secrets_and_webhooks_from_others(
    services: Services, ana: Person, ben: Person
) -> None:
    made = await hook(ana, SOMEWHERE)
    async with as_user(services, ana) as connection:
        assert (await connection.execute("select id from events.endpoints")).rowcount == 1
    for query in (
        "select sealed_secret from events.endpoints",
        "select former_sealed_secret from events.endpoints",
        "update events.endpoints set former_sealed_secret = sealed_secret",
        "update events.endpoints set failures = 0",
        "select private.fan_out_to_webhooks(1, 1000)",
    ):
        async with as_user(services, ana) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute(query)
    for call in ("private.test_webhook", "private.replay_webhook"):
        async with as_user(services, ben) as connection:
            with pytest.raises(psycopg.Error, match="There is no such webhook"):
                await connection.execute(f"select {call}(%s)".encode(), (made.id,))


@pytest.mark.parametrize(
    ("body", "about"),
    [
        ({"url": SOMEWHERE, "types": []}, "types"),
        ({"url": SOMEWHERE, "types": ["bank"]}, "types"),
        ({"url": SOMEWHERE, "types": ["nothing.*"]}, "types"),
        ({"url": SOMEWHERE, "types": ["bank.imagined"]}, "types"),
        ({"url": SOMEWHERE, "types": ["BANK.*"]}, "types"),
        ({"url": SOMEWHERE, "types": "*"}, "types"),
        ({"url": SOMEWHERE, "secret": "whsec_mine"}, "secret"),
        ({"types": ["*"]}, "url"),
        ({"url": ""}, "url"),
        ({"url": "nonsense"}, "https://example.com"),
        ({"url": "https://user:password@example.com/"}, "password"),
        ({"url": "ftp://example.com/"}, "https"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_words(ana: Person, body: dict[str, Any], about: str) -> None:
    refused = await ana.http.post(f"{await personal(ana)}/webhooks", json=body)
    assert refused.status_code == 422
    assert about in refused.json()["detail"]


async def test_by_default_nothing_private_is_taken(home: Path, database_url: str, ana: Person) -> None:
    place = f"{await personal(ana)}/webhooks"
    async with (
        serving(make_settings(home, database_url)) as (_, address),
        httpx.AsyncClient(base_url=address, headers=ana.http.headers, timeout=30) as http,
    ):
        for url in (
            "https://127.0.0.1/",
            "https://localhost/",
            "https://[::1]/",
            "https://169.254.169.254/latest/meta-data/",
            "https://2130706433/",
            "http://example.com/",
        ):
            refused = await http.post(place, json={"url": url})
            assert problem(refused) == (422, "address_refused"), url
        made = await hook(ana, SOMEWHERE)
        moved = await http.patch(made.address, json={"url": "https://10.0.0.1/"})
        assert problem(moved) == (422, "address_refused")


async def test_names_are_looked_up_for_those_alone_who_may_add(
    services: Services, ana: Person, ben: Person
) -> None:
    asked = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["10.0.0.1"]

    webhooks = Webhooks(SecretBox(services.secret), allow_private=False, resolver=resolver)
    wanted = NewEndpoint(url="https://inside.example/")
    async with services.tenancy.acting_as(Caller.user(ana.id)) as tx:
        [place, *_] = await services.membership.workspaces(tx)
    for person, error in ((ben, "not yours"), (ana, "public address")):
        with pytest.raises(Exception, match=error) as refused:
            async with services.tenancy.acting_as(Caller.user(person.id)) as tx:
                await webhooks.create(tx, place.id, wanted)
    assert isinstance(refused.value, AddressRefused)
    assert asked == ["inside.example"]


def calls(place: str, webhook: str, delivery: str) -> list[tuple[str, str, Any]]:
    """Every endpoint, with a body that fits."""
    return [
        ("GET", f"{place}/webhooks", None),
        ("GET", f"{place}/webhooks/{webhook}", None),
        ("GET", f"{place}/webhooks/{webhook}/deliveries", None),
        ("POST", f"{place}/webhooks", {"url": SOMEWHERE}),
        ("PATCH", f"{place}/webhooks/{webhook}", {"url": "http://127.0.0.1:9/taken"}),
        ("POST", f"{place}/webhooks/{webhook}/secret", None),
        ("POST", f"{place}/webhooks/{webhook}/test", None),
        ("POST", f"{place}/webhooks/{webhook}/replay", {"since": "2020-01-01T00:00:00Z"}),
        ("POST", f"{place}/webhooks/{webhook}/deliveries/{delivery}/replay", None),
        ("DELETE", f"{place}/webhooks/{webhook}", None),
    ]


READS = 3


async def test_what_is_not_yours_is_answered_like_what_is_not_there(
    turns: Turns, ana: Person, ben: Person, anonymous: httpx.AsyncClient
) -> None:
    made = await hook(ana, SOMEWHERE)
    await remember(ana, "tone")
    await turns.deliver(made)
    [delivery] = await made.deliveries()
    before = await turns.sql("select * from events.endpoints")
    theirs = calls(made.workspace, str(made.id), delivery["id"])
    nowhere = calls(f"/api/workspaces/{uuid4()}", str(uuid4()), str(uuid4()))
    # In one's own workspace, somebody else's webhook is as far away.
    smuggled = calls(await personal(ben), str(made.id), delivery["id"])
    for (method, path, body), (_, missing, _), (_, inside, _) in zip(theirs, nowhere, smuggled, strict=True):
        refused = await ben.http.request(method, path, json=body)
        absent = await ben.http.request(method, missing, json=body)
        assert refused.status_code == 404, (method, path)
        assert refused.json() == absent.json()
        assert (await anonymous.request(method, path, json=body)).status_code == 401
        if str(made.id) in inside:
            assert (await ben.http.request(method, inside, json=body)).status_code == 404
    assert await turns.sql("select * from events.endpoints where workspace_id <> %s", uuid4()) == before


@pytest.mark.parametrize("role", ["owner", "admin", "reviewer", "member", "viewer"])
async def test_owners_and_admins_manage_and_all_members_read(
    turns: Turns, ana: Person, ben: Person, role: str
) -> None:
    team = await shared(ana)
    await ana.http.post(f"{team}/members", json={"email": ben.email, "role": role})
    made = await hook(ana, SOMEWHERE, workspace=team)
    await ana.http.post(f"{made.address}/test")
    await turns.deliver(made)
    [delivery] = await made.deliveries()
    manages = role in {"owner", "admin"}
    for number, (method, path, body) in enumerate(calls(team, str(made.id), delivery["id"])):
        answer = await ben.http.request(method, path, json=body)
        if manages or number < READS:
            assert answer.status_code < 300, (method, path, answer.text)
        else:
            assert problem(answer) == (403, "role_too_low"), (method, path)


async def test_a_key_needs_the_scope(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("webhooks:read", "access:read"))
    place = f"{await personal(reader)}/webhooks"
    assert (await reader.http.get(place)).status_code == 200
    assert (await reader.http.post(place, json={"url": SOMEWHERE})).status_code == 403
    other = await person("other@example.com", scopes=("bank:read", "access:read"))
    assert (await other.http.get(f"{await personal(other)}/webhooks")).status_code == 403


async def test_lists_come_in_pages(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made, *_ = [await hook(ana, receiver.url) for _ in range(3)]
    receiver.answers = [BROKEN, OK]
    for number in range(3):
        await remember(ana, f"k{number}")
        await turns.deliver(made)
    for address in (f"{made.workspace}/webhooks", f"{made.address}/deliveries"):
        whole = (await ana.http.get(address)).json()
        assert len(whole["data"]) == 3
        first = (await ana.http.get(address, params={"limit": 2})).json()
        rest = (await ana.http.get(address, params={"limit": 2, "cursor": first["nextCursor"]})).json()
        assert first["data"] + rest["data"] == whole["data"]
        assert "nextCursor" not in rest
        wrong = {"limit": 2, "cursor": first["nextCursor"], "state": "failed"}
        assert (await ana.http.get(address, params=wrong)).status_code == 422
    assert [len(await made.deliveries(state=state)) for state in ("pending", "delivered", "failed")] == [
        1,
        2,
        0,
    ]
    nonsense = await ana.http.get(f"{made.address}/deliveries", params={"state": "lost"})
    assert nonsense.status_code == 422


async def test_a_workspace_has_no_end_of_webhooks(ana: Person) -> None:
    for _ in range(MAX_ENDPOINTS):
        await hook(ana, SOMEWHERE)
    refused = await ana.http.post(f"{await personal(ana)}/webhooks", json={"url": SOMEWHERE})
    assert problem(refused) == (409, "too_many_webhooks")


async def test_a_repeated_request_makes_one_webhook(ana: Person) -> None:
    place = f"{await personal(ana)}/webhooks"
    headers = {"Idempotency-Key": "once"}
    first, second = [await ana.http.post(place, json={"url": SOMEWHERE}, headers=headers) for _ in range(2)]
    assert first.json() == second.json()
    assert len((await ana.http.get(place)).json()["data"]) == 1


# Secrets, tests, replays


async def test_after_a_new_secret_both_sign_for_a_day(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    answer = await ana.http.post(f"{made.address}/secret")
    assert answer.status_code == 200, answer.text
    secret = answer.json()["secret"]
    assert secret != made.secret

    await remember(ana, "tone")
    await turns.deliver(made)
    receiver.received[0].verified(secret)
    receiver.received[0].verified(made.secret)

    await turns.sql("update events.endpoints set former_secret_until = now() - interval '1 second'")
    await remember(ana, "tone", 2)
    await turns.deliver(made)
    receiver.received[1].verified(secret)
    with pytest.raises(WebhookVerificationError):
        receiver.received[1].verified(made.secret)


async def test_a_secret_that_was_moved_to_another_webhook_signs_nothing(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made, other = await hook(ana, receiver.url), await hook(ana, receiver.url)
    await turns.sql(
        "update events.endpoints set sealed_secret ="
        " (select sealed_secret from events.endpoints where id = %s) where id = %s",
        other.id,
        made.id,
    )
    await remember(ana, "tone")
    await turns.deliver(made)
    [delivery] = await made.deliveries()
    assert "secret cannot be opened" in delivery["last_error"]
    assert receiver.received == []


async def test_a_test_goes_to_one_webhook_whatever_it_hears_of(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made, other = await hook(ana, receiver.url, "memory.added"), await hook(ana, receiver.url)
    assert (await ana.http.post(f"{made.address}/test")).status_code == 202
    await turns.deliver(made)
    await turns.deliver(other)
    [received] = receiver.received
    payload = received.verified(made.secret)
    assert (payload["type"], payload["data"]["endpoint"]) == ("webhook.test", str(made.id))

    await ana.http.patch(made.address, json={"is_enabled": False})
    assert problem(await ana.http.post(f"{made.address}/test")) == (409, "conflict")


async def test_a_delivery_is_replayed_under_the_same_id(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone")
    await turns.deliver(made)
    [delivery] = await made.deliveries()
    address = f"{made.address}/deliveries/{delivery['id']}/replay"

    answer = await ana.http.post(address)
    assert (answer.status_code, answer.json()["state"]) == (202, "pending"), answer.text
    await turns.sql("delete from jobs.runs")
    await turns.relay()
    assert [one["key"] for one in await turns.waiting()] == [str(made.id)]
    assert await turns.deliver(made) == {"delivered": 1, "failed": 0}

    first, again = receiver.received
    assert (first.id, first.body) == (again.id, again.body)
    again.verified(made.secret)
    assert len(await made.deliveries()) == 1
    missing = await ana.http.post(f"{made.address}/deliveries/{uuid4()}/replay")
    assert problem(missing) == (404, "unknown_delivery")


async def test_a_replay_holds_up_nothing_new(turns: Turns, ana: Person, receiver: Receiver) -> None:
    made = await hook(ana, receiver.url)
    await remember(ana, "tone", 1)
    await turns.deliver(made)
    [old] = await made.deliveries()
    receiver.answers = [BROKEN, OK]
    await ana.http.post(f"{made.address}/deliveries/{old['id']}/replay")
    await turns.deliver(made)
    await remember(ana, "tone", 2)
    assert await turns.deliver(made) == {"delivered": 1, "failed": 0}


async def test_all_that_failed_since_a_moment_is_replayed_in_order(
    turns: Turns, ana: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    for value in range(4):
        await remember(ana, "tone", value)
    await turns.relay()
    await turns.sql("update events.deliveries set state = 'failed', finished_at = now()")
    await turns.sql(
        "update events.deliveries set created_at = now() - interval '2 days'"
        " where position = (select min(position) from events.deliveries)"
    )
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    answer = await ana.http.post(f"{made.address}/replay", json={"since": since})
    assert (answer.status_code, answer.json()) == (202, {"replayed": 3})
    assert await turns.deliver(made) == {"delivered": 3, "failed": 0}
    positions = [received.verified(made.secret)["data"]["position"] for received in receiver.received]
    assert positions == sorted(positions)
    again = await ana.http.post(f"{made.address}/replay", json={"since": since})
    assert again.json() == {"replayed": 0}
    assert (await ana.http.post(f"{made.address}/replay", json={})).status_code == 422
