"""The dashboard's messages, and unsubscribing, as browsers and mail programs do it."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

import httpx
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.kit.paging import Cursors
from recollect.kit.secret import ServerSecret
from recollect.mail.tickets import Tickets
from tests.conftest import SECRET
from tests.mail.conftest import AddUser, Sql, Tell

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
async def eva(services: Services) -> UUID:
    made = await services.access.create_user(NewUser(email="eva@example.com", password=PASSWORD))
    return made.id


@pytest.fixture
async def browser(eva: UUID, anonymous: httpx.AsyncClient) -> httpx.AsyncClient:
    """Eva's, signed in."""
    await anonymous.post("/sign-in", data={"email": "eva@example.com", "password": PASSWORD})
    return anonymous


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    nothing = UUID(int=1)
    for answer in (
        await anonymous.get("/mail"),
        await anonymous.post("/mail/read", data={"until": "2030-01-01T00:00:00Z"}),
        await anonymous.post("/mail/preferences", data={"kind": "*", "muted": "true"}),
        await anonymous.post(f"/mail/{nothing}/read"),
        await anonymous.post(f"/mail/{nothing}/delete"),
    ):
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_messages_are_shown_newest_first_with_what_became_of_them(
    eva: UUID, browser: httpx.AsyncClient, tell: Tell, sql: Sql
) -> None:
    assert "No messages." in (await browser.get("/mail")).text
    await tell(eva, "Older", link="/jobs")
    failed = await tell(eva, "Newer")
    await sql("update mail.messages set state = 'failed', error = '550 <no> such user' where id = %s", failed)
    text = (await browser.get("/mail")).text
    assert text.index("Newer") < text.index("Older")
    assert "2 unread." in text
    assert "550 &lt;no&gt; such user" in text
    assert 'href="/jobs"' in text
    # This server has no SMTP settings.
    assert "not set up" in text


async def test_messages_are_marked_as_read_and_deleted(
    eva: UUID, browser: httpx.AsyncClient, tell: Tell
) -> None:
    messages = [await tell(eva, f"Subject {number}") for number in range(3)]
    assert (await browser.post(f"/mail/{messages[0]}/read")).status_code == 303
    assert "2 unread." in (await browser.get("/mail")).text
    assert (await browser.post(f"/mail/{messages[1]}/delete")).status_code == 303
    # Again, as from another window that still shows it.
    assert (await browser.post(f"/mail/{messages[1]}/delete")).status_code == 303
    text = (await browser.get("/mail")).text
    assert "Subject 1" not in text
    found = re.search(r'name="until" value="([^"]+)"', text)
    assert found
    await tell(eva, "Came since")
    await browser.post("/mail/read", data={"until": found[1]})
    assert "1 unread." in (await browser.get("/mail")).text
    assert (await browser.post("/mail/read", data={"until": "yesterday"})).status_code == 422


async def test_older_messages_are_on_further_pages(eva: UUID, browser: httpx.AsyncClient, tell: Tell) -> None:
    for number in range(51):
        await tell(eva, f"({number})")
    text = (await browser.get("/mail")).text
    assert "(0)" not in text
    further = re.search(r'href="(/mail\?cursor=[^"]+)"', text)
    assert further
    assert "(0)" in (await browser.get(further[1])).text
    assert (await browser.get("/mail?cursor=made-up")).headers["location"] == "/mail"


async def test_what_is_shown_is_inert_and_ones_own(
    eva: UUID, browser: httpx.AsyncClient, add_user: AddUser, tell: Tell
) -> None:
    hostile = "<script>alert(1)</script>"
    await tell(eva, hostile, hostile, link="https://example.com/%22%3E%3Cscript%3E")
    other = await tell(await add_user("ben@example.com"), "A secret of Ben's")
    answer = await browser.get("/mail")
    assert "<script>" not in answer.text
    assert answer.text.count("&lt;script&gt;") == 2
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "secret of Ben" not in answer.text
    await browser.post(f"/mail/{other}/delete")


async def test_e_mails_are_chosen_in_the_dashboard_too(
    eva: UUID, browser: httpx.AsyncClient, tell: Tell, sql: Sql
) -> None:
    await tell(eva)
    for label, muted in (
        ("No e-mails about job.failed", ["job.failed"]),
        ("No e-mails at all", ["*", "job.failed"]),
        ("E-mails about job.failed again", ["*"]),
        ("Send me e-mails again", []),
    ):
        await _press(browser, (await browser.get("/mail")).text, label)
        assert await _muted(sql, eva) == muted
    refused = await browser.post("/mail/preferences", data={"kind": "<script>", "muted": "true"})
    assert refused.status_code == 422


