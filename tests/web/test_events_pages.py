"""Events in the dashboard: read without scripts, and live in a real browser where there is one."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from websockets.asyncio.client import ClientConnection, connect

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.web.events_pages import PER_PAGE
from tests.conftest import Person, until, working

pytestmark = pytest.mark.anyio

EMAIL, PASSWORD = "eva@example.com", "correct horse"
HOSTILE = "<img src=x onerror=alert(1)>"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
async def eva(services: Services, anonymous: httpx.AsyncClient) -> Person:
    """Signed in; ``eva.http`` is her browser."""
    user = await services.access.create_user(NewUser(email=EMAIL, password=PASSWORD))
    answer = await anonymous.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    assert answer.status_code == 303
    return Person(user.id, EMAIL, "", anonymous)


async def change(person: Person, key: str) -> None:
    answer = await person.http.post(person.memory, json={"key": key, "value": 1})
    assert answer.status_code == 200, answer.text


async def seen(person: Person, path: str) -> str:
    answer = await person.http.get(path)
    assert answer.status_code == 200, answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    # Scripts as files alone: the policy lets no others run.
    assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|<[^>]*\son\w+=", answer.text)
    return answer.text


def subjects(page: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'data-part="subject">([^<]+)</td>', page)]


def numbers(page: str) -> list[int]:
    return [int(subject.removeprefix("s/")) for subject in subjects(page)]


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get("/events")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_what_happened_is_shown_newest_first_and_nothing_of_others(
    services: Services, eva: Person, ana: Person
) -> None:
    assert "Nothing has happened yet." in await seen(eva, "/events")
    assert '<a href="/events">Events</a>' in await seen(eva, "/")
    await change(eva, "first")
    await change(ana, "anas")
    await change(eva, HOSTILE)
    await services.relay.relay()

    page = await seen(eva, "/events")

    assert subjects(page) == [f"bank/{eva.id}/default/{key}" for key in (HOSTILE, "first")]
    assert HOSTILE not in page
    assert page.count(">you</td>") == 2
    assert "anas" not in page
    for link in ("/events", "/webhooks", "/jobs", "/mail"):
        assert f'href="{link}"' in page


async def test_events_are_filtered_by_type_and_by_family(services: Services, eva: Person) -> None:
    await change(eva, "a")
    await eva.http.patch("/api/profile", json={"full_name": "Eva"})
    await services.relay.relay()

    assert len(subjects(await seen(eva, "/events"))) == 2
    assert subjects(await seen(eva, "/events?type=bank.changed")) == [f"bank/{eva.id}/default/a"]
    of_family = await seen(eva, "/events?type=memory.*")
    assert subjects(of_family) == []
    assert '<option value="memory.*" selected>' in of_family
    assert 'data-wanted="memory.*"' in of_family
    made_up = await eva.http.get("/events?type=no.such")
    assert (made_up.status_code, made_up.headers["location"]) == (303, "/events")


async def happened(database_url: str, person: Person, count: int, *, told: int | None = None) -> None:
    """So many events of a person, whose subjects count up; told: up to where it is said to be."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into events.log (position, type, subject, user_id)"
            " select n, case when n %% 2 = 0 then 'bank.changed' else 'memory.added' end, 's/' || n, %s"
            " from generate_series(1, %s) n",
            (person.id, count),
        )
        await connection.execute(
            "update events.cursors set position = %s where name = 'relay'",
            (count if told is None else told,),
        )


async def test_older_events_are_on_further_pages_which_keep_the_filter_and_are_not_live(
    eva: Person, database_url: str
) -> None:
    await happened(database_url, eva, 4 * PER_PAGE)

    first = await seen(eva, "/events?type=bank.*")
    [older] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await seen(eva, unescape(older))

    assert numbers(first) + numbers(second) == list(range(4 * PER_PAGE, 0, -2))
    assert 'rel="next"' not in second
    assert f'data-after="{4 * PER_PAGE}"' in first
    assert ("/static/live.js" in first, "/static/live.js" in second) == (True, False)
    assert (await eva.http.get("/events?cursor=made-up")).headers["location"] == "/events"


