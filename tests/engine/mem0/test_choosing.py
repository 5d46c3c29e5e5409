"""Which engine keeps memories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from recollect.bootstrap import build_services
from recollect.db import database as databases
from recollect.engine.mem0 import is_mem0_configured
from recollect.errors import Misconfigured
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings
from tests.conftest import SECRET, make_settings

pytestmark = pytest.mark.anyio


def chosen(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


async def name_of(settings: Settings) -> str:
    secret = ServerSecret(SECRET.encode())
    async with (
        databases.locate(settings, secret) as database,
        build_services(settings, secret, database) as services,
    ):
        return services.engine.name


@pytest.mark.parametrize("mode", ["self-hosted", "oss", "platform"])
async def test_the_mode_chooses(home: Path, database_url: str, mode: str) -> None:
    assert await name_of(make_settings(home, database_url, mem0_mode=mode)) == mode


async def test_by_default_memories_stay_here(home: Path, database_url: str) -> None:
    assert await name_of(make_settings(home, database_url)) == "self-hosted"


def test_mem0_is_configured_unless_the_platform_has_no_key() -> None:
    assert is_mem0_configured(chosen())
    assert is_mem0_configured(chosen(mem0_mode="oss"))
    assert is_mem0_configured(chosen(mem0_mode="platform", mem0_api_key="m0"))
    assert not is_mem0_configured(chosen(mem0_mode="platform"))


async def test_without_the_extra_it_is_said_how_to_have_it(
    home: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mem0"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(Misconfigured, match=r"pip install \"recollect\[mem0\]\""):
        await name_of(make_settings(home, database_url, mem0_mode="oss"))
    # The platform is reached over HTTP, and takes nothing more.
    assert await name_of(make_settings(home, database_url, mem0_mode="platform")) == "platform"
