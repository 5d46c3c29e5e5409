"""The nouns of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.errors import InvalidInput

# What Recollect tells. A pattern such as "bank.*" stands for all that begin so.
TYPES = (
    "access.changed",
    "bank.changed",
    "brain.changed",
    "brain.proposed",
    "chat.imported",
    "job.failed",
    "memory.added",
    "memory.deleted",
    "memory.updated",
    "profile.updated",
    "rule.approved",
    "rule.extracted",
    "rule.rejected",
    "user.updated",
    "webhook.changed",
    "webhook.disabled",
    "webhook.test",
)
FAMILIES = tuple(dict.fromkeys(f"{known.partition('.')[0]}.*" for known in TYPES))
PATTERNS = ("*", *FAMILIES, *TYPES)


def wanted_types(given: str | None) -> tuple[str, ...]:
    """Patterns out of a list with commas; none: all types."""
    types = tuple(each.strip() for each in (given or "").split(",") if each.strip())
    unknown = [each for each in types if each not in PATTERNS]
    if unknown:
        raise InvalidInput(f"types: {unknown[0][:100]} is unknown; there are {', '.join(PATTERNS)}.")
    return types or ("*",)


def matches(event_type: str, patterns: Sequence[str]) -> bool:
    """Whether a type is among those wanted: exact ones, families such as "bank.*", or "*"."""
    family = event_type.partition(".")[0]
    return any(pattern in {event_type, f"{family}.*", "*"} for pattern in patterns)


class Event(BaseModel):
    """Something that happened."""

    position: int = Field(description="Its place in the order of all events; grows, with gaps.")
    type: str = Field(examples=["bank.changed"])
    subject: str = Field(description="What changed. Events of one subject come in their order.")
    user_id: UUID | None
    workspace_id: UUID | None
    company_id: UUID | None
    actor: UUID | None = Field(description="Who did it; none: the service.")
    data: dict[str, Any]
    happened_at: datetime


@dataclass(frozen=True)
class Subscription:
    """Which task is queued when an event of one of these types has happened. Its argument ``event`` is the
    event; those of one subject are handled one after another."""

    types: Sequence[str]
    task: str
