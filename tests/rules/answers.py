"""What a model answers when it is asked for rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.model_server import Asked, Behaviour, Says

RULE = "Always indent with tabs, never with spaces."


def rule(text: str = RULE, *, quote: str = "always indent with tabs", **more: Any) -> dict[str, Any]:
    fields = {"category": "code-style", "confidence": 0.9, "contradicts": []}
    return {"rule_text": text, "quotes": [{"candidate": 1, "text": quote}], **fields, **more}


def answering(*rules: dict[str, Any], stands: bool = True) -> Callable[[Asked], Behaviour]:
    """A model that proposes these, and refutes all of them or none."""

    def behave(asked: Asked) -> Behaviour:
        if "<rules>" in asked.prompt:
            numbers = range(1, len(lines(asked, "rules")) + 1)
            return Says({"verdicts": [{"number": number, "stands": stands} for number in numbers]})
        return Says({"rules": list(rules)})

    return behave


def lines(asked: Asked, tag: str) -> list[Any]:
    """What a question holds between two tags."""
    inside = asked.prompt.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]
    return [json.loads(line) for line in inside.splitlines()]
