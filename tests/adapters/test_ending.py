"""A program with Recollect inside ends as if it had none, however it ends: it says nothing more, and its
Postgres has stopped, unless somebody else still needs it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from recollect.adapters.background import Background
from recollect.bootstrap import open_database, open_services
from recollect.db.embedded.places import arrange
from recollect.settings import Settings
from tests.adapters.example import EXAMPLE
from tests.conftest import SECRET
from tests.db.embedding import IMPORTS, postmasters, remove
from tests.rules.histories.conftest import person

# One Postgres for all of them, in one process.
pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("ending")]


def _settings(home: Path) -> Settings:
    return Settings(home=home, secret_key=SECRET, _env_file=None)


@dataclass(frozen=True)
class Machine:
    """Where programs run that keep their memories in an embedded Postgres of their own."""

    home: Path
    user: str

    @property
    def settings(self) -> Settings:
        return _settings(self.home)

    @property
    def postmasters(self) -> list[int]:
        return postmasters(arrange(self.home, 18).data_dir)

    async def run(self, ending: str = "") -> subprocess.CompletedProcess[str]:
        """The example, and what comes after it."""
        code = EXAMPLE.replace("USER", self.user) + ending
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": IMPORTS, "RECOLLECT_SECRET_KEY": SECRET}
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "error", "-c", code],
            env=environment | {"RECOLLECT_HOME": str(self.home)},
            cwd=self.home.parent,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
async def machine(anyio_backend: str) -> AsyncIterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="recollect-") as name:
        Path(name).chmod(0o711)  # root's Postgres runs as somebody else, who has to pass through
        home = Path(name) / "home"
        async with open_services(_settings(home)) as services:
            ana = await person(services, "ana")
            await ana.agrees()
        yield Machine(home, str(ana.id))
        remove(home)


async def test_after_the_example_nothing_is_said_and_nothing_runs(machine: Machine) -> None:
    done = await machine.run()

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["chat_history_id"]
    assert machine.postmasters == []


async def test_after_sys_exit_nothing_is_said_and_nothing_runs(machine: Machine) -> None:
    done = await machine.run("sys.exit(3)")

    assert (done.returncode, done.stderr) == (3, "")
    assert machine.postmasters == []


async def test_after_an_exception_only_that_is_said_and_nothing_runs(machine: Machine) -> None:
    done = await machine.run("raise LookupError('the program\\'s own')")

    said = [line for line in done.stderr.splitlines() if not line.startswith(" ")]
    assert said == ["Traceback (most recent call last):", "LookupError: the program's own"]
    assert done.returncode == 1
    assert machine.postmasters == []


async def test_a_call_that_is_still_under_way_keeps_no_program_from_ending(machine: Machine) -> None:
    done = await machine.run("""
import threading
from recollect.adapters.backend import here
from recollect.settings import Settings

under_way = threading.Event()

async def sleep(services):
    under_way.set()
    await asyncio.sleep(3600)

here.get(Settings).call(sleep)
under_way.wait()
""")

    assert (done.returncode, done.stderr) == (0, "")
    assert machine.postmasters == []


async def test_a_postgres_that_another_process_uses_goes_on(machine: Machine) -> None:
    async with (
        open_database(machine.settings) as (database, _),
        await psycopg.AsyncConnection.connect(database.admin) as connection,
    ):
        [ours] = machine.postmasters
        done = await machine.run()

        assert (done.returncode, done.stderr) == (0, "")
        assert machine.postmasters == [ours]
        await connection.execute("select 'still there'")
    assert machine.postmasters == []


async def test_what_is_open_closes_in_peace(machine: Machine) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def slow_to_close(_: Settings) -> AsyncIterator[str]:
        try:
            yield "open"
        finally:
            await asyncio.sleep(0.1)
            await asyncio.to_thread(steps.append, "closed")

    async def look(it: str) -> str:
        return it

    background = Background(machine.settings, slow_to_close)
    assert background.call(look).result(10) == "open"
    await asyncio.to_thread(background.close)

    assert steps == ["closed"]
