"""Who says that a request came from elsewhere is not believed, unless it is a proxy of ours."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from recollect.settings import Settings
from tests.conftest import make_settings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["", "127.0.0.1"])
def settings(home: Path, database_url: str, request: pytest.FixtureRequest) -> Settings:
    return make_settings(home, database_url, sign_in_attempts=1, trusted_proxies=request.param)


async def test_a_client_does_not_escape_its_limit_by_naming_others(
    anonymous: httpx.AsyncClient, settings: Settings
) -> None:
    statuses = []
    for number in range(7):
        body = {"email": f"somebody{number}@example.com", "password": "wrong"}
        headers = {"X-Forwarded-For": f"203.0.113.{number}"}
        statuses.append((await anonymous.post("/api/auth/sign-in", json=body, headers=headers)).status_code)
    assert statuses == ([401] * 7 if settings.trusted_proxies else [401] * 5 + [429] * 2)
