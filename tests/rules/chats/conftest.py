from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Chat, Skipped


@dataclass
class Found:
    """What one run over some files found."""

    chats: list[Chat] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    progress: list[tuple[int, int]] = field(default_factory=list)

    @property
    def said(self) -> list[str]:
        """What the users said, in order."""
        return [turn.text for chat in self.chats for turn in chat.turns if turn.role == "user"]

    @property
    def reasons(self) -> str:
        return "\n".join(skipped.reason for skipped in self.skipped)


Read = Callable[..., Found]
Write = Callable[..., Path]


@pytest.fixture
def read() -> Read:
    def reading(*paths: str | Path) -> Found:
        found = Found()
        chats = read_chats(
            paths, report=found.skipped.append, progress=lambda *at: found.progress.append((at[0], at[1]))
        )
        found.chats.extend(chats)
        return found

    return reading


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file with this content: text, bytes, a list of JSON lines, or one JSON value."""

    def writing(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(line) + "\n" for line in content)
        elif isinstance(content, dict):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return writing
