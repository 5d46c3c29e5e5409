"""Live updates, as a client hears them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from recollect.access.membership_models import NamedWorkspace, NewWorkspaceMember
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.events.live import Live
from recollect.events.service import queries
from tests.conftest import Person, served, until
from tests.events.conftest import listening

HOLD_RELAY = Query("hold", "For the test.", "select from events.cursors for update")

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("telling")]


async def change(person: Person, key: str) -> None:
    answer = await person.http.post(person.memory, json={"key": key, "value": 1})
    assert answer.status_code in {200, 201}, answer.text


async def test_a_client_hears_what_happens(ana: Person) -> None:
    async with listening(ana) as ear:
        await change(ana, "a")
        heard = await ear.next()
    assert heard.kind == heard.data["type"] == "bank.changed"
    assert heard.data["data"] == {"namespace": "default", "key": "a", "action": "created"}
    assert heard.id == heard.data["position"]


async def test_a_client_hears_nothing_of_others(ana: Person, ben: Person) -> None:
    async with listening(ana) as ear:
        await change(ben, "bens")
        await change(ana, "anas")
        assert (await ear.next()).data["data"]["key"] == "anas"


async def test_a_client_that_comes_back_hears_what_it_has_missed(ana: Person, services: Services) -> None:
    async with listening(ana) as ear:
        await change(ana, "first")
        last = await ear.next()
    for number in range(3):
        await change(ana, f"missed{number}")
    async with listening(ana, headers={"Last-Event-ID": str(last.id)}) as ear:
        await change(ana, "now")
        keys = [(await ear.next()).data["data"]["key"] for _ in range(4)]
    assert keys == ["missed0", "missed1", "missed2", "now"]


async def test_a_client_that_was_away_too_long_is_told_to_read_anew(
    ana: Person, services: Services, database_url: str
) -> None:
    async with listening(ana) as ear:
        for number in range(3):
            await change(ana, f"k{number}")
        first = await ear.next()
        await ear.next()
        await ear.next()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("delete from events.log where position <= %s", (first.id + 1,))
    async with listening(ana, headers={"Last-Event-ID": str(first.id)}) as ear:
        reset = await ear.next()
        assert reset.kind == "reset"
        await change(ana, "after")
        assert (await ear.next()).data["data"]["key"] == "after"


async def test_a_client_hears_only_the_types_it_wants(ana: Person) -> None:
    async with listening(ana, types="user.*") as ear:
        await change(ana, "a")
        await ana.http.patch("/api/profile", json={"full_name": "Ana"})
        assert (await ear.next()).kind == "user.updated"
    refused = await ana.http.get("/api/events", params={"types": "no.such"})
    assert refused.status_code == 422


async def test_who_leaves_a_workspace_hears_no_more_of_it(
    ana: Person, ben: Person, services: Services
) -> None:
    async with services.tenancy.acting_as(ana.caller) as tx:
        shared = (await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))).id
        await services.membership.workspace_members.add(
            tx, shared, NewWorkspaceMember(user_id=ben.id, role="member")
        )

    async def happen(number: int) -> None:
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.events.publish(
                tx, "rule.approved", f"rule/{number}", {"n": number}, workspace_id=shared
            )

    async with listening(ben) as ear:
        await happen(1)
        assert (await ear.next()).data["data"] == {"n": 1}
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.membership.workspace_members.remove(tx, shared, ben.id)
        await happen(2)
        await change(ben, "own")
        assert (await ear.next()).kind == "bank.changed"


async def test_a_revoked_key_ends_its_connections(ana: Person) -> None:
    keys = (await ana.http.get("/api/auth/keys")).json()["data"]
    async with listening(ana) as ear:
        await ana.http.delete(f"/api/auth/keys/{keys[0]['id']}")
        assert await ear.hears_nothing_more()


async def test_nobody_listens_without_a_credential(anonymous: httpx.AsyncClient) -> None:
    assert (await anonymous.get("/api/events")).status_code == 401


async def publish_many(services: Services, person: Person, count: int) -> None:
    async with services.tenancy.acting_as(SERVICE) as tx:
        for number in range(count):
            data = {"n": number, "filler": "x" * 2_000}
            await services.events.publish(tx, "memory.added", f"memory/{number}", data, user_id=person.id)


async def test_a_slow_client_is_cut_off_and_the_others_go_on(
    ana: Person, address: str, services: Services
) -> None:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(
        f"GET /api/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ana.key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry: 2000")
    async with listening(ana, types="user.updated") as ear:
        assert services.live.listeners == 2
        # Far more than fits into the sockets' buffers and the queue, and nobody reads it.
        for _ in range(3):
            await publish_many(services, ana, 1_500)
        await until(lambda: services.live.listeners == 1)
        await ana.http.patch("/api/profile", json={"full_name": "Ana"})
        assert (await ear.next()).kind == "user.updated"
    writer.close()


async def test_a_client_that_reads_gets_all_of_a_burst(ana: Person, services: Services) -> None:
    async with listening(ana, types="memory.*") as ear:
        await publish_many(services, ana, 1_500)
        assert [(await ear.next()).data["data"]["n"] for _ in range(1_500)] == list(range(1_500))


async def test_a_listener_ends_with_its_token(ana: Person, services: Services) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=200)
    async with services.live.listen(Caller.user(ana.id, soon), ("*",), None, lambda: None) as listener:
        await asyncio.sleep(0.3)
        # Whatever changes about a user's credentials has all their listeners judged again.
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.events.publish(tx, "access.changed", f"user/{ana.id}", {}, user_id=ana.id)
        assert [event async for event in services.live.heard_by(listener) if event] == []


async def test_no_event_is_passed_by_while_it_is_being_relayed(
    ana: Person, services: Services, database_url: str
) -> None:
    """Its position is given but not to be seen yet when the first listener joins."""
    live = Live(services.tenancy, services.database.worker, services.events)
    async with services.tenancy.acting_as(SERVICE) as tx:
        await tx.run(HOLD_RELAY)
        await change(ana, "missed")
        await tx.run(queries.relay, {"batch": 10, "subscriptions": "{}"})
        async with live.listen(ana.caller, ("*",), 0, lambda: None) as listener:
            await tx.finish()
            await change(ana, "later")
            await until(lambda: _told(services, 2))
            await live._tell()
            heard = live.heard_by(listener)
            keys = [event.data["key"] for event in [await anext(heard), await anext(heard)] if event]
    assert keys == ["missed", "later"]


async def _told(services: Services, count: int) -> bool:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return len(await services.events.list(tx)) == count


async def test_events_reach_clients_of_all_servers(ana: Person, services: Services) -> None:
    """Another server process has a reader of its own; here it is a second one on the same database."""
    second = Live(services.tenancy, services.database.worker, services.events)
    reading = asyncio.create_task(second.watch())
    async with second.listen(ana.caller, ("*",), None, lambda: None) as listener:
        await change(ana, "a")
        async for event in second.heard_by(listener):
            assert event is not None
            assert event.data["key"] == "a"
            break
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def test_a_reader_that_loses_its_connection_goes_on(
    ana: Person, services: Services, database_url: str
) -> None:
    async with listening(ana) as ear:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and query ilike '%listen%' and pid <> pg_backend_pid()"
            )
        await change(ana, "a")
        assert (await ear.next()).data["data"]["key"] == "a"


async def test_a_server_that_stops_lets_its_clients_go(ana: Person, services: Services) -> None:
    async with served(services) as address, httpx.AsyncClient(base_url=address, timeout=10) as client:
        headers = {"Authorization": f"Bearer {ana.key}"}
        async with client.stream("GET", "/api/events", headers=headers) as response:
            lines = response.aiter_lines()
            await anext(lines)
            services.live.close()
            assert [line async for line in lines if line.startswith("data")] == []


# WebSocket


@asynccontextmanager
async def socket(address: str, **options: object) -> AsyncIterator[ClientConnection]:
    async with connect(f"{address.replace('http', 'ws')}/ws", **options) as connection:  # type: ignore[arg-type]
        yield connection


async def test_a_websocket_tells_the_same(ana: Person, address: str, services: Services) -> None:
    headers = {"Authorization": f"Bearer {ana.key}"}
    async with socket(address, additional_headers=headers) as connection:
        await until(lambda: services.live.listeners == 1)
        await change(ana, "a")
        heard = json.loads(await connection.recv())
    assert (heard["type"], heard["data"]["key"]) == ("bank.changed", "a")
    await until(lambda: services.live.listeners == 0)


async def test_a_browser_proves_itself_in_its_first_message(
    ana: Person, address: str, services: Services
) -> None:
    async with socket(address) as connection:
        await connection.send(json.dumps({"key": ana.key, "types": ["bank.*"]}))
        await until(lambda: services.live.listeners == 1)
        await change(ana, "a")
        assert json.loads(await connection.recv())["type"] == "bank.changed"


@pytest.mark.parametrize(
    "hello", ['{"key": "rk_00000000_wrong"}', "{}", "hello", '{"key": 1}', '{"key": "x", "admin": true}']
)
async def test_a_websocket_without_a_good_key_is_closed(address: str, ana: Person, hello: str) -> None:
    async with socket(address) as connection:
        await connection.send(hello)
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in {4400, 4401}


async def test_a_page_of_another_site_gets_no_websocket(address: str, ana: Person) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with socket(address, origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


async def test_a_client_that_talks_too_much_is_cut_off(address: str, ana: Person, services: Services) -> None:
    headers = {"Authorization": f"Bearer {ana.key}"}
    async with socket(address, additional_headers=headers) as connection:
        await until(lambda: services.live.listeners == 1)
        with pytest.raises(ConnectionClosed):
            await connection.send("x" * 100_000)
            await connection.recv()
    await until(lambda: services.live.listeners == 0)
