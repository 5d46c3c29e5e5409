"""What people see of rules on terminals of any width."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from recollect.cli.tables import Rows
from tests.cli.conftest import CODE, Run
from tests.cli.test_rules import BRANCH, TABS, transcript

pytestmark = pytest.mark.anyio

ID = "0c5a1c1e-6f0e-4b7e-9a51-3f1f0a6f2d11"


async def on_a_terminal(environment: dict[str, str], cwd: Path, width: int, *arguments: str) -> str:
    """What the command draws on a terminal of this width."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recollect", *arguments),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": CODE,
            "HOME": str(cwd),
            "COLUMNS": str(width),
            "TERM": "xterm",
            **environment,
        },
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=theirs,
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(theirs)
    drawn = await asyncio.to_thread(_all_of, ours)
    assert await process.wait() == 0
    return drawn


def _all_of(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 65_536):
            parts.append(part)
    except OSError:
        # Linux's way to say that nobody writes to it any more.
        pass
    finally:
        os.close(terminal)
    return re.sub(r"\x1b\[[\d;]*m", "", b"".join(parts).decode().replace("\r\n", "\n"))


def words(text: Any) -> list[str]:
    return re.findall(r"[\w.,-]+", str(text))


@pytest.mark.parametrize("width", [60, 100])
async def test_ids_and_words_stay_whole(
    recollect: Run, environment: dict[str, str], tmp_path: Path, width: int
) -> None:
    await recollect("import", "chats", str(transcript(tmp_path, TABS, BRANCH)))

    extracted = await on_a_terminal(environment, tmp_path, width, "rules", "extract")
    listed = await on_a_terminal(environment, tmp_path, width, "rules", "list")
    runs = await on_a_terminal(environment, tmp_path, width, "rules", "runs")

    rules = (await recollect("rules", "list", "--json")).json
    [run] = (await recollect("rules", "runs", "--json")).json
    for drawn in (extracted, listed):
        assert all(len(line) <= width for line in drawn.splitlines())
        for rule in rules:
            assert {rule["id"], rule["category"], *words(rule["rule_text"])} <= set(words(drawn))
    assert run["started_at"] in runs
    assert "repeated" in runs


def drawn(width: int, *cells: str) -> str:
    console = Console(width=width, soft_wrap=True)
    with console.capture() as captured:
        console.print(Rows(("id", "rule", "said"), [[Text(cell) for cell in cells]]))
    return captured.get()


def test_a_row_is_a_line_where_there_is_room_else_folded_at_spaces_else_a_block() -> None:
    said = ("Prefer composition to inheritance.", "I would rather have composition here.")

    assert len(drawn(200, ID, *said).splitlines()) == 2
    for width in (70, 80, 100):
        folded = drawn(width, ID, *said)
        assert folded.splitlines()[0].split() == ["id", "rule", "said"]
        assert {"composition", "inheritance."} <= set(folded.split())
    block = drawn(60, ID, *said).splitlines()
    assert [line.split()[0] for line in block] == ["id", "rule", "said"]
    assert block[0].split()[1] == ID


def test_what_is_longer_than_any_word_is_folded_and_whole() -> None:
    path = "/home/ana/" + "deep/" * 40
    assert path in re.sub(r"\s", "", drawn(60, ID, path, "Use that."))
