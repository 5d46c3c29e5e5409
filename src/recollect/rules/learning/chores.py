"""Chores of the trade: tests, documents, commits. chores.toml says by which words each is known."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from re import Pattern


def chores_in(plain: str) -> frozenset[str]:
    """Which of them a clause, in lower case and without accents, is about."""
    return frozenset(found.lastgroup for found in _chores().finditer(plain) if found.lastgroup)


@cache
def _chores() -> Pattern[str]:
    told = tomllib.loads((files(__package__) / "chores.toml").read_text("utf-8"))
    return re.compile("|".join(f"(?P<{name}>{_known_by(each)})" for name, each in told.items()))


def _known_by(chore: dict[str, str]) -> str:
    words = "|".join(line for line in chore["words"].splitlines() if line)
    return rf"(?<!\w)(?:{words})(?!\w)|{chore['unspaced']}"