# Unsubscribing


@pytest.fixture
def token(eva: UUID) -> Callable[..., str]:
    def issue(kind: str = "job.failed", user_id: UUID = eva) -> str:
        return Tickets(ServerSecret(SECRET.encode())).issue(user_id, kind)

    return issue


async def _muted(sql: Sql, user_id: UUID) -> list[str]:
    rows = await sql("select kind from mail.preferences where user_id = %s order by kind", user_id)
    return [row["kind"] for row in rows]


async def test_looking_at_the_link_changes_nothing(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    for _ in range(2):
        answer = await anonymous.get("/unsubscribe", params={"token": token()})
        assert answer.status_code == 200
        assert "No more about job.failed" in answer.text
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert (await anonymous.head("/unsubscribe", params={"token": token()})).status_code in {200, 405}
    assert await _muted(sql, eva) == []


async def test_mail_programs_unsubscribe_with_one_click(
    eva: UUID, anonymous: httpx.AsyncClient, add_user: AddUser, token: Callable[..., str], sql: Sql
) -> None:
    ben = await add_user("ben@example.com")
    answer = await anonymous.post("/unsubscribe", params={"token": token()}, data=ONE_CLICK)
    assert answer.status_code == 200
    assert await _muted(sql, eva) == ["job.failed"]
    assert await _muted(sql, ben) == []
    # Mail programs may send the other kind of form, and may send it twice.
    for _ in range(2):
        answer = await anonymous.post(
            "/unsubscribe",
            params={"token": token("*", ben)},
            files={name: (None, value) for name, value in ONE_CLICK.items()},
        )
        assert answer.status_code == 200
    assert await _muted(sql, ben) == ["*"]


async def test_a_form_of_whatever_size_unsubscribes_too(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    fields = {f"field{number}": "1" for number in range(11)}
    answer = await anonymous.post("/unsubscribe", params={"token": token()}, data=fields)
    assert answer.status_code == 200
    assert await _muted(sql, eva) == ["job.failed"]


async def _press(http: httpx.AsyncClient, page: str, label: str) -> str:
    """Press the button of that name, as a browser does."""
    [form] = [form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if f">{label}<" in form]
    [action] = re.findall(r'action="([^"]+)"', form)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]+)"', form))
    answer = await http.post(action, data=fields, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code in {200, 303}
    return answer.text


async def test_the_page_unsubscribes_and_takes_it_back(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    page = (await anonymous.get("/unsubscribe", params={"token": token()})).text
    page = await _press(anonymous, page, "No more about job.failed")
    assert await _muted(sql, eva) == ["job.failed"]
    page = await _press(anonymous, page, "No more e-mails at all")
    assert await _muted(sql, eva) == ["*", "job.failed"]
    page = await _press(anonymous, page, "Send them again")
    assert await _muted(sql, eva) == ["*"]
    page = await _press(anonymous, page, "Send me e-mails again")
    assert await _muted(sql, eva) == []


async def test_links_cannot_be_made_up(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    other = Tickets(ServerSecret(b"another secret, just as long as the first one")).issue(eva, "*")
    cursor = Cursors(ServerSecret(SECRET.encode())).after(("unsubscribe",), ["*"])
    for bad in ("", "x", "ä", token()[:-2], f"{token()}AAAA", other, cursor, "=" * 50):
        for answer in (
            await anonymous.get("/unsubscribe", params={"token": bad}),
            await anonymous.post("/unsubscribe", params={"token": bad}, data=ONE_CLICK),
        ):
            assert answer.status_code == 422
            assert "not whole" in answer.text
    assert await _muted(sql, eva) == []


async def test_a_link_outlives_its_user_without_harm(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    await sql("select private.remove_user(%s)", eva)
    answer = await anonymous.post("/unsubscribe", params={"token": token()}, data=ONE_CLICK)
    assert (answer.status_code, "account is gone" in answer.text) == (404, True)


async def test_another_sites_page_cannot_press_the_button(
    eva: UUID, anonymous: httpx.AsyncClient, token: Callable[..., str], sql: Sql
) -> None:
    refused = await anonymous.post(
        "/unsubscribe", params={"token": token()}, data=ONE_CLICK, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert refused.status_code == 403
    assert await _muted(sql, eva) == []
