"""Chores of the trade: tests, documents, commits. chores.toml says by which words each is known."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from re import Pattern


def chores_in(plain: str) -> frozenset[str]:
    """Which of them a clause, in lower case and without accents, is about."""
    spaced, unspaced = _chores()
    patterns = (spaced,) if plain.isascii() else (spaced, unspaced)
    return frozenset(
        found.lastgroup for pattern in patterns for found in pattern.finditer(plain) if found.lastgroup
    )


@cache
def _chores() -> tuple[Pattern[str], Pattern[str]]:
    told = tomllib.loads((files(__package__) / "chores.toml").read_text("utf-8"))
    words = "|".join(f"(?P<{name}>{_lines(each['words'])})" for name, each in told.items())
    unspaced = "|".join(f"(?P<{name}>{each['unspaced']})" for name, each in told.items())
    # Where a word begins is looked at once, not for each chore: that is most of the time it takes.
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)"), re.compile(unspaced)


def _lines(patterns: str) -> str:
    return "|".join(line for line in patterns.splitlines() if line)
