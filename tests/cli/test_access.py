"""Users and keys from the command line, while a server runs on the same database."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def test_a_user_and_a_key_made_for_a_script_work_at_once(
    recollect: Run, anonymous: httpx.AsyncClient
) -> None:
    user = (await recollect("user", "create", "eva@example.com", "--name", "Eva", "--json")).json
    issued = (await recollect("key", "create", "--user", "eva@example.com", "--json")).json

    me = await anonymous.get("/api/auth/me", headers={"Authorization": f"Bearer {issued['key']}"})

    assert me.status_code == 200
    assert me.json()["id"] == user["id"]
    assert me.json()["email"] == "eva@example.com"


async def test_keys_are_listed_without_the_key_and_revoked_at_once(recollect: Run, ana: Person) -> None:
    listed = await recollect("key", "list", "--user", ana.email)
    prefix, secret = ana.key[:11], ana.key[12:]
    assert prefix in listed.out
    assert secret not in listed.out + listed.err
    # Scripts cut columns out of it: an id is never shortened to fit a terminal.
    [key_id] = re.findall(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", listed.out)
    assert (await ana.http.get("/api/auth/me")).status_code == 200

    assert (await recollect("key", "revoke", key_id, "--user", ana.email)).code == 0

    assert (await ana.http.get("/api/auth/me")).status_code == 401


async def test_a_link_signs_in_once_and_deleting_the_user_ends_everything(
    recollect: Run, ana: Person, anonymous: httpx.AsyncClient
) -> None:
    url = (await recollect("user", "link", ana.email, "--json")).json["url"]
    [token] = parse_qs(urlsplit(url).query)["token"]
    first = await anonymous.post("/api/auth/sign-in/link", json={"token": token})
    second = await anonymous.post("/api/auth/sign-in/link", json={"token": token})
    assert (first.status_code, second.status_code) == (204, 401)
    assert (await anonymous.get("/api/auth/me")).json()["email"] == ana.email

    unasked = await recollect("user", "delete", ana.email)
    assert unasked.code == 1
    assert (await ana.http.get("/api/auth/me")).status_code == 200
    assert (await recollect("user", "delete", ana.email, "--yes")).code == 0

    assert (await anonymous.get("/api/auth/me")).status_code == 401
    assert (await ana.http.get("/api/auth/me")).status_code == 401


async def test_a_password_from_standard_input_signs_in(recollect: Run, anonymous: httpx.AsyncClient) -> None:
    made = await recollect("user", "create", "eva@example.com", "--password-stdin", stdin="correct horse\n")
    assert made.code == 0
    body = {"email": "eva@example.com", "password": "correct horse"}

    assert (await anonymous.post("/api/auth/sign-in", json=body)).status_code == 204


async def test_a_refusal_is_one_sentence(recollect: Run, ana: Person) -> None:
    outcomes = await asyncio.gather(
        recollect("user", "create", ana.email.upper()),
        recollect("user", "create", "nobody"),
        recollect("key", "create", "--user", "nobody@example.com"),
        recollect("user", "show", ana.email, RECOLLECT_PORT="eight"),
        recollect("user", "show", ana.email, RECOLLECT_BANK_RETENTION_DAYS="{broken"),
    )
    sentences = [outcome.sentence for outcome in outcomes]

    assert "already" in sentences[0]
    assert sentences[1].startswith("email: ")
    assert "no user with that e-mail address" in sentences[2]
    assert "RECOLLECT_PORT" in sentences[3]
    assert "bank_retention_days" in sentences[4]
