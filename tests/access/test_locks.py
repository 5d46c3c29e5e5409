"""Nobody waits inside a transaction for what another transaction of the same request does."""

from __future__ import annotations

import asyncio

import httpx
import psycopg
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"


async def test_sessions_that_change_a_password_at_once_do_not_wait_for_each_other(
    services: Services, address: str, database_url: str
) -> None:
    await services.access.create_user(NewUser(email="eva@example.com", password=PASSWORD))
    tokens = [
        (await services.access.sign_in("eva@example.com", PASSWORD, client=str(number))).token
        for number in range(6)
    ]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        # Idle for a while, so that the next request of each notes that it was seen.
        await connection.execute("update private.sessions set last_seen_at = now() - interval '5 minutes'")

    async def change(token: str) -> int:
        async with httpx.AsyncClient(
            base_url=address, cookies={"recollect_session": token}, timeout=30
        ) as browser:
            body = {"current_password": PASSWORD, "new_password": PASSWORD}
            return (await browser.post("/api/auth/password", json=body)).status_code

    # One signs the others out; those get a 401 or were quick enough. Nobody hangs until a timeout.
    assert set(await asyncio.gather(*map(change, tokens))) <= {204, 401, 403}
