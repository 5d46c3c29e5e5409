"""The real command, in a process of its own, on the test's database."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from recollect import cli
from tests.conftest import SECRET

# The code under test may be another than the installed one: that of a second work tree.
CODE = str(Path(cli.__file__).parents[2])


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err.strip() or self.out
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


class Warm:
    """Runs commands in forks of a process that has everything loaded; see warm.py."""

    def __init__(self) -> None:
        environment = {"PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": CODE}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._answers: dict[int, Future[int]] = {}
        self._numbers = count()
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self._process.kill)

    async def run(
        self, environment: dict[str, str], cwd: Path, arguments: Sequence[str], stdin: str
    ) -> Outcome:
        number, answer = next(self._numbers), Future[int]()
        self._answers[number] = answer
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder) / name for name in ("stdin", "stdout", "stderr")}
            for name, file in files.items():
                file.write_text(stdin if name == "stdin" else "")
            wanted = {
                "id": number,
                "arguments": arguments,
                "env": environment,
                "cwd": str(cwd),
                **{name: str(file) for name, file in files.items()},
            }
            assert self._process.stdin is not None
            self._process.stdin.write(f"{json.dumps(wanted)}\n".encode())
            self._process.stdin.flush()
            code = await asyncio.wrap_future(answer)
            return Outcome(code, files["stdout"].read_text(), files["stderr"].read_text())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._answers.pop(answer["id"]).set_result(answer["code"])


@cache
def warm() -> Warm:
    return Warm()


async def run_command(environment: dict[str, str], cwd: Path, *arguments: str, stdin: str = "") -> Outcome:
    # Nothing of this process's settings, and no .env from the working directory.
    alone = {"PATH": os.environ["PATH"], "HOME": str(cwd), **environment}
    return await warm().run(alone, cwd, arguments, stdin)


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
