"""From what a model says to what was asked for, or to what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from recollect.errors import RecollectError
from recollect.kit.text import strict_json

T = TypeVar("T", bound=BaseModel)

SHOWN_PROBLEMS = 10
# Models that think aloud do so first.
_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)


class Unfit(Exception):
    """``complaint`` is for the model. ``where`` is for people and the ledger, and quotes nothing."""

    def __init__(self, complaint: str, where: str) -> None:
        super().__init__(where)
        self.complaint = complaint
        self.where = where


def read(text: str, kind: type[T]) -> T:
    found = _object_in(text)
    try:
        # Pydantic would let pass what Postgres cannot hold: NUL, half a surrogate pair, numbers without end.
        strict_json(found.encode(errors="surrogatepass"))
        return kind.model_validate_json(found)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)[
            :SHOWN_PROBLEMS
        ]
        told = [f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}" for each in problems]
        raise Unfit(_complaint("\n".join(told)), _places(problems, kind)) from None
    except RecollectError as error:
        raise Unfit(_complaint(error.detail), "it is no usable JSON.") from None


def _places(problems: Sequence[Mapping[str, Any]], kind: type[BaseModel]) -> str:
    # Names of our own alone: further down, in an open object, a name may be the model's.
    ours = set(kind.model_fields) | {field.alias for field in kind.model_fields.values()}
    names = {str(each["loc"][0]) for each in problems if each["loc"] and each["loc"][0] in ours}
    return f"look at {', '.join(sorted(names))}." if names else "it has another shape."


def _complaint(problems: str) -> str:
    return (
        f"That answer cannot be used:\n{problems}\n"
        "Give the whole answer again, corrected, as one JSON object and nothing else."
    )


def _object_in(text: str) -> str:
    """Without thoughts, code fences and courtesies around it."""
    text = _THOUGHTS.sub("", text, count=1).strip()
    if text.startswith("{"):
        return text
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else text
