"""The dashboard, as a browser sees it."""

from __future__ import annotations

import httpx
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from tests.conftest import Person

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"


@pytest.fixture
async def browser(services: Services, anonymous: httpx.AsyncClient) -> httpx.AsyncClient:
    """Signed in by password."""
    await services.access.create_user(NewUser(email="eva@example.com", password=PASSWORD))
    answer = await anonymous.post("/sign-in", data={"email": "eva@example.com", "password": PASSWORD})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return anonymous


async def test_a_stranger_is_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert 'type="password"' in (await anonymous.get("/sign-in")).text


async def test_a_wrong_password_is_told_and_keeps_the_address(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.post("/sign-in", data={"email": "eva@example.com", "password": "wrong"})
    assert answer.status_code == 401
    assert "do not match" in answer.text
    assert 'value="eva@example.com"' in answer.text
    assert "recollect_session" not in anonymous.cookies


async def test_looking_at_a_link_does_not_use_it_up(services: Services, anonymous: httpx.AsyncClient) -> None:
    await services.access.create_user(NewUser(email="eva@example.com"))
    token = await services.access.make_link("eva@example.com")
    for _ in range(2):
        assert (await anonymous.get("/sign-in", params={"token": token})).status_code == 200
    assert (await anonymous.post("/sign-in", data={"token": token})).status_code == 303
    assert "eva@example.com" in (await anonymous.get("/")).text
    again = await anonymous.post("/sign-in", data={"token": token})
    assert (again.status_code, "used already" in again.text) == (401, True)


async def test_signing_out_ends_the_session(browser: httpx.AsyncClient) -> None:
    stolen = dict(browser.cookies)
    assert (await browser.post("/sign-out")).status_code == 303
    browser.cookies.update(stolen)
    assert (await browser.get("/")).status_code == 303


async def test_what_is_stored_is_shown_and_inert(browser: httpx.AsyncClient) -> None:
    me = (await browser.get("/api/auth/me")).json()["id"]
    hostile = "</code><script>alert(1)</script>"
    for field in ("key", "value", "namespace"):
        body = {"key": "k", "value": "v", "namespace": "n"} | {field: hostile}
        assert (await browser.post(f"/api/user/{me}/memory", json=body)).status_code == 200
    page = (await browser.get("/")).text
    assert "<script>" not in page
    assert page.count("alert(1)") >= 3


async def test_pages_forbid_scripts_and_framing(browser: httpx.AsyncClient) -> None:
    for path in ("/", "/sign-in", "/docs"):
        policy = (await browser.get(path)).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy


async def test_another_site_cannot_sign_anybody_in_or_out(browser: httpx.AsyncClient) -> None:
    for path in ("/sign-in", "/sign-out"):
        refused = await browser.post(path, data={"token": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert refused.status_code == 403
    assert (await browser.get("/")).status_code == 200


async def test_the_reference_lists_every_operation_and_needs_nothing_from_elsewhere(
    anonymous: httpx.AsyncClient,
) -> None:
    page = (await anonymous.get("/docs")).text
    described = (await anonymous.get("/openapi.json")).json()
    for path in described["paths"]:
        assert f"<code>{path}</code>" in page
    assert "//" not in page.replace("://", "")
    assert (await anonymous.get("/static/recollect.css")).status_code == 200


async def test_nobody_sees_anothers_memory(browser: httpx.AsyncClient, ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "k", "value": "a secret of ana's"})
    assert "a secret" not in (await browser.get("/")).text
