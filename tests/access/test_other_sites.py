"""What a page of another site could make a browser send, and names that are not the server's."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from recollect.settings import Settings
from tests.access.signing import PUBLIC_NAME, sign_in
from tests.api.raw import assert_problem, exchange, request
from tests.conftest import make_settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cleo")]


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, public_url=f"https://{PUBLIC_NAME}", sign_in_attempts=3)


async def test_another_site_cannot_write_with_the_cookie(
    browser: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for headers in [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost.evil.example"},
    ]:
        with subtests.test(**headers):
            await sign_in(browser)
            for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
                sent = {**headers, "Content-Type": kind}
                answer = await browser.post("/api/auth/keys", content=b'{"name": "theirs"}', headers=sent)
                assert_problem(answer, 403, "cross_site")
            assert_problem(await browser.post("/api/auth/sign-out", headers=headers), 403, "cross_site")
            assert_problem(await sign_in(browser, **headers), 403, "cross_site")

            assert (await browser.get("/api/auth/keys")).json() == {"data": []}


async def test_the_own_site_and_programs_can_write_with_the_cookie(
    browser: httpx.AsyncClient, address: str
) -> None:
    await sign_in(browser)
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": address}, {"Origin": address}, {}):
        answer = await browser.post("/api/auth/keys", json={}, headers=headers)
        assert answer.status_code == 201, answer.text


async def test_a_name_pointed_at_loopback_is_refused(address: str, subtests: pytest.Subtests) -> None:
    for host in [
        *("evil.example", "127.0.0.1.evil.example", "localhost:80@evil.example", "localhost:x", "[", "[::1"),
        *("", "localhost, evil.example", f"{PUBLIC_NAME}.evil.example", "::1", "169.254.169.254"),
    ]:
        with subtests.test(host=host):
            sent = f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            assert_problem(await exchange(address, sent), 400, "unknown_host")


async def test_the_servers_own_names_are_accepted(
    anonymous: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for host in ["localhost:8000", "127.0.0.1", "[::1]:8000", PUBLIC_NAME, "LOCALHOST"]:
        with subtests.test(host=host):
            assert (await anonymous.get("/health", headers={"Host": host})).status_code == 200


async def test_headers_of_the_request_do_not_become_headers_of_the_answer(address: str) -> None:
    sent = request("GET", "/health", "X-Request-ID: a\tb", "X-Forwarded-Host: evil.example")
    answer = await exchange(address, sent)
    assert answer.headers["x-request-id"] != "a\tb"
    assert "evil.example" not in str(answer.headers)


async def test_no_address_redirects_elsewhere(address: str) -> None:
    for target in (
        "//evil.example/",
        "//evil.example/%2e%2e",
        "/api/auth/me/",
        "/health/",
        "http://evil.example/",
    ):
        answer = await exchange(address, request("GET", target))
        assert "evil.example" not in answer.headers.get("location", ""), target
