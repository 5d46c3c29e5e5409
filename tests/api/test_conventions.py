"""What holds for every endpoint: the form of errors, ids of requests, logs, metrics, the description."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from recollect.access.models import NewUser
from recollect.api.description import routes_of
from recollect.app import create_app
from recollect.bootstrap import Services
from recollect.http.routing import scope_needed
from tests.api.raw import assert_problem
from tests.api.serving import free_port, serving
from tests.conftest import SECRET, Person, make_settings

pytestmark = pytest.mark.anyio

OPEN = {
    "/health",
    "/ready",
    "/metrics",
    "/api/auth/sign-in",
    "/api/auth/sign-in/link",
    "/api/auth/sign-out",
    "/api/cron/{job}",
    "/api/webhooks/stripe",
    "/api/webhooks/mem0",
}
MARKER = "zebra7391"


async def test_health_is_exactly_what_its_readers_expect(anonymous: httpx.AsyncClient) -> None:
    assert (await anonymous.get("/health")).json() == {"status": "healthy", "mem0_mode": "self-hosted"}


async def test_ready_counts_the_migrations(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get("/ready")
    files = list((Path(__file__).parents[2] / "supabase" / "migrations").glob("*.sql"))
    assert answer.json() == {"status": "ready", "migrations": len(files)}


async def test_not_ready_while_a_migration_is_missing(
    anonymous: httpx.AsyncClient, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "delete from supabase_migrations.schema_migrations"
            " where version = (select max(version) from supabase_migrations.schema_migrations)"
        )
    answer = await anonymous.get("/ready")
    assert_problem(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert (await anonymous.get("/health")).status_code == 200


async def test_every_error_has_one_form(ana: Person, anonymous: httpx.AsyncClient) -> None:
    assert_problem(await anonymous.get("/nowhere"), 404, "not_found")
    assert_problem(await anonymous.get(ana.memory), 401, "not_signed_in")
    assert_problem(await ana.http.get("/api/user/x/memory"), 422, "invalid_input")
    assert_problem(await ana.http.post(ana.memory, content=b"{"), 415, "unsupported_body")
    refused = await ana.http.put(ana.memory, json={})
    assert_problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "DELETE, GET, POST"


async def test_a_request_has_the_id_it_came_with_or_a_new_one(anonymous: httpx.AsyncClient) -> None:
    given = await anonymous.get("/health", headers={"X-Request-ID": "abc.DEF_123-4"})
    assert given.headers.get_list("x-request-id") == ["abc.DEF_123-4"]
    made = [
        (await anonymous.get(path, headers={"X-Request-ID": given})).headers["x-request-id"]
        for path, given in (
            ("/health", ""),
            ("/nowhere", "x" * 65),
            ("/api/auth/me", "a b"),
            ("/health", "<a>"),
        )
    ]
    assert all(re.fullmatch("[0-9a-f]{16}", request_id) for request_id in made)
    assert len(set(made)) == 4


async def test_metrics_count_requests_by_route_and_hold_no_ids(
    ana: Person, anonymous: httpx.AsyncClient
) -> None:
    await ana.http.get(ana.memory, params={"namespace": MARKER})
    await anonymous.get(f"/{MARKER}")
    await anonymous.request("PROPFIND", "/health")

    text = (await anonymous.get("/metrics")).text

    counted = 'recollect_http_requests_total{method="GET",route="/api/user/{userId}/memory",status="200"} 1.0'
    assert counted in text
    assert 'recollect_http_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert 'method="other"' in text
    assert "recollect_http_request_seconds_bucket" in text
    for private in (str(ana.id), MARKER, ana.key, "PROPFIND"):
        assert private not in text


# The description


async def test_the_description_is_complete(services: Services, anonymous: httpx.AsyncClient) -> None:
    schema = (await anonymous.get("/openapi.json")).json()
    assert schema["openapi"].startswith("3.1")
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    described = set()
    for route in routes_of(create_app(services)):
        for method in route.methods or ():
            if not route.include_in_schema:
                continue
            operation = schema["paths"][route.path][method.lower()]
            described.add(f"{method} {route.path}")
            assert operation["summary"].endswith("."), route.path
            assert operation["tags"], route.path
            is_open = route.path in OPEN
            assert (scope_needed(route.dependant) is None) == is_open, route.path
            assert operation["security"] == ([] if is_open else [{"bearer": []}, {"session": []}])
            wanted = {"400", "408", "413", "415"} | (set() if is_open else {"401", "403", "503"})
            if "{" in route.path or operation.get("requestBody") or operation.get("parameters"):
                wanted.add("422")
            assert wanted <= operation["responses"].keys(), f"{method} {route.path}"
            for status, answer in operation["responses"].items():
                assert answer["description"]
                if int(status) >= 400:
                    assert answer["content"] == problem, f"{method} {route.path} {status}"
    assert len(described) == sum(len(path) for path in schema["paths"].values())


async def test_the_description_says_what_is_enforced(anonymous: httpx.AsyncClient) -> None:
    schema = (await anonymous.get("/openapi.json")).json()
    put = schema["components"]["schemas"]["Put"]
    assert put["additionalProperties"] is False
    assert put["properties"]["key"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 256,
        "pattern": r"^[^\x00]*$",
        "title": "Key",
    }
    listing = {p["name"]: p for p in schema["paths"]["/api/user/{userId}/memory"]["get"]["parameters"]}
    assert listing["userId"]["schema"]["format"] == "uuid"
    assert listing["limit"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
        "default": 1000,
        "description": "At most this many.",
        "title": "Limit",
    }


# When the database is away


async def test_an_exhausted_pool_is_told_and_recovered_from(
    home: Path, database_url: str, services: Services, ana: Person
) -> None:
    async with serving(make_settings(home, database_url, database_pool_size=1)) as (other, address):
        async with (
            httpx.AsyncClient(base_url=address, headers=ana.http.headers, timeout=30) as http,
            other.tenancy.acting_as(ana.caller) as tx,
        ):
            await other.access.keys(tx)  # from here on it has the only connection
            answers = await asyncio.gather(*(http.get(ana.memory) for _ in range(60)))
            for answer in answers:
                assert_problem(answer, 503, "unavailable")
                assert int(answer.headers["retry-after"]) > 0
            assert (await http.get("/health")).status_code == 200
        async with httpx.AsyncClient(base_url=address, headers=ana.http.headers, timeout=30) as http:
            assert (await http.get(ana.memory)).status_code == 200


async def test_a_stopped_database_is_told(home: Path, database_url: str, tmp_path: Path) -> None:
    nowhere = conninfo_to_dict(database_url) | {"host": str(tmp_path)}
    url = " ".join(f"{name}={value}" for name, value in nowhere.items())
    async with (
        serving(make_settings(home, url)) as (_, address),
        httpx.AsyncClient(base_url=address, timeout=30) as http,
    ):
        http.headers["Authorization"] = "Bearer rk_00000000_x"
        sign_in = {"email": "ana@example.com", "password": "whatever"}
        answers = await asyncio.gather(
            http.get("/api/auth/me"),
            http.post(f"/api/user/{UUID(int=0)}/memory", json={"key": "k", "value": 1}),
            http.post("/api/auth/sign-in", json=sign_in),
            http.get("/ready"),
        )
        for answer in answers:
            assert_problem(answer, 503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
        assert (await http.get("/health")).status_code == 200


# Logs, of a server as it is started in earnest

# An error that we have no answer for, and whose message quotes what was sent, as Postgres's own do.
FAILS_WITH_THE_VALUE = """
    create function public.fail() returns trigger language plpgsql as
      'begin raise exception ''cannot store %'', new; end';
    create trigger fail before insert on public.user_memory for each row execute function public.fail();