async def test_what_comes_live_is_not_on_the_page_already(eva: Person, database_url: str) -> None:
    await happened(database_url, eva, 5, told=4)

    page = await seen(eva, "/events")

    assert 'data-after="4"' in page
    assert numbers(page) == [4, 3, 2, 1]


# In a browser


class Tab:
    """A page in a real browser, spoken to by its own protocol."""

    def __init__(self, connection: ClientConnection, session: str = "") -> None:
        self._connection = connection
        self._session = {"sessionId": session} if session else {}
        self._sent = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        asked = {"id": self._sent, "method": method, "params": params, **self._session}
        await self._connection.send(json.dumps(asked))
        async with asyncio.timeout(30):
            while True:
                told = json.loads(await self._connection.recv())
                if told.get("id") == self._sent:
                    result: dict[str, Any] = told["result"]
                    return result

    async def value_of(self, script: str) -> Any:
        found = await self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")


@asynccontextmanager
async def browsing(profile: Path, address: str, cookies: httpx.Cookies) -> AsyncIterator[Tab]:
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        f"--user-data-dir={profile}",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            said = await process.stderr.readuntil(b"/devtools/browser/")
            where = said.rpartition(b"ws://")[2] + await process.stderr.readline()
        async with connect(f"ws://{where.decode().strip()}", max_size=None) as connection:
            browser = Tab(connection)
            target = (await browser.ask("Target.createTarget", url="about:blank"))["targetId"]
            attached = await browser.ask("Target.attachToTarget", targetId=target, flatten=True)
            tab = Tab(connection, attached["sessionId"])
            for name, value in cookies.items():
                await tab.ask("Network.setCookie", name=name, value=value, url=address)
            yield tab
    finally:
        process.kill()
        await process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look with")
async def test_in_a_browser_events_appear_as_they_happen(
    services: Services, eva: Person, ana: Person, address: str, tmp_path: Path
) -> None:
    await change(eva, "before")
    reader = asyncio.create_task(services.live.watch())
    async with working(services), browsing(tmp_path, address, eva.http.cookies) as tab:
        await until(lambda: _is_told(services, eva, 1))
        await tab.ask("Page.navigate", url=f"{address}/events")
        await until(lambda: _says(tab, "live"))
        await change(ana, "anas")
        await change(eva, HOSTILE)

        rows = "[...document.querySelectorAll('#events tr')].map(row => row.cells[1].textContent)"
        shown = await until(lambda: _of_length(tab, rows, 2))
        assert shown == [f"bank/{eva.id}/default/{key}" for key in (HOSTILE, "before")]
        assert await tab.value_of("document.querySelectorAll('#events img').length") == 0
        assert await tab.value_of("document.querySelector('#events tr').cells[3].textContent") == "you"

        # The server ends the connection, and the browser comes back for what it has missed.
        services.live.close()
        await until(lambda: _says(tab, "reconnecting"))
        await change(eva, "meanwhile")
        await until(lambda: _says(tab, "live"))
        shown = await until(lambda: _of_length(tab, rows, 3))
        assert shown[0].endswith("meanwhile")

        await eva.http.post("/sign-out")
        await until(lambda: _says(tab, "not live; reload the page"))
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


async def _is_told(services: Services, person: Person, count: int) -> bool:
    async with services.tenancy.acting_as(person.caller) as tx:
        return len(await services.events.list(tx)) == count


async def _says(tab: Tab, sign: str) -> bool:
    return bool(await tab.value_of("document.getElementById('live')?.textContent") == sign)


async def _of_length(tab: Tab, script: str, length: int) -> Any:
    found = await tab.value_of(script)
    return found if found and len(found) >= length else None
