"""Webhooks in the dashboard, as a browser without scripts sees them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from recollect.access.membership_models import NewWorkspaceMember
from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.settings import Settings
from recollect.web.webhooks_pages import PER_PAGE, WORKSPACES_PER_PAGE
from tests.conftest import Person, make_settings, until, working
from tests.events.webhooks.conftest import Hook, hook, remember, shared
from tests.events.webhooks.receiving import OK, Receiver, receiving, status

pytestmark = pytest.mark.anyio

EMAIL, PASSWORD = "eva@example.com", "correct horse"
SOMEWHERE = "http://127.0.0.1:9/hooks"
HOSTILE = "</p><script>alert(1)</script>"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, webhooks_allow_private=True)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


@pytest.fixture
async def eva(services: Services, anonymous: httpx.AsyncClient) -> Person:
    """Signed in; ``eva.http`` is her browser."""
    user = await services.access.create_user(NewUser(email=EMAIL, password=PASSWORD))
    answer = await anonymous.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    assert answer.status_code == 303
    return Person(user.id, EMAIL, "", anonymous)


async def seen(browser: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text
    return looked_at(answer)


def looked_at(answer: httpx.Response) -> str:
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", answer.text)
    return answer.text


async def press(browser: httpx.AsyncClient, page: str, label: str, **fields: Any) -> httpx.Response:
    """Press the button of that name, as a browser does."""
    [form] = [form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if f">{label}<" in form]
    [action] = re.findall(r'action="([^"]+)"', form)
    for name in fields:
        assert f'name="{name}"' in form
    return await browser.post(action, data=fields, headers={"Sec-Fetch-Site": "same-origin"})


async def workspace_of(person: Person) -> str:
    [first, *_] = (await person.http.get("/api/workspaces")).json()["data"]
    found: str = first["id"]
    return found


def text_of(page: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("<main>")[2])))


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    one = f"/webhooks/{uuid4()}"
    actions = ("enable", "disable", "delete", "test", "secret", "replay", f"deliveries/{uuid4()}/replay")
    asked = [
        await anonymous.get("/webhooks"),
        await anonymous.get(one),
        await anonymous.post("/webhooks", data={"workspace": str(uuid4()), "url": SOMEWHERE, "types": "*"}),
        await anonymous.post(one, data={"url": SOMEWHERE, "types": "*"}),
        *[await anonymous.post(f"{one}/{action}") for action in actions],
    ]
    for answer in asked:
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_a_webhook_is_added_and_its_secret_shown_once(eva: Person, receiver: Receiver) -> None:
    page = await seen(eva.http, "/webhooks")
    assert '<a href="/webhooks">Webhooks</a>' in await seen(eva.http, "/")
    assert '<details class="card" open>' in page
    assert all(f'value="{each}"' in page for each in ("*", "memory.*", "bank.changed", "webhook.disabled"))

    answer = await press(
        eva.http,
        page,
        "Add webhook",
        workspace=await workspace_of(eva),
        url=receiver.url,
        types=["memory.*", "bank.changed"],
        description="Sync",
    )

    assert answer.status_code == 200, answer.text
    [secret] = re.findall(r"whsec_[A-Za-z0-9+/=]+", unescape(looked_at(answer)))
    assert "not shown again" in answer.text
    [path] = set(re.findall(r'href="(/webhooks/[0-9a-f-]{36})"', await seen(eva.http, "/webhooks")))
    for shown in (await seen(eva.http, "/webhooks"), await seen(eva.http, path)):
        assert "whsec_" not in shown
        assert "memory.*, bank.changed" in shown
        assert "Sync" in shown

    rotated = await press(eva.http, await seen(eva.http, path), "Make another secret")
    [second] = re.findall(r"whsec_[A-Za-z0-9+/=]+", unescape(looked_at(rotated)))
    assert second != secret
    assert "whsec_" not in await seen(eva.http, path)
    back = await eva.http.get(f"{path}/secret")
    assert (back.status_code, back.headers["location"]) == (303, path)


async def test_a_test_is_sent_by_the_worker_and_its_delivery_shown(
    services: Services, eva: Person, receiver: Receiver
) -> None:
    receiver.answers = [status(200, HOSTILE.encode())]
    made = await hook(eva, receiver.url)
    page = await seen(eva.http, f"/webhooks/{made.id}")
    assert "Nothing was sent yet." in text_of(page)
    async with working(services):
        answer = await press(eva.http, page, "Send a test")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/webhooks/{made.id}")
        [received] = await receiver.until(1)
        assert received.verified(made.secret)["type"] == "webhook.test"
        page = await until(lambda: _with(eva, f"/webhooks/{made.id}", "delivered</span>"))

    assert "webhook.test" in page
    assert re.search(r"200 in \d+ ms", text_of(page))
    assert HOSTILE in unescape(page)
    assert received.id in page
    looked_at(await eva.http.get(f"/webhooks/{made.id}?state=delivered"))
    assert "Nothing failed." in text_of(await seen(eva.http, f"/webhooks/{made.id}?state=failed"))


async def _with(eva: Person, path: str, sign: str) -> str | None:
    page = await seen(eva.http, path)
    return page if sign in page else None


async def test_an_address_that_fails_says_why_and_gets_again_what_failed(
    services: Services, eva: Person, receiver: Receiver
) -> None:
    receiver.answers = [status(410, b"<b>gone</b>"), OK]
    made = await hook(eva, receiver.url, "bank.*")
    path = f"/webhooks/{made.id}"
    async with working(services):
        await remember(eva, "tone")
        page = await until(lambda: _with(eva, path, 'class="state failed">disabled'))
        assert "410" in text_of(page)
        assert "<b>gone</b>" in unescape(page)
        assert "Send again" not in page
        refused = await eva.http.post(f"{path}/replay", data={"hours": "24"})
        assert (refused.status_code, "enable it first" in looked_at(refused)) == (409, True)

        assert (await press(eva.http, page, "Enable")).status_code == 303
        page = await seen(eva.http, f"{path}?state=failed")
        assert 'class="state succeeded">enabled' in page
        assert (await press(eva.http, page, "Send all again", hours="1")).status_code == 303
        page = await until(lambda: _with(eva, path, "delivered</span>"))

        assert (await press(eva.http, page, "Send again")).status_code == 303
        received = await receiver.until(3)
    assert len({each.id for each in received}) == 1


async def test_a_webhook_is_changed_disabled_and_deleted(eva: Person) -> None:
    made = await hook(eva, SOMEWHERE)
    path = f"/webhooks/{made.id}"
    page = await seen(eva.http, path)
    assert re.search(r'value="\*" checked', page)

    changed = await press(
        eva.http, page, "Save", url=f"{SOMEWHERE}/2", types=["rule.*"], description="<b>New</b>"
    )
    assert changed.status_code == 303
    now = await made.get()
    assert (now["url"], now["types"], now["description"]) == (f"{SOMEWHERE}/2", ["rule.*"], "<b>New</b>")
    page = await seen(eva.http, path)
    assert "&lt;b&gt;New&lt;/b&gt;" in page
    assert (await press(eva.http, page, "Save", url=f"{SOMEWHERE}/2", types="*", description="")).is_redirect
    assert (await made.get())["description"] == ""

    assert (await press(eva.http, await seen(eva.http, "/webhooks"), "Disable")).is_redirect
    page = await seen(eva.http, path)
    assert "Disabled by hand." in page
    deleted = await press(eva.http, page, "Delete this webhook")
    assert (deleted.status_code, deleted.headers["location"]) == (303, "/webhooks")
    await seen(eva.http, path, 404)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"url": "nonsense", "types": "*"}, "https://example.com"),
        ({"url": "", "types": "*"}, "url: "),
        ({"url": f"https://example.com/{'x' * 2000}", "types": "*"}, "url: "),
        ({"url": SOMEWHERE}, "Choose at least one event"),
        ({"url": SOMEWHERE, "types": HOSTILE}, "types: "),
        ({"url": SOMEWHERE, "types": "*", "description": "x" * 501}, "description: "),
        ({"url": f"ftp://example.com/{HOSTILE}", "types": "bank.*", "description": "kept"}, "https"),
    ],
)
async def test_what_cannot_be_is_refused_in_words_and_what_was_typed_stays(
    eva: Person, typed: dict[str, str], told: str
) -> None:
    made = await hook(eva, SOMEWHERE)
    for path, fields in (
        ("/webhooks", {"workspace": await workspace_of(eva), **typed}),
        (f"/webhooks/{made.id}", typed),
    ):
        refused = await eva.http.post(path, data=fields)
        assert refused.status_code == 422
        page = looked_at(refused)
        [problem] = re.findall(r'role="alert">(.*?)</p>', page)
        assert told in unescape(problem)
        assert f'value="{typed["url"]}"' in unescape(page)
        assert '<details class="card" open>' in page or "<details open>" in page
        assert ('value="*" checked' in page) == (typed.get("types") == "*")
    assert len((await eva.http.get(f"{made.workspace}/webhooks")).json()["data"]) == 1
    assert (await made.get())["url"] == SOMEWHERE


async def test_anothers_webhook_is_as_if_there_were_none(
    eva: Person, ana: Person, services: Services
) -> None:
    theirs = await hook(ana, SOMEWHERE)
    await remember(ana, "secret key")
    await services.relay.relay()
    [delivery] = await theirs.deliveries()
    before = await theirs.get()
    actions = ("/enable", "/disable", "/delete", "/test", "/secret", "/replay")
    for method, what in (
        ("GET", ""),
        *(("POST", action) for action in actions),
        ("POST", f"/deliveries/{delivery['id']}/replay"),
    ):
        found = await eva.http.request(method, f"/webhooks/{theirs.id}{what}")
        missing = await eva.http.request(method, f"/webhooks/{uuid4()}{what}")
        assert (found.status_code, found.text) == (404, missing.text), what
        assert "There is no such webhook" in looked_at(found)
    form = {"url": f"{SOMEWHERE}/evil", "types": "*"}
    assert (await eva.http.post(f"/webhooks/{theirs.id}", data=form)).status_code == 404
    in_anas = {**form, "workspace": await workspace_of(ana)}
    assert (await eva.http.post("/webhooks", data=in_anas)).status_code == 404
    assert SOMEWHERE not in await seen(eva.http, "/webhooks")
    assert await theirs.get() == before
    own = await hook(eva, SOMEWHERE)
    crossed = await eva.http.post(f"/webhooks/{own.id}/deliveries/{delivery['id']}/replay")
    assert crossed.status_code == 404


async def test_members_look_and_owners_change(services: Services, eva: Person, ana: Person) -> None:
    place = await shared(ana)
    made = await hook(ana, SOMEWHERE, workspace=place)
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.membership.workspace_members.add(
            tx, made_in(made), NewWorkspaceMember(user_id=eva.id, role="member")
        )
    listed = await seen(eva.http, "/webhooks")
    assert SOMEWHERE in listed
    assert "you are a member" in listed
    page = await seen(eva.http, f"/webhooks/{made.id}")
    for shown in (listed, page):
        assert f'action="/webhooks/{made.id}' not in shown
    for action in ("", "/disable", "/delete", "/test", "/secret", "/replay"):
        refused = await eva.http.post(f"/webhooks/{made.id}{action}", data={"url": SOMEWHERE, "types": "*"})
        assert (refused.status_code, "Your role here" in looked_at(refused)) == (403, True), action
    form = {"workspace": str(made_in(made)), "url": SOMEWHERE, "types": "*"}
    assert (await eva.http.post("/webhooks", data=form)).status_code == 403
    assert (await made.get())["is_enabled"]


def made_in(made: Hook) -> Any:
    return made.workspace.rpartition("/")[2]


async def test_another_sites_page_changes_nothing(eva: Person) -> None:
    made = await hook(eva, SOMEWHERE)
    foreign = {"Sec-Fetch-Site": "cross-site"}
    form = {"workspace": await workspace_of(eva), "url": f"{SOMEWHERE}/evil", "types": "*"}
    for path in ("/webhooks", f"/webhooks/{made.id}", f"/webhooks/{made.id}/delete"):
        assert (await eva.http.post(path, data=form, headers=foreign)).status_code == 403
    [only] = (await eva.http.get(f"{made.workspace}/webhooks")).json()["data"]
    assert only["url"] == SOMEWHERE


async def test_long_lists_come_in_pages_that_keep_the_filter(
    eva: Person, services: Services, database_url: str
) -> None:
    made = await hook(eva, SOMEWHERE)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into events.deliveries (endpoint_id, workspace_id, position, type, subject, payload,"
            " state, finished_at) select e.id, e.workspace_id, 1000 + n, 'bank.changed', 's' || n, '{}',"
            " case when n %% 2 = 0 then 'failed' else 'delivered' end, now()"
            " from events.endpoints e, generate_series(1, %s) n",
            (2 * PER_PAGE + 2,),
        )
    first = await seen(eva.http, f"/webhooks/{made.id}?state=failed")
    [older] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await seen(eva.http, unescape(older))
    assert (first.count('class="state failed"'), second.count('class="state failed"')) == (PER_PAGE, 1)
    assert 'class="state succeeded">delivered' not in first + second
    assert 'rel="next"' not in second
    made_up = await eva.http.get(f"/webhooks/{made.id}?cursor=made-up")
    assert made_up.headers["location"] == f"/webhooks/{made.id}"

    for _ in range(WORKSPACES_PER_PAGE):
        last = await shared(eva)
    added = await hook(eva, f"{SOMEWHERE}/last", workspace=last)
    listed = await seen(eva.http, "/webhooks")
    [more] = re.findall(r'href="([^"]+)" rel="next"', listed)
    assert str(added.id) not in listed
    assert str(added.id) in await seen(eva.http, unescape(more))
    assert "last" in await seen(eva.http, f"/webhooks/{added.id}")
