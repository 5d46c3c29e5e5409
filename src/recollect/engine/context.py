"""The best memories as text for a prompt, within a hard budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recollect.engine.models import Context, Found, Memory, Wanted
from recollect.errors import InvalidInput

# Tokenisers cut English words into pieces of about five letters; other scripts cost a token a letter.
_PIECES = re.compile(r"[A-Za-z]{1,5}|\d|[^\sA-Za-z\d]")
MAX_BUDGET = 1_000_000
CANDIDATES = 300


def tokens_in(text: str) -> int:
    """How many tokens a text has, estimated from above: prompts are paid for by tokenisers that differ."""
    return len(_PIECES.findall(text))


def line_for(memory: Memory) -> str:
    when = memory.occurred_at or memory.created_at
    said_by = f"{memory.speaker}: " if memory.speaker else ""
    return f"- [{when:%Y-%m-%d}] {said_by}{memory.text}"


def candidates(wanted: Wanted, budget: int) -> Wanted:
    """The search whose results a context is chosen from."""
    if not 1 <= budget <= MAX_BUDGET:
        raise InvalidInput(f"budget_tokens: between 1 and {MAX_BUDGET:,}.")
    return replace(wanted, limit=CANDIDATES, explain=False)


def compose(found: Sequence[Found], budget: int, whole: int) -> Context:
    """As many of the best as fit, in the order in which they happened."""
    chosen: list[Found] = []
    spent = 0
    for memory in found:
        cost = tokens_in(line_for(memory)) + 1
        if spent + cost <= budget:
            chosen.append(memory)
            spent += cost
    chosen.sort(key=lambda memory: (memory.occurred_at or memory.created_at, memory.id))
    text = "\n".join(map(line_for, chosen))
    return Context(
        text=text,
        ids=[memory.id for memory in chosen],
        tokens=spent,
        budget=budget,
        whole=max(whole, spent),
        saved=max(whole - spent, 0),
    )
