"""The real command, in a process of its own, on the test's database."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SECRET


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """What a refused command says: one line, and nothing else."""
        assert self.code == 1, self
        assert self.out == ""
        [line] = self.err.splitlines()
        assert line.startswith("error ")
        return line.removeprefix("error ")


Run = Callable[..., Awaitable[Outcome]]


async def run_command(environment: dict[str, str], cwd: Path, *arguments: str, stdin: str = "") -> Outcome:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recollect", *arguments),
        # Nothing of this process's settings, and no .env from the working directory.
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **environment},
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(stdin.encode())
    return Outcome(process.returncode or 0, out.decode(), err.decode())


@pytest.fixture
def environment(home: Path, database_url: str) -> dict[str, str]:
    return {
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_DATABASE_URL": database_url,
        "RECOLLECT_SECRET_KEY": SECRET,
    }


@pytest.fixture
def recollect(environment: dict[str, str], tmp_path: Path) -> Run:
    """``await recollect("user", "create", "ana@example.com")``; keywords are further settings."""

    async def run(*arguments: str, stdin: str = "", **settings: str) -> Outcome:
        return await run_command({**environment, **settings}, tmp_path, *arguments, stdin=stdin)

    return run