"""


@asynccontextmanager
async def _serving(home: Path, database_url: str, log: Path) -> AsyncIterator[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")},
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_SECRET_KEY": SECRET,
        "RECOLLECT_DATABASE_URL": database_url,
        "RECOLLECT_LOG_LEVEL": "DEBUG",
    }
    port = free_port()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from recollect.cli import main; main()"),
            *("serve", "--port", str(port)),
            env=environment,
            cwd=home,
            stdout=asyncio.subprocess.DEVNULL,  # where the sign-in link is shown, once
            stderr=output,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        await _until_healthy(address, process)
        yield address
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _until_healthy(address: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(60), httpx.AsyncClient() as http:
        while process.returncode is None:
            try:
                await http.get(f"{address}/health")
            except httpx.TransportError:
                await asyncio.sleep(0.1)
            else:
                return
    raise AssertionError("the server ended")


async def test_logs_are_json_lines_without_values_or_secrets(
    home: Path, database_url: str, services: Services, ana: Person, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    email, password = f"{MARKER}@example.com", f"{MARKER} password"
    await services.access.create_user(NewUser(email=email, password=password, full_name=MARKER))
    link = await services.access.make_link(email)
    async with (
        _serving(home, database_url, log) as address,
        httpx.AsyncClient(base_url=address, headers=ana.http.headers, timeout=30) as http,
    ):
        secrets = await _send_marker_everywhere(http, ana, email, password, link)
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await connection.execute(FAILS_WITH_THE_VALUE)
        body = {"key": MARKER, "namespace": MARKER, "value": MARKER}
        failed = await http.post(ana.memory, json=body, headers={"X-Request-ID": "the-failed-one"})
        problem = assert_problem(failed, 500, "internal_error")
        assert "the-failed-one" in problem["detail"]

    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len([line for line in lines if line["event"] == "request"]) > 10
    [failure] = [line for line in lines if line["event"] == "request failed"]
    assert (failure["error"], failure["request_id"]) == ("RaiseException", "the-failed-one")
    assert "put_entry" in str(failure["trace"])
    for private in (MARKER, ana.key, ana.email, str(ana.id), link, *secrets):
        assert private not in text


async def _send_marker_everywhere(
    http: httpx.AsyncClient, ana: Person, email: str, password: str, link: str
) -> list[str]:
    body: dict[str, Any] = {"key": MARKER, "namespace": MARKER, "value": {MARKER: MARKER}}
    await http.post(ana.memory, json=body, headers={"Idempotency-Key": MARKER, "User-Agent": MARKER})
    await http.post(ana.memory, json={**body, MARKER: MARKER})
    await http.post(ana.memory, content=f'{{"{MARKER}'.encode(), headers={"Content-Type": "application/json"})
    await http.get(ana.memory, params={"namespace": MARKER, "cursor": MARKER})
    await http.get(f"{ana.memory}/entry", params={"key": MARKER, "namespace": MARKER})
    await http.get(f"/{MARKER}?{MARKER}={MARKER}", headers={"Referer": MARKER, "Cookie": f"a={MARKER}"})
    await http.get("/api/auth/me", headers={"Authorization": f"Bearer {MARKER}.{MARKER}.{MARKER}"})
    await http.get("/api/auth/me", headers={"Authorization": f"Bearer rk_{MARKER}"})
    await http.get("/health", headers={"Host": f"{MARKER}.example"})
    made = await http.post("/api/auth/keys", json={"name": MARKER})
    await http.post("/api/auth/sign-in", json={"email": email, "password": f"{MARKER} wrong"})
    signed_in = await http.post("/api/auth/sign-in", json={"email": email, "password": password})
    await http.post("/api/auth/sign-in/link", json={"token": link})
    await http.post("/api/auth/sign-in/link", json={"token": MARKER})
    return [made.json()["key"], signed_in.headers["set-cookie"].partition("=")[2].partition(";")[0]]
