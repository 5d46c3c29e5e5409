"""What is wrong with input, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# More than anybody reads; a body can have a hundred thousand fields that are not known.
MOST_TOLD = 50


def told(errors: Sequence[Mapping[str, Any]], *, inside: int = 0) -> tuple[str, list[dict[str, str]]]:
    """pydantic's errors as a sentence and as fields with their problems. So many parts of a field's place,
    such as "body", go without saying."""
    fields = [_field(error, inside) for error in errors[:MOST_TOLD]]
    listed = "; ".join(f"{field['field']}: {field['problem']}" for field in fields)
    more = len(errors) - len(fields)
    return f"{listed}; and {more:,} more." if more else f"{listed}.", fields


def _field(error: Mapping[str, Any], inside: int) -> dict[str, str]:
    # Never the value itself: it may be private, and it may not even be encodable.
    location: Sequence[Any] = error["loc"]
    # Where a field may be one of several types, pydantic adds how it calls the one that failed.
    parts = [part for part in location[inside:] if "[" not in str(part)]
    name = ".".join(map(_printable, parts)) or str(location[0] if location else "body")
    return {"field": name, "problem": str(error["msg"])}


def _printable(part: object) -> str:
    return str(part)[:100].encode("utf-8", "replace").decode()
