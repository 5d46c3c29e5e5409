"""What tokens cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from recollect.llm.models import Usage

_MILLION = 1_000_000
_DATED = re.compile(r"-20\d{6}$")


@dataclass(frozen=True)
class Price:
    """USD for a million tokens."""

    input: Decimal
    output: Decimal

    def of(self, usage: Usage) -> Decimal:
        return (usage.input * self.input + usage.output * self.output) / _MILLION


def _usd(tokens_in: str, tokens_out: str) -> Price:
    return Price(Decimal(tokens_in), Decimal(tokens_out))


# As of November 2026, for prompts as short as ours. RECOLLECT_MODEL_PRICE says otherwise.
_KNOWN = {
    "claude-haiku-5-5": _usd("0.10", "0.50"),
    "claude-haiku-4-5": _usd("1", "5"),
    "claude-sonnet-5-5": _usd("2", "10"),
    "claude-sonnet-5": _usd("2", "10"),
    "claude-sonnet-4-6": _usd("3", "15"),
    "claude-sonnet-4-5": _usd("3", "15"),
    "claude-opus-5-5": _usd("4", "20"),
    "claude-opus-5": _usd("5", "25"),
    "claude-opus-4-8": _usd("5", "25"),
    "claude-opus-4-7": _usd("5", "25"),
    "claude-opus-4-6": _usd("5", "25"),
    "claude-opus-4-5": _usd("5", "25"),
    "claude-fable-5-1": _usd("10", "50"),
    "claude-fable-5": _usd("10", "50"),
}


def known_price(model: str) -> Price | None:
    return _KNOWN.get(_DATED.sub("", model))
