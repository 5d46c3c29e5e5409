"""Signing in by password and by link, what a session is worth, and how long."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.settings import Settings
from tests.access.signing import COOKIE, EMAIL, PASSWORD, PUBLIC_NAME, SECURE_COOKIE, sign_in
from tests.api.raw import assert_problem
from tests.conftest import Person, make_settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cleo")]


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(
        home,
        database_url,
        public_url=f"https://{PUBLIC_NAME}",
        sign_in_attempts=3,
        trusted_proxies="127.0.0.1",
    )


async def use_link(http: httpx.AsyncClient, token: str) -> httpx.Response:
    return await http.post("/api/auth/sign-in/link", json={"token": token})


async def is_signed_in(http: httpx.AsyncClient) -> bool:
    answer = await http.get("/api/auth/me")
    if answer.status_code == 401:
        assert_problem(answer, 401, "not_signed_in")
        return False
    return bool(answer.json()["email"] == EMAIL)


async def test_a_password_signs_in(browser: httpx.AsyncClient) -> None:
    assert not await is_signed_in(browser)
    assert (await sign_in(browser)).status_code == 204
    assert await is_signed_in(browser)


async def test_an_address_is_the_same_in_capitals(browser: httpx.AsyncClient) -> None:
    assert (await sign_in(browser, EMAIL.upper())).status_code == 204
    assert await is_signed_in(browser)


async def test_known_and_unknown_addresses_are_refused_alike(
    browser: httpx.AsyncClient, services: Services
) -> None:
    await services.access.create_user(NewUser(email="nopassword@example.com"))

    answers = [
        await sign_in(browser, password="wrong"),
        await sign_in(browser, "nobody@example.com", "wrong"),
        await sign_in(browser, "nopassword@example.com", "wrong"),
    ]

    for answer in answers:
        assert_problem(answer, 401, "wrong_credentials")
        assert "set-cookie" not in answer.headers
    assert len({answer.content for answer in answers}) == 1


async def test_a_link_signs_in_once(
    browser: httpx.AsyncClient, anonymous: httpx.AsyncClient, services: Services
) -> None:
    token = await services.access.make_link(EMAIL)

    assert (await use_link(browser, token)).status_code == 204
    assert await is_signed_in(browser)
    assert_problem(await use_link(anonymous, token), 401, "spent_link")
    assert not await is_signed_in(anonymous)


async def test_of_many_uses_of_a_link_at_once_one_succeeds(address: str, services: Services) -> None:
    token = await services.access.make_link(EMAIL)
    async with httpx.AsyncClient(base_url=address, timeout=30) as http:
        answers = await asyncio.gather(*(use_link(http, token) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [204] + [401] * 9


async def test_an_expired_link_is_refused(
    browser: httpx.AsyncClient, services: Services, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    token = await services.access.make_link(EMAIL)
    await as_superuser.execute("update private.sign_in_links set expires_at = now() - interval '1 second'")
    assert_problem(await use_link(browser, token), 401, "spent_link")


async def test_a_made_up_link_is_refused(browser: httpx.AsyncClient) -> None:
    assert_problem(await use_link(browser, "made up"), 401, "spent_link")


# Cookies


def cookie_of(answer: httpx.Response, name: str) -> Any:
    for header in answer.headers.get_list("set-cookie"):
        if name in (parsed := SimpleCookie(header)):
            return parsed[name]
    raise AssertionError(f"no cookie named {name} in {answer.headers.get_list('set-cookie')}")


async def test_on_loopback_the_cookie_is_for_http_alone(browser: httpx.AsyncClient) -> None:
    cookie = cookie_of(await sign_in(browser), COOKIE)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "lax", "/")
    assert (cookie["secure"], cookie["domain"]) == ("", "")


async def test_elsewhere_the_cookie_is_secure_and_bound_to_its_host(
    browser: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for headers in [{"Host": PUBLIC_NAME}, {"X-Forwarded-Proto": "https"}]:
        with subtests.test(**headers):
            cookie = cookie_of(await sign_in(browser, **headers), SECURE_COOKIE)

            assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "lax", "/")
            assert (cookie["secure"], cookie["domain"]) == (True, "")
            me = await browser.get(
                "/api/auth/me", headers={**headers, "Cookie": f"{SECURE_COOKIE}={cookie.value}"}
            )
            assert me.json()["email"] == EMAIL
            # A neighbouring site could have set the plain one.
            planted = {**headers, "Cookie": f"{COOKIE}={cookie.value}"}
            assert_problem(await browser.get("/api/auth/me", headers=planted), 401)


async def test_a_token_set_beforehand_is_not_adopted(browser: httpx.AsyncClient) -> None:
    planted = {"Cookie": f"{COOKIE}=planted"}
    cookie = cookie_of(await sign_in(browser, **planted), COOKIE)
    assert cookie.value != "planted"
    browser.cookies.clear()
    assert_problem(await browser.get("/api/auth/me", headers=planted), 401)


async def test_signing_in_again_ends_the_session_that_was_there(browser: httpx.AsyncClient) -> None:
    first = cookie_of(await sign_in(browser), COOKIE).value
    second = cookie_of(await sign_in(browser), COOKIE).value
    browser.cookies.clear()

    assert first != second
    assert_problem(await browser.get("/api/auth/me", headers={"Cookie": f"{COOKIE}={first}"}), 401)
    assert (await browser.get("/api/auth/me", headers={"Cookie": f"{COOKIE}={second}"})).status_code == 200


async def test_a_stolen_cookie_is_worthless_after_signing_out(browser: httpx.AsyncClient) -> None:
    stolen = cookie_of(await sign_in(browser), COOKIE).value

    answer = await browser.post("/api/auth/sign-out")

    assert answer.status_code == 204
    assert cookie_of(answer, COOKIE)["max-age"] == "0"
    assert_problem(await browser.get("/api/auth/me", headers={"Cookie": f"{COOKIE}={stolen}"}), 401)


async def test_one_browser_can_sign_another_out(
    browser: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    await sign_in(browser, **{"User-Agent": "the lost one" + "!" * 1000})
    await sign_in(anonymous, **{"User-Agent": "the one at hand"})
    sessions = (await anonymous.get("/api/auth/sessions")).json()["data"]
    [lost] = [one["id"] for one in sessions if one["user_agent"].startswith("the lost one")]
    assert len(sessions) == 2
    assert all(len(one["user_agent"]) <= 300 for one in sessions)

    assert (await anonymous.delete(f"/api/auth/sessions/{lost}")).status_code == 204

    assert not await is_signed_in(browser)
    assert await is_signed_in(anonymous)


async def test_a_new_password_ends_all_other_sessions_and_links(
    browser: httpx.AsyncClient, anonymous: httpx.AsyncClient, services: Services
) -> None:
    await sign_in(browser)
    await sign_in(anonymous)
    token = await services.access.make_link(EMAIL)
    change = {"current_password": "wrong", "new_password": "another one entirely"}
    assert_problem(await browser.post("/api/auth/password", json=change), 403, "wrong_password")

    change["current_password"] = PASSWORD
    assert (await browser.post("/api/auth/password", json=change)).status_code == 204

    assert await is_signed_in(browser)
    assert not await is_signed_in(anonymous)
    assert_problem(await use_link(anonymous, token), 401, "spent_link")
    assert_problem(await sign_in(anonymous), 401, "wrong_credentials")
    assert (await sign_in(anonymous, password="another one entirely")).status_code == 204


async def test_guessing_the_current_password_is_limited_too(browser: httpx.AsyncClient) -> None:
    await sign_in(browser)
    change = {"current_password": "wrong", "new_password": "another one entirely"}
    answers = await asyncio.gather(*(browser.post("/api/auth/password", json=change) for _ in range(15)))
    assert sorted(answer.status_code for answer in answers) == [403] * 3 + [429] * 12


async def test_a_key_cannot_set_a_password_and_so_become_a_session(ana: Person) -> None:
    answer = await ana.http.post("/api/auth/password", json={"new_password": "long enough"})
    assert_problem(answer, 403, "not_allowed")
    assert_problem(await sign_in(ana.http, ana.email, "long enough"), 401, "wrong_credentials")


async def test_a_session_ends_when_idle_and_when_old(
    browser: httpx.AsyncClient, as_superuser: psycopg.AsyncConnection[Any], subtests: pytest.Subtests
) -> None:
    for shift in [
        b"update private.sessions set last_seen_at = now() - interval '73 hours'",
        b"update private.sessions set expires_at = now() - interval '1 second'",
    ]:
        with subtests.test(shift=shift):
            await sign_in(browser)
            assert await is_signed_in(browser)
            await as_superuser.execute(shift)
            assert not await is_signed_in(browser)


async def test_use_keeps_a_session_from_being_idle(
    browser: httpx.AsyncClient, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    await sign_in(browser)
    for _ in range(2):
        await as_superuser.execute(
            "update private.sessions set last_seen_at = last_seen_at - interval '71 hours'"
        )
        assert await is_signed_in(browser)


async def test_a_deleted_users_session_and_key_are_refused(
    browser: httpx.AsyncClient, ana: Person, services: Services
) -> None:
    await sign_in(browser)
    assert await is_signed_in(browser)
    assert (await ana.http.get(ana.memory)).status_code == 200

    await services.access.remove_user(EMAIL)
    await services.access.remove_user(ana.email)

    assert not await is_signed_in(browser)
    assert_problem(await ana.http.get(ana.memory), 401, "not_signed_in")
    assert_problem(await sign_in(browser), 401, "wrong_credentials")


async def test_a_suspended_user_is_refused(
    browser: httpx.AsyncClient, as_superuser: psycopg.AsyncConnection[Any], subtests: pytest.Subtests
) -> None:
    for change in [
        b"update auth.users set banned_until = now() + interval '1 day'",
        b"update auth.users set deleted_at = now()",
    ]:
        with subtests.test(change=change):
            await sign_in(browser)
            await as_superuser.execute(change)
            assert not await is_signed_in(browser)


# Guessing

# Wide enough a gap between counting and noting for others to slip through, if they could.
SLOW_TO_NOTE = """
    create function public.slow() returns trigger language plpgsql as
      'begin perform pg_sleep(0.1); return new; end';
    create trigger slow before insert on private.sign_in_failures
      for each row execute function public.slow();
