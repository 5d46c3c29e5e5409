"""Rules out of a chat inside another backend's process, as that backend would write it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from recollect.bootstrap import Services
from tests.adapters.example import EXAMPLE
from tests.conftest import SECRET
from tests.rules.histories.conftest import person

pytestmark = pytest.mark.anyio


async def test_a_backend_finds_rules_in_a_chat_of_its_own(
    services: Services, home: Path, database_url: str, tmp_path: Path
) -> None:
    ana = await person(services, "ana")
    await ana.agrees()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_DATABASE_URL": database_url,
        "RECOLLECT_SECRET_KEY": SECRET,
    }

    backend = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        EXAMPLE.replace("USER", str(ana.id)),
        cwd=tmp_path,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await backend.communicate()

    found = json.loads(printed)
    [rule] = found["rules"]
    assert rule["rule_text"] == "Always indent with tabs."
    assert rule["mem0_memory_id"]
    assert [str(chat.id) for chat in await ana.chats()] == [found["chat_history_id"]]
