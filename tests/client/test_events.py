"""Hearing events by the Python client, over a line that can be cut, from a real server and a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.client import Recollect, Reset
from recollect.client.connection import ATTEMPTS
from recollect.errors import InvalidInput, Misconfigured, NotSignedIn, Unavailable
from recollect.events.models import Event
from tests.client.relay import answer, relaying
from tests.conftest import Person, until, working

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("telling")]

NOBODY_LISTENS = "http://127.0.0.1:9"


@pytest.fixture
async def telling(services: Services) -> AsyncIterator[None]:
    """The relay and the server's reader at work."""
    reader = asyncio.create_task(services.live.watch())
    async with working(services):
        yield
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


class Line:
    """What lies between client and server, and can be cut."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self.address = ""
        self.is_down = False
        self.refused = 0
        self.heads: list[str] = []
        self.passed_on = b""
        self._open: set[asyncio.StreamWriter] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            self.refused += 1
            writer.close()
            return
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode().lower())
        there, back = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        self._open |= {writer, back}
        # One request for each connection, which is all that is passed on.
        until_gone = asyncio.create_task(reader.read())
        until_gone.add_done_callback(lambda _: back.close())
        back.write(head.replace(b"Connection: keep-alive", b"Connection: close"))
        try:
            while chunk := await there.read(65_536):
                self.passed_on += chunk
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            until_gone.cancel()
            for each in (writer, back):
                self._open.discard(each)
                each.close()

    def cut(self) -> None:
        self.is_down = True
        for writer in tuple(self._open):
            writer.close()


@pytest.fixture
async def line(address: str) -> AsyncIterator[Line]:
    between = Line(address)
    server = await asyncio.start_server(between.handle, "127.0.0.1", 0)
    between.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield between
        between.cut()


@pytest.fixture
async def memory(line: Line, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(line.address, key=ana.key) as client:
        yield client


async def change(person: Person, key: str) -> None:
    answered = await person.http.post(person.memory, json={"key": key, "value": 1})
    assert answered.status_code == 200, answered.text


async def heard(events: AsyncIterator[Event | Reset]) -> Any:
    async with asyncio.timeout(30):
        return await anext(events)


async def keys(events: AsyncIterator[Event | Reset], count: int) -> list[str]:
    return [(await heard(events)).data["key"] for _ in range(count)]


async def listening(line: Line, memory: Recollect, **wanted: Any) -> AsyncIterator[Event | Reset]:
    """From here on it hears: the server has told it where to go on. The first event is asked for already."""
    events = memory.events(**wanted)
    first = asyncio.ensure_future(anext(events))
    await until(lambda: b"\nid: " in line.passed_on)

    async def all_of_them() -> AsyncIterator[Event | Reset]:
        async with aclosing(events):  # type: ignore[type-var]  # a generator
            yield await first
            async for event in events:
                yield event

    return all_of_them()


async def test_what_happens_is_heard_typed_and_only_ones_own(
    memory: Recollect, line: Line, ana: Person, ben: Person
) -> None:
    events = await listening(line, memory)
    await change(ben, "bens")
    await change(ana, "anas")

    event = await heard(events)

    assert isinstance(event, Event)
    assert (event.type, event.user_id, event.data["key"]) == ("bank.changed", ana.id, "anas")


async def test_chosen_types_are_heard_from_a_position_on(memory: Recollect, ana: Person) -> None:
    await change(ana, "a")
    await ana.http.patch("/api/profile", json={"full_name": "Ana"})
    await change(ana, "b")

    first = await heard(memory.events(["bank.*"], after=0))
    events = memory.events(["bank.*", "memory.added"], after=first.position)

    assert (first.data["key"], await keys(events, 1)) == ("a", ["b"])


async def test_after_an_interruption_everything_missed_is_heard_once_and_in_order(
    memory: Recollect, line: Line, ana: Person
) -> None:
    events = await listening(line, memory)
    await change(ana, "first")
    before = await heard(events)
    waiting = asyncio.ensure_future(keys(events, 4))

    line.cut()
    for number in range(3):
        await change(ana, f"missed{number}")
    await until(lambda: line.refused)
    line.is_down = False
    await until(lambda: len(line.heads) == 2)
    await change(ana, "now")

    assert await waiting == ["missed0", "missed1", "missed2", "now"]
    assert f"last-event-id: {before.position}\r\n" in line.heads[1]


async def test_an_interruption_before_the_first_event_loses_nothing(
    services: Services, memory: Recollect, line: Line, ana: Person
) -> None:
    await change(ana, "long ago")
    await until(lambda: _relayed(services, ana, 1))
    events = await listening(line, memory)

    line.cut()
    await change(ana, "meanwhile")
    await until(lambda: line.refused)
    line.is_down = False

    assert await keys(events, 1) == ["meanwhile"]


async def test_a_server_that_stops_is_waited_for_however_long(
    services: Services, memory: Recollect, line: Line, ana: Person
) -> None:
    events = await listening(line, memory)
    line.is_down = True
    services.live.close()
    await until(lambda: line.refused >= ATTEMPTS)
    line.is_down = False
    await change(ana, "back")

    assert await keys(events, 1) == ["back"]


async def test_what_can_no_longer_be_told_is_a_reset_and_then_it_goes_on(
    services: Services, memory: Recollect, ana: Person, database_url: str
) -> None:
    for number in range(3):
        await change(ana, f"k{number}")
    first = await heard(memory.events(after=0))
    await until(lambda: _relayed(services, ana, 3))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("delete from events.log where position <= %s", (first.position + 1,))

    events = memory.events(after=first.position)
    reset = await heard(events)
    await change(ana, "after")

    assert isinstance(reset, Reset)
    assert (reset.type, reset.position >= first.position + 2) == ("reset", True)
    assert await keys(events, 1) == ["after"]


async def _relayed(services: Services, person: Person, count: int) -> bool:
    async with services.tenancy.acting_as(person.caller) as tx:
        return len(await services.events.list(tx)) == count


async def test_a_revoked_key_ends_the_events_with_the_usual_error(
    memory: Recollect, line: Line, ana: Person
) -> None:
    events = await listening(line, memory)
    [key] = (await ana.http.get("/api/auth/keys")).json()["data"]
    await ana.http.delete(f"/api/auth/keys/{key['id']}")

    with pytest.raises(NotSignedIn):
        while await heard(events):
            pass


async def test_whoever_leaves_the_loop_hangs_up(
    services: Services, memory: Recollect, line: Line, ana: Person
) -> None:
    events = await listening(line, memory)
    await change(ana, "a")
    async for event in events:
        assert event.type == "bank.changed"
        break
    await events.aclose()  # type: ignore[attr-defined]  # a generator
    await until(lambda: services.live.listeners == 0)


async def test_refusals_are_raised_and_not_repeated(memory: Recollect, line: Line) -> None:
    with pytest.raises(InvalidInput, match=r"^types: "):
        await heard(memory.events(["no.such"]))
    async with Recollect(line.address, key="rk_unknown") as stranger:
        with pytest.raises(NotSignedIn):
            await heard(stranger.events())
    assert len(line.heads) == 2


async def test_a_server_that_was_never_there_or_is_another_is_said_to_be(address: str, ana: Person) -> None:
    async with Recollect(NOBODY_LISTENS, key="rk_any") as nowhere:
        with pytest.raises(Unavailable, match="running"):
            await heard(nowhere.events())
    async with relaying(address) as relay, Recollect(relay.address, key=ana.key) as elsewhere:
        told = b"data: 5\n\n", b"event: reset\nid: x\ndata: {}\n\n", b'data: {"position": 1}\n\n'
        kind = "content-type: text/event-stream"
        relay.own_answers = [answer("200 OK", b"<html>"), *(answer("200 OK", each, kind) for each in told)]
        for _ in range(4):
            with pytest.raises(Misconfigured, match="address"):
                await heard(elsewhere.events())
