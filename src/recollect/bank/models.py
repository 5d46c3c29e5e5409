"""The nouns of the bank. Fields are camelCase in JSON, as its applications expect."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from recollect.errors import InvalidInput
from recollect.kit.text import NumberOnly, Text, compact_json

DEFAULT_NAMESPACE = "default"
MAX_VALUE_BYTES = 10_240
MAX_KEPT = 1_000

Namespace = Annotated[Text, StringConstraints(min_length=1, max_length=256)]
Key = Annotated[Text, StringConstraints(min_length=1, max_length=256)]


class ValueTooLarge(InvalidInput):
    """A value may be at most 10 KB of serialised JSON; keep big things elsewhere and store a link."""

    code = "value_too_large"


def serialised(value: Any) -> str:
    """The value as compact JSON text, or an error that says why it cannot be stored."""
    text = compact_json(value)
    size = len(text.encode())
    if size > MAX_VALUE_BYTES:
        raise ValueTooLarge(f"{ValueTooLarge.title()} This one has {size:,} bytes.")
    return text


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Entry(Model):
    """One value under its key."""

    id: UUID
    user_id: UUID
    namespace: str
    key: str
    value: Any
    created_at: datetime
    updated_at: datetime


class NamespaceSummary(Model):
    """A namespace in use."""

    namespace: str
    entries: int
    updated_at: datetime


class Put(Model):
    """Create or replace the value under a key."""

    key: Key
    value: Any = Field(description="Any JSON, at most 10 KB serialised.")
    namespace: Namespace = DEFAULT_NAMESPACE


class Append(Model):
    """Add to the list under a key, keeping only its last entries."""

    key: Key
    item: Any = Field(description="Any JSON; becomes the last entry.")
    keep: Annotated[int, Field(ge=1, le=MAX_KEPT), NumberOnly] = 10
    namespace: Namespace = DEFAULT_NAMESPACE
