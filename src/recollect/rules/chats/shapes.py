"""Looking into JSON whose shape is not to be trusted: a wrong type reads as nothing."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_SPOKEN = ("text", "input_text", "output_text")


def an_object(value: object) -> Json:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def a_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def spoken(content: object) -> str:
    """The text of a message: a string, or its blocks of text without tools, thoughts and pictures."""
    if isinstance(content, str):
        return content
    blocks = [an_object(block) for block in a_list(content)]
    return "\n".join(a_text(block.get("text")) for block in blocks if block.get("type") in _SPOKEN).strip()
