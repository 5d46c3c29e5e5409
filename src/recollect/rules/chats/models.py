"""What a transcript holds, whatever wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Role = Literal["user", "assistant"]
Kind = Literal["said", "queued", "rejected"]


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that the human or the assistant said; tool output is nobody's turn."""

    role: Role
    text: str
    at: datetime | None
    # From the chat's start, the first being 0.
    number: int
    # What the assistant had just done before a user's turn: "Edit src/x.py; Bash git commit".
    doing: str = ""
    kind: Kind = "said"


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation. A very long one comes in parts: same session, numbers going on."""

    source: str
    format: str
    session: str
    project: str | None
    author: str | None
    title: str | None
    started_at: datetime | None
    turns: tuple[Turn, ...]
    # The session whose turns it begins with, written down anew and with other times.
    forked_from: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not read, and what a person can do about it."""

    source: str
    reason: str
    line: int | None = None
