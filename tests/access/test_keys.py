"""API keys: what they may do, what is shown of them, and when they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.errors import NotAllowed
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio


async def make_key(person: Person, **wanted: Any) -> dict[str, Any]:
    answer = await person.http.post("/api/auth/keys", json=wanted)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def me_by(person: Person, key: str) -> Any:
    return await person.http.get("/api/auth/me", headers={"Authorization": f"Bearer {key}"})


async def test_a_key_is_shown_once_and_known_by_its_prefix_after(
    ana: Person, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    made = await make_key(ana, name="laptop")

    listed = await ana.http.get("/api/auth/keys")

    [shown] = [key for key in listed.json()["data"] if key["name"] == "laptop"]
    assert made["key"].startswith(shown["prefix"] + "_")
    assert "key" not in shown
    assert made["key"] not in listed.text
    rows = await (await as_superuser.execute("select k::text from private.api_keys k")).fetchall()
    assert not [row for row in rows if made["key"].removeprefix(made["prefix"]) in row[0]]


async def test_when_a_key_was_last_used_is_shown(ana: Person) -> None:
    made = await make_key(ana, name="laptop")
    assert made["last_used_at"] is None
    assert (await me_by(ana, made["key"])).status_code == 200
    [shown] = [
        key for key in (await ana.http.get("/api/auth/keys")).json()["data"] if key["id"] == made["id"]
    ]
    assert shown["last_used_at"] is not None


async def test_a_revoked_key_is_refused_and_stays_in_the_list(ana: Person) -> None:
    made = await make_key(ana)
    assert (await me_by(ana, made["key"])).status_code == 200

    revoked = await ana.http.delete(f"/api/auth/keys/{made['id']}")

    assert revoked.json()["revoked_at"] is not None
    assert_problem(await me_by(ana, made["key"]), 401, "not_signed_in")
    again = await ana.http.delete(f"/api/auth/keys/{made['id']}")
    assert again.json()["revoked_at"] == revoked.json()["revoked_at"]


async def test_a_key_can_be_made_to_expire(ana: Person, as_superuser: psycopg.AsyncConnection[Any]) -> None:
    made = await make_key(ana, expires_at="2999-12-31T23:59:59+02:00")
    assert made["expires_at"].startswith("2999-12-31T21:59:59")
    assert (await me_by(ana, made["key"])).status_code == 200
    await as_superuser.execute(
        "update private.api_keys set expires_at = now() - interval '1 second' where id = %s", [made["id"]]
    )
    assert_problem(await me_by(ana, made["key"]), 401, "not_signed_in")


async def test_when_a_key_expires_is_written_out(ana: Person) -> None:
    for expires_at in (
        *(1999999999, "1999999999", "2999-12-31", "2999-12-31T23:59:59", "tomorrow", True),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ):
        answer = await ana.http.post("/api/auth/keys", json={"expires_at": expires_at})
        assert_problem(answer, 422, "invalid_input")


async def test_a_key_with_a_letter_changed_is_refused(ana: Person) -> None:
    for wrong in (ana.key[:-1], ana.key + "x", ana.key.swapcase(), "rk_", b"rk_x".hex()):
        assert_problem(await me_by(ana, wrong), 401)


async def test_other_schemes_and_shapes_are_refused(ana: Person) -> None:
    for authorization in (
        f"Basic {ana.key}",
        ana.key,
        "Bearer",
        f"Bearer  {ana.key}",
        "Bearer a b",
    ):
        answer = await ana.http.get("/api/auth/me", headers={"Authorization": authorization})
        assert_problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_key_reaches_further_than_its_maker(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("read", "access:write"))
    for wanted in (["write"], ["admin"], ["bank:write"], ["read", "write"]):
        answer = await reader.http.post("/api/auth/keys", json={"scopes": wanted})
        assert_problem(answer, 403, "not_allowed")

    narrower = await make_key(reader, scopes=["bank:read"])
    allowed = {"Authorization": f"Bearer {narrower['key']}"}
    assert (await reader.http.get(reader.memory, headers=allowed)).status_code == 200
    refused = await reader.http.post(reader.memory, json={"key": "k", "value": 1}, headers=allowed)
    assert_problem(refused, 403, "not_allowed")


async def test_a_scope_that_does_not_exist_is_refused(ana: Person) -> None:
    for wanted in (["root"], ["bank:admin"], ["READ"], ["read\n"], [], ["read"] * 51, "read", [None]):
        assert_problem(await ana.http.post("/api/auth/keys", json={"scopes": wanted}), 422, "invalid_input")


async def test_the_admin_scope_is_useless_to_who_is_no_admin(
    ana: Person, admin: Person, services: Services, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    assert_problem(await ana.http.post("/api/auth/keys", json={"scopes": ["admin"]}), 403, "not_allowed")
    assert (await admin.http.get(ana.memory)).status_code == 200

    await as_superuser.execute("delete from private.admins")

    assert_problem(await admin.http.get(ana.memory), 404)
    assert_problem(await admin.http.get(f"/api/admin/users/{ana.id}/memory"), 403, "not_allowed")
    assert (await admin.http.get("/api/auth/me")).json()["is_admin"] is False
    with pytest.raises(NotAllowed):
        async with services.tenancy.acting_as(Caller.user(admin.id).needing("admin")) as tx:
            await services.access.keys(tx)


async def test_a_key_made_by_a_key_lives_no_longer_than_that_one(ana: Person, address: str) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    parent = (await ana.http.post("/api/auth/keys", json={"name": "parent", "expires_at": soon})).json()
    async with httpx.AsyncClient(base_url=address) as http:
        http.headers["Authorization"] = f"Bearer {parent['key']}"
        child = (await http.post("/api/auth/keys", json={"name": "child"})).json()
        assert child["expires_at"] == parent["expires_at"]
        http.headers["Authorization"] = f"Bearer {child['key']}"
        assert (await http.get("/api/auth/me")).status_code == 200
        assert (await ana.http.delete(f"/api/auth/keys/{parent['id']}")).status_code == 200
        assert (await http.get("/api/auth/me")).status_code == 401
    assert (await ana.http.get("/api/auth/me")).status_code == 200
