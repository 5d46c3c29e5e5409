"""What the API's description promises holds for whatever is sent."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from recollect.settings import Settings
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
# The caller's own id, so that requests reach the endpoints and do not all end as "not found".
CONFIGURATION = """
[parameters]
"path.userId" = "{user_id}"

# Beside ids stand these words; with a method that they do not have, they are read as an id.
[[operations]]
include-path-regex = "^/api/memories/(search|context|entities)$"
phases.coverage.unexpected-methods = []

[[operations]]
include-path-regex = "^/api/(chats/consent|rules/(extract|approved|runs|prompts))$"
phases.coverage.unexpected-methods = []
"""


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, webhooks_allow_private=True)


@pytest.mark.timeout(1_000)
async def test_schemathesis_finds_nothing(ana: Person, address: str, tmp_path: Path) -> None:
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(user_id=ana.id))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run"),
        f"{address}/openapi.json",
        *("--header", f"Authorization: Bearer {ana.key}"),
        *("--checks", "all", "--mode", "all", "--phases", "examples,coverage,fuzzing,stateful"),
        # "Any JSON" includes NUL, which Postgres cannot store; test_bad_input.py sends it on purpose.
        *("--generation-allow-x00", "false"),
        *("--max-examples", "2", "--seed", "1", "--generation-database", "none"),
        # A stream that never ends; tests/events/test_live.py listens to it.
        *("--exclude-path", "/api/events"),
        # One worker: with two, Hypothesis at times trips over its own cache of source lines.
        *("--workers", "1", "--request-timeout", "10", "--continue-on-failure", "--warnings", "off"),
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks", "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0, output.decode()
