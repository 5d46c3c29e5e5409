"""The nouns of the profile."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Activity(BaseModel):
    """Something that a user did: what was said or written, and what the application knows about it."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["session", "message", "insight", "note"]
    content: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    happened_at: AwareDatetime
