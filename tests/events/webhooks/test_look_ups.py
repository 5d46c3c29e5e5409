"""Looking up names: whoever owns one decides how long it takes, and nobody else is to wait for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from recollect.events.webhooks import service
from recollect.events.webhooks.addresses import LOOK_UPS_AT_ONCE
from recollect.events.webhooks.sending import Sender, new_secret
from tests.conftest import Person, until
from tests.events.webhooks.conftest import hook, personal

pytestmark = pytest.mark.anyio


class Names:
    """What the system finds out about names that end in .example: an address, or nothing, sooner or later."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._system = socket.getaddrinfo

    def look_up(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if not str(host).endswith(".example"):
            return self._system(host, port, *rest, **more)
        self.asked.append(host)
        self.may_answer.wait(60)
        if host not in self.known:
            raise socket.gaierror(-2, "Name or service not known")
        return self._system(self.known[host], port, *rest, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names()
    monkeypatch.setattr(socket, "getaddrinfo", found.look_up)
    monkeypatch.setattr(service, "LOOK_UP_SECONDS", 60)
    yield found
    found.may_answer.set()


async def test_slow_names_keep_neither_connections_nor_threads_from_others(
    ana: Person, ben: Person, names: Names
) -> None:
    made = await hook(ana, "http://127.0.0.1:9/")
    names.may_answer.clear()

    def named(number: int) -> dict[str, str]:
        return {"url": f"http://slow{number}.example/"}

    # More than there are connections, and than there are threads that all share.
    asking = [
        asyncio.create_task(request)
        for number in range(0, 36, 3)
        for request in (
            ana.http.post(f"{made.workspace}/webhooks", json=named(number)),
            ana.http.post(
                f"{made.workspace}/webhooks",
                json=named(number + 1),
                headers={"Idempotency-Key": str(number)},
            ),
            ana.http.patch(made.address, json=named(number + 2)),
        )
    ]
    await until(lambda: len(names.asked) == LOOK_UPS_AT_ONCE)
    for _ in range(20):
        assert (await ben.http.get(ben.memory)).status_code == 200
    await asyncio.wait_for(asyncio.to_thread(int), 20)
    assert not any(each.done() for each in asking)

    names.may_answer.set()
    for each in await asyncio.gather(*asking):
        assert (each.status_code, each.json()["code"]) == (422, "address_refused")


async def test_deliveries_wait_for_none_of_it(ana: Person, names: Names) -> None:
    names.known["hooks.example"] = "127.0.0.1"
    place = f"{await personal(ana)}/webhooks"
    names.may_answer.clear()
    asking = [
        asyncio.create_task(ana.http.post(place, json={"url": f"http://slow{number}.example/"}))
        for number in range(2 * LOOK_UPS_AT_ONCE)
    ]
    await until(lambda: len(names.asked) == LOOK_UPS_AT_ONCE)
    async with Sender(allow_private=True) as sender:
        sending = asyncio.create_task(sender.send("http://hooks.example:9/", "id", {}, [new_secret()]))
        await until(lambda: "hooks.example" in names.asked)
        names.may_answer.set()
        assert (await sending).error == "No connection could be made."
    await asyncio.gather(*asking)


async def test_deliveries_to_slow_names_keep_no_threads_from_others(names: Names) -> None:
    names.may_answer.clear()
    async with Sender(allow_private=True) as sender:
        sending = [
            asyncio.create_task(sender.send(f"http://slow{number}.example/", "id", {}, [new_secret()]))
            for number in range(50)
        ]
        await until(lambda: len(names.asked) == LOOK_UPS_AT_ONCE)
        await asyncio.wait_for(asyncio.to_thread(int), 20)
        assert not any(each.done() for each in sending)
        names.may_answer.set()
        await asyncio.gather(*sending)


async def test_what_went_well_is_repeated_even_if_the_name_is_gone(ana: Person, names: Names) -> None:
    place = f"{await personal(ana)}/webhooks"
    names.known["hooks.example"] = "127.0.0.1"

    async def add(**headers: str) -> httpx.Response:
        return await ana.http.post(place, json={"url": "http://hooks.example/"}, headers=headers)

    first = await add(**{"Idempotency-Key": "once"})
    assert first.status_code == 201, first.text
    assert names.asked == ["hooks.example"]  # not once more in the transaction
    names.known.clear()
    again = await add(**{"Idempotency-Key": "once"})
    assert (again.status_code, again.json()) == (201, first.json())
    assert (await add()).json()["code"] == "address_refused"
    assert (await add(**{"Idempotency-Key": "other"})).json()["code"] == "address_refused"

    names.asked.clear()
    same = {"url": "http://hooks.example/", "types": ["bank.*"]}
    changed = await ana.http.patch(f"{place}/{first.json()['id']}", json=same)
    assert (changed.status_code, changed.json()["types"]) == (200, ["bank.*"])
    assert names.asked == []


async def test_a_new_address_is_looked_up_once(ana: Person, names: Names) -> None:
    names.known["hooks.example"] = "127.0.0.1"
    made = await hook(ana, "http://127.0.0.1:9/")
    moved = await ana.http.patch(made.address, json={"url": "http://hooks.example/"})
    assert (moved.status_code, moved.json()["url"]) == (200, "http://hooks.example/")
    assert names.asked == ["hooks.example"]


async def test_over_http_too_names_are_looked_up_for_those_alone_who_may_add(
    ana: Person, ben: Person, names: Names
) -> None:
    made = await hook(ana, "http://127.0.0.1:9/")
    wanted = {"url": "http://hooks.example/"}
    assert (await ben.http.post(f"{made.workspace}/webhooks", json=wanted)).status_code == 404
    assert (await ben.http.patch(made.address, json=wanted)).status_code == 404
    assert (await ben.http.post("/api/workspaces/nowhere/webhooks", json=wanted)).status_code == 422
    assert (await ben.http.post(f"{made.workspace}/webhooks")).status_code == 422
    assert names.asked == []
