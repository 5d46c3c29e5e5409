"""What all commands share."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from recollect.cli.console import waiting

pytestmark = pytest.mark.anyio


def test_small_commands_do_not_load_the_web_framework() -> None:
    script = "import sys, recollect.cli.app, recollect.bootstrap; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)

    assert not {"fastapi", "starlette", "uvicorn", "prometheus_client"} & set(loaded.stdout.split())


def test_help_does_not_load_the_database_driver() -> None:
    script = "import sys, recollect.cli.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)

    assert not {"psycopg", "httpx", "recollect.bootstrap"} & set(loaded.stdout.split())


async def test_only_what_takes_long_is_announced() -> None:
    written = StringIO()
    terminal = Console(file=written, force_terminal=True)

    async with waiting("Quick work", patience=60, console=terminal):
        await asyncio.sleep(0)
    assert written.getvalue() == ""

    async with waiting("Long work", patience=0, console=terminal):
        await asyncio.sleep(0.01)
    assert "Long work" in written.getvalue()