"""
EARLIER = "update private.sign_in_failures set failed_at = failed_at - %s::interval"


async def test_100_wrong_passwords_lock_an_account_whether_or_not_it_exists(
    browser: httpx.AsyncClient, services: Services, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    await as_superuser.execute(SLOW_TO_NOTE)
    client = services.secret.digest("client:127.0.0.1")
    locked = {}
    for email in (EMAIL, "nobody@example.com"):
        # Here it is about accounts: the client's own attempts do not count.
        await as_superuser.execute("delete from private.sign_in_failures where subject = %s", [client])
        answers = await asyncio.gather(*(sign_in(browser, email, f"wrong {n}") for n in range(100)))
        assert sorted(answer.status_code for answer in answers) == [401] * 3 + [429] * 97, email
        locked[email] = [answer for answer in answers if answer.status_code == 429]
    for answer in (*locked[EMAIL], *locked["nobody@example.com"]):
        assert_problem(answer, 429, "too_many_attempts")
        assert 0 < int(answer.headers["retry-after"]) <= 900
    assert len({answer.content for answers in locked.values() for answer in answers}) == 1

    assert_problem(await sign_in(browser), 429, "too_many_attempts")
    await as_superuser.execute(
        "update private.sign_in_failures set failed_at = failed_at - interval '10 min'"
    )
    assert_problem(await sign_in(browser), 429, "too_many_attempts")
    # Attempts while it is locked do not keep it locked.
    await as_superuser.execute(EARLIER, ["6 minutes"])
    assert (await sign_in(browser)).status_code == 204


async def test_a_client_that_is_locked_out_locks_nobody_else_out(
    browser: httpx.AsyncClient, services: Services, as_superuser: psycopg.AsyncConnection[Any]
) -> None:
    for n in range(30):
        await sign_in(browser, f"somebody{n}@example.com", "wrong")
    for _ in range(10):
        assert_problem(await sign_in(browser, EMAIL, "wrong"), 429, "too_many_attempts")
    client = services.secret.digest("client:127.0.0.1")
    await as_superuser.execute("delete from private.sign_in_failures where subject = %s", [client])
    assert (await sign_in(browser)).status_code == 204


async def test_one_client_cannot_guess_at_many_accounts(
    browser: httpx.AsyncClient, services: Services
) -> None:
    for n in range(30):
        answer = await sign_in(browser, f"somebody{n}@example.com", "wrong")
        if answer.status_code == 429:
            break
    assert n == 15
    assert_problem(await sign_in(browser), 429, "too_many_attempts")


async def test_signing_in_rightly_is_not_counted(browser: httpx.AsyncClient) -> None:
    for _ in range(3):
        for _ in range(2):
            assert (await sign_in(browser, password="wrong")).status_code == 401
        assert (await sign_in(browser)).status_code == 204


async def test_a_right_password_does_not_buy_a_client_more_wrong_ones(browser: httpx.AsyncClient) -> None:
    for n in range(14):
        await sign_in(browser, f"somebody{n}@example.com", "wrong")
    assert (await sign_in(browser)).status_code == 204
    assert_problem(await sign_in(browser, "yet@example.com", "wrong"), 401, "wrong_credentials")
    assert_problem(await sign_in(browser, "another@example.com", "wrong"), 429, "too_many_attempts")
