"""Whose memory it is: nobody reaches another's, and nobody can tell whether it is there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from recollect.api.description import routes_of
from recollect.app import create_app
from recollect.bootstrap import Services
from recollect.brain.models import NewMemory, Owner
from recollect.db.queries import Query
from recollect.db.tenancy import NOBODY, SERVICE
from recollect.errors import InvalidInput, Unavailable
from recollect.http.routing import scope_needed
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person, make_settings
from tests.security.bodies import BODIES, MEDIA_TYPES, QUERIES, WORDS

pytestmark = pytest.mark.anyio

# These never end.
STREAMS = {"/api/events"}
SERVICE_KEY = "the service key of the tests, long enough"
PARAMETER = re.compile(r"{(\w+)}")

# What changes when a request is merely authenticated.
_SEEN = ("last_used_at", "last_seen_at")


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(
        home, database_url, service_key=SERVICE_KEY, database_pool_size=1, webhooks_allow_private=True
    )


def endpoints(services: Services) -> list[tuple[str, str, str | None]]:
    """Method, path and the scope it takes, of every endpoint of the application."""
    return [
        (method, route.path, scope_needed(route.dependant))
        for route in routes_of(create_app(services))
        if route.include_in_schema and not route.path.startswith("/api/cron/")
        for method in sorted(route.methods or ())
    ]


async def call(http: httpx.AsyncClient, method: str, path: str, ids: dict[str, str]) -> httpx.Response:
    names = PARAMETER.findall(path)
    assert set(names) <= ids.keys(), f"{path} takes an id that this test knows nothing of"
    if method in {"POST", "PUT", "PATCH"}:
        assert (method, path) in BODIES, f"say in BODIES what {method} {path} takes"
    return await http.request(
        method,
        PARAMETER.sub(lambda name: ids[name[1]], path),
        json=BODIES.get((method, path)),
        params=QUERIES.get((method, path)),
        headers={"Content-Type": MEDIA_TYPES[method, path]} if (method, path) in MEDIA_TYPES else None,
    )


@pytest.fixture
async def of_ana(ana: Person, services: Services) -> dict[str, str]:
    """Something of every kind that belongs to ana, by the name its id has in paths."""
    await ana.http.post(ana.memory, json={"key": "kept", "value": "ana's own"})
    workspace = (await ana.http.post("/api/workspaces", json={"name": "Ana's"})).json()["id"]
    project = await ana.http.post(f"/api/workspaces/{workspace}/projects", json={"name": "Ana's"})
    company = (await ana.http.post("/api/companies", json={"name": "Ana's"})).json()["id"]
    await services.access.sign_in_by_link(await services.access.make_link(ana.email))
    [session] = (await ana.http.get("/api/auth/sessions")).json()["data"]
    [key] = (await ana.http.get("/api/auth/keys")).json()["data"]
    async with services.tenancy.acting_as(SERVICE) as tx:
        job = await services.jobs.enqueue(tx, "x", user_id=ana.id, workspace_id=UUID(workspace))
        message = await services.mail.send(tx, ana.id, "job.failed", "Ana's", "Ana's own.")
        asked = await tx.one(
            statement(
                "insert into public.model_calls (user_id, workspace_id, purpose, provider, model)"
                " values (%(user)s, %(workspace)s, 'memory.extract', 'anthropic', 'x') returning id"
            ),
            {"user": ana.id, "workspace": workspace},
        )
    remembered = await ana.http.post(
        "/api/memories", json={"text": "Ana's own.", "user": "ana", "infer": False}
    )
    for brain in (f"/api/users/{ana.id}/brain", f"/api/companies/{company}/brain"):
        assert (await ana.http.put(f"{brain}/motto", json={"content": "Ana's own."})).status_code == 200
    hook = await ana.http.post(
        f"/api/workspaces/{workspace}/webhooks", json={"url": "http://127.0.0.1:9/ana"}
    )
    await ana.http.post(f"/api/workspaces/{workspace}/webhooks/{hook.json()['id']}/test")
    async with services.tenancy.acting_as(ana.caller) as tx:
        fact = NewMemory(slug="motto", content="Ana's own.")
        proposal = await services.proposals.propose(tx, Owner("company", UUID(company)), fact, "Ana's agent")
    await services.relay.relay()
    deliveries = await ana.http.get(f"/api/workspaces/{workspace}/webhooks/{hook.json()['id']}/deliveries")
    return {
        "userId": str(ana.id),
        "memberId": str(ana.id),
        "workspaceId": workspace,
        "projectId": project.json()["id"],
        "companyId": company,
        "slug": "motto",
        "sessionId": session["id"],
        "keyId": key["id"],
        "jobId": str(job),
        "job": "digest-of-ana",
        "messageId": str(message),
        "callId": str(asked["id"]),
        "proposalId": str(proposal.id),
        "tool": "tool-of-ana",
        "domain": "domain-of-ana",
        **await _rules_of(ana, workspace),
        "memoryId": remembered.json()["results"][0]["id"],
        "webhookId": hook.json()["id"],
        "deliveryId": deliveries.json()["data"][0]["id"],
        "activityId": await _activity_of(ana),
        "memoryNodeId": await _node_of(ana),
        # Of nobody, and found in no answer by chance.
        "promptVersion": "1987654321",
    }


async def _rules_of(ana: Person, workspace: str) -> dict[str, str]:
    """A chat that asks for a rule, that rule, and a prompt."""
    await ana.http.put("/api/chats/consent", json={"granted": True})
    asks = {"session": "asks", "messages": [{"role": "user", "content": "From now on always use tabs."}]}
    [chat] = (await ana.http.post("/api/chats", json={"chats": [asks]})).json()["ids"]
    await ana.http.post("/extract-rules", json={"chat_history_ids": [chat]})
    [rule] = (await ana.http.get("/api/rules")).json()["data"]
    prompt = await ana.http.post(
        "/api/rules/prompts", json={"name": "Ana's", "prompt_text": "Ana's own.", "workspace_id": workspace}
    )
    return {"chatId": chat, "ruleId": rule["id"], "promptId": prompt.json()["id"]}


async def _activity_of(ana: Person) -> str:
    """Something that ana did, beside a profile."""
    profile = f"/api/users/{ana.id}/profile"
    await ana.http.put(profile, json={"last_updated_by": "ana", "summary": "Ana's own."})
    note = {"kind": "note", "content": "Ana's own."}
    await ana.http.post(f"{profile}/activity", json={"activities": [note]})
    [activity] = (await ana.http.get(f"{profile}/activity")).json()["data"]
    found: str = activity["id"]
    return found


async def _node_of(ana: Person) -> str:
    """A memory node that keeps something."""
    name = "scratch-of-ana"
    path = f"/api/users/{ana.id}/nodes/{name}"
    assert (await ana.http.put(path, json={"memory_type": "KEY_VALUE_STORE"})).status_code == 200
    kept = await ana.http.post(f"{path}/store", json={"key": "kept", "value": "ana's own"})
    assert kept.status_code == 200
    return name


@pytest.fixture
async def as_superuser(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


async def everything_stored(connection: psycopg.AsyncConnection[Any]) -> dict[str, list[str]]:
    tables = await connection.execute(
        "select table_schema, table_name from information_schema.tables"
        " where table_schema in ('public', 'private', 'auth', 'jobs', 'events', 'mail')"
        " and table_type = 'BASE TABLE'"
    )
    stored = {}
    for schema, table in await tables.fetchall():
        name = psycopg.sql.Identifier(schema, table)
        rows = await connection.execute(psycopg.sql.SQL("select to_jsonb(t) from {} t").format(name))
        stored[f"{schema}.{table}"] = sorted(
            json.dumps({column: value for column, value in row[0].items() if column not in _SEEN})
            for row in await rows.fetchall()
        )
    return stored


async def test_what_is_not_yours_is_as_if_it_were_not_there(
    services: Services,
    ben: Person,
    of_ana: dict[str, str],
    as_superuser: psycopg.AsyncConnection[Any],
) -> None:
    before = await everything_stored(as_superuser)
    nowhere = {name: str(uuid4()) for name in of_ana} | {"slug": "nothing", "promptVersion": "7"}
    with_ids = [one for one in endpoints(services) if "{" in one[1]]
    assert len(with_ids) > 10

    for method, path, needs in with_ids:
        not_yours = await call(ben.http, method, path, of_ana)
        not_there = await call(ben.http, method, path, nowhere)

        expected = 403 if needs == "admin" else 404
        assert_problem(not_yours, expected)
        assert not_yours.content == not_there.content, f"{method} {path}"
        assert _comparable(not_yours) == _comparable(not_there), f"{method} {path}"

    assert await everything_stored(as_superuser) == before


def _comparable(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in {"x-request-id", "date"}}


async def test_lists_hold_nothing_of_anybody_else(
    services: Services, ben: Person, of_ana: dict[str, str]
) -> None:
    for method, path, needs in endpoints(services):
        if method == "GET" and "{" not in path and needs not in {None, "admin"} and path not in STREAMS:
            answer = await ben.http.get(path)
            assert answer.status_code == 200, path
            assert not [name for name, given in of_ana.items() if given in answer.text], path


async def test_one_own_id_beside_another_persons_does_not_help(
    services: Services, ben: Person, of_ana: dict[str, str], as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    workspace = (await ben.http.post("/api/workspaces", json={"name": "Ben's"})).json()["id"]
    company = (await ben.http.post("/api/companies", json={"name": "Ben's"})).json()["id"]
    before = await everything_stored(as_superuser)
    mixed = {**of_ana, "workspaceId": workspace, "companyId": company}

    for method, path, _ in endpoints(services):
        if len(PARAMETER.findall(path)) > 1 and (method, path) not in WORDS:
            assert_problem(await call(ben.http, method, path, mixed), 404)

    assert await everything_stored(as_superuser) == before


async def test_without_a_credential_or_with_an_unknown_one_nobody_gets_in(
    services: Services, anonymous: httpx.AsyncClient, of_ana: dict[str, str]
) -> None:
    unknown = {"Authorization": "Bearer rk_00000000_of_nobody"}
    for method, path, needs in endpoints(services):
        if needs is None:
            continue
        assert_problem(await call(anonymous, method, path, of_ana), 401, "not_signed_in")
        anonymous.headers.update(unknown)
        assert_problem(await call(anonymous, method, path, of_ana), 401, "not_signed_in")
        anonymous.headers.pop("Authorization")


async def test_a_key_reaches_as_far_as_its_scopes(
    services: Services, person: MakePerson, of_ana: dict[str, str]
) -> None:
    reader = await person("reader@example.com", scopes=("read",))
    lesser_admin = await person("lesser@example.com", is_admin=True, scopes=("read", "write"))
    of_bank = await person("bank@example.com", scopes=("bank:read",))

    for method, path, needs in endpoints(services):
        if needs in {None, "any"}:
            continue
        assert needs is not None
        if not needs.endswith("read"):
            assert_problem(await call(reader.http, method, path, of_ana), 403, "not_allowed")
        if needs == "admin":
            assert_problem(await call(lesser_admin.http, method, path, of_ana), 403, "not_allowed")
        if needs != "bank:read":
            assert_problem(await call(of_bank.http, method, path, of_ana), 403, "not_allowed")

    assert (await reader.http.get(reader.memory)).status_code == 200
    assert (await of_bank.http.get(of_bank.memory)).status_code == 200
    # Every path of the bank names its owner, so every key may ask who that is.
    assert (await of_bank.http.get("/api/auth/me")).json()["id"] == str(of_bank.id)


async def test_an_admin_acts_for_the_user_in_the_path(
    admin: Person, ana: Person, of_ana: dict[str, str]
) -> None:
    assert (await admin.http.get(ana.memory)).json()["data"][0]["value"] == "ana's own"
    changed = await admin.http.post(ana.memory, json={"key": "kept", "value": "by an admin"})
    assert changed.json()["data"]["userId"] == str(ana.id)
    everything = await admin.http.get(f"/api/admin/users/{ana.id}/memory")
    assert [entry["value"] for entry in everything.json()["data"]] == ["by an admin"]
    assert (await admin.http.delete(f"/api/admin/users/{ana.id}/memory")).json() == {"deleted": 1}
    assert_problem(await admin.http.get(f"/api/user/{uuid4()}/memory"), 404, "not_found")


async def test_the_service_key_acts_for_the_user_in_the_path_and_for_nobody_else(
    anonymous: httpx.AsyncClient, ana: Person, ben: Person, of_ana: dict[str, str]
) -> None:
    anonymous.headers["Authorization"] = f"Bearer {SERVICE_KEY}"

    assert (await anonymous.get(ana.memory)).json()["data"][0]["value"] == "ana's own"
    written = await anonymous.post(ben.memory, json={"key": "k", "value": "by the service"})
    assert written.json()["data"]["userId"] == str(ben.id)
    assert (await anonymous.get(f"/api/admin/users/{ben.id}/memory")).status_code == 200
    assert [entry["key"] for entry in (await ana.http.get(ana.memory)).json()["data"]] == ["kept"]
    assert_problem(await anonymous.get(f"/api/user/{uuid4()}/memory"), 404, "not_found")
    assert_problem(await anonymous.get("/api/auth/me"), 403, "not_allowed")
    assert_problem(await anonymous.post("/api/auth/keys", json={}), 403, "not_allowed")
    assert_problem(await anonymous.delete(f"/api/auth/keys/{of_ana['keyId']}"), 403, "not_allowed")


async def test_a_service_key_that_is_nearly_right_is_wrong(anonymous: httpx.AsyncClient, ana: Person) -> None:
    for nearly in (SERVICE_KEY[:-1], SERVICE_KEY + "x", SERVICE_KEY.upper(), "é"):
        anonymous.headers["Authorization"] = f"Bearer {nearly}"
        assert_problem(await anonymous.get(ana.memory), 401)


async def test_a_cursor_of_one_list_is_refused_by_every_other(
    ana: Person, ben: Person, admin: Person
) -> None:
    for namespace in ("default", "other"):
        for key in ("a", "b"):
            body = {"key": key, "value": 1, "namespace": namespace}
            assert (await ana.http.post(ana.memory, json=body)).status_code == 200
    first = (await ana.http.get(ana.memory, params={"limit": 1})).json()["nextCursor"]
    where = {"cursor": first}

    second = await ana.http.get(ana.memory, params=where)
    assert [entry["key"] for entry in second.json()["data"]] == ["b"]
    other_namespace = {**where, "namespace": "other"}
    assert_problem(await ana.http.get(ana.memory, params=other_namespace), 422, "invalid_cursor")
    assert_problem(await ana.http.get(f"{ana.memory}/namespaces", params=where), 422, "invalid_cursor")
    assert_problem(await ana.http.get("/api/auth/keys", params=where), 422, "invalid_cursor")
    assert_problem(await ben.http.get(ben.memory, params=where), 422, "invalid_cursor")
    all_of_ana = f"/api/admin/users/{ana.id}/memory"
    assert_problem(await admin.http.get(all_of_ana, params=where), 422, "invalid_cursor")


async def test_a_cursor_of_a_list_that_is_the_callers_own_is_no_use_to_another(
    ana: Person, ben: Person
) -> None:
    for name in ("one", "two"):
        await ana.http.post("/api/auth/keys", json={"name": name})
    first = (await ana.http.get("/api/auth/keys", params={"limit": 1})).json()

    again = await ana.http.get("/api/auth/keys", params={"cursor": first["nextCursor"]})
    assert len(again.json()["data"]) == 2
    refused = await ben.http.get("/api/auth/keys", params={"cursor": first["nextCursor"]})
    assert_problem(refused, 422, "invalid_cursor")


async def test_statements_in_a_parameter_are_text(ben: Person, ana: Person, of_ana: dict[str, str]) -> None:
    claims = json.dumps({"sub": str(ana.id), "role": "service_role"})
    for text in (
        "x'; set role service_role; --",
        "x'); reset role; select ('",
        f"x', set_config('request.jwt.claims', '{claims}', false), '",
        f"$$; select set_config('request.jwt.claims', '{claims}', false); $$",
        "\\'; set session authorization postgres; --",
        "%(user_id)s; commit; set role none",
    ):
        body = {"key": text[:256], "namespace": text[:256], "value": text}
        assert (await ben.http.post(ben.memory, json=body)).status_code == 200
        read = await ben.http.get(ben.memory, params={"namespace": text[:256]})
        assert [entry["value"] for entry in read.json()["data"]] == [text]
        assert (await ben.http.get("/api/auth/me")).json()["id"] == str(ben.id)
        assert_problem(await ben.http.get(ana.memory), 404)


# With one connection, whoever comes next gets the one that was used last.


def statement(text: LiteralString) -> Query:
    return Query("test", "A statement of the test.", text)


WHO = statement("select current_user::text as role, auth.uid() as id, current_setting('search_path') as path")


@asynccontextmanager
async def then_nobodys(services: Services) -> AsyncIterator[None]:
    """What a fresh connection says about itself, it must say again afterwards."""
    async with services.tenancy.acting_as(NOBODY) as tx:
        before = await tx.one(WHO)
    assert before["id"] is None
    yield
    async with services.tenancy.acting_as(NOBODY) as tx:
        assert await tx.one(WHO) == before


async def run_as(person: Person, services: Services, *statements: LiteralString) -> None:
    async with services.tenancy.acting_as(person.caller) as tx:
        for text in statements:
            await tx.run(statement(text))


async def test_nothing_of_a_caller_is_left_after_an_error(
    services: Services, ana: Person, ben: Person
) -> None:
    async with then_nobodys(services):
        with pytest.raises(InvalidInput):
            await run_as(
                ana, services, "select set_config('search_path', 'pg_catalog', true)", "select 99999::int2"
            )
    assert (await ben.http.get("/api/auth/me")).json()["id"] == str(ben.id)


async def test_nothing_of_a_caller_is_left_after_a_statement_timeout(
    services: Services, ana: Person, ben: Person
) -> None:
    async with then_nobodys(services):
        with pytest.raises(Unavailable):
            await run_as(
                ana, services, "select set_config('statement_timeout', '50', true)", "select pg_sleep(20)"
            )
    assert (await ben.http.get("/api/auth/me")).json()["id"] == str(ben.id)


async def test_nothing_of_a_caller_is_left_after_a_cancellation(
    services: Services, ana: Person, ben: Person
) -> None:
    is_inside = asyncio.Event()

    async def sleep_as_ana() -> None:
        async with services.tenancy.acting_as(ana.caller) as tx:
            await tx.one(WHO)
            is_inside.set()
            await tx.one(statement("select pg_sleep(20)"))

    async with then_nobodys(services):
        sleeping = asyncio.create_task(sleep_as_ana())
        await is_inside.wait()
        await asyncio.sleep(0.05)  # until Postgres has the statement
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
    assert (await ben.http.get("/api/auth/me")).json()["id"] == str(ben.id)
    assert_problem(await ben.http.get(ana.memory), 404)
