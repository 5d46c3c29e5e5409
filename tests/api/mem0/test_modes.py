"""mem0's protocol is spoken by our own engine alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.settings import Settings
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, mem0_mode="platform")


async def test_where_mem0_keeps_the_memories_its_clients_are_sent_elsewhere(ana: Person) -> None:
    answer = await ana.http.post("/v3/memories/search/", json={"query": "tea", "filters": {"user_id": "mia"}})
    assert answer.status_code == 501
    assert "self-hosted" in answer.json()["detail"]
