"""The nouns: a question, what came back, and the record of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

Outcome = Literal[
    "running",
    "ok",
    "invalid",
    "truncated",
    "refused",
    "failed",
    "timed_out",
    "over_budget",
    "cancelled",
    "lost",
]

MAX_INPUT_BYTES = 100_000
"""Of instructions and prompt together: some 25,000 tokens of English, and never as many as 100,000, from
where models cost more by the token."""
DEFAULT_MAX_TOKENS = 8_192
"""Of an answer, with whatever the model thinks before it."""

# What a server adds around our words to make them a conversation.
_FRAME_TOKENS = 600


@dataclass(frozen=True)
class Question:
    """What is asked, and of which form the answer has to be. With ``wrong`` and ``complaint`` it is asked
    again: the answer that came, and what is the matter with it."""

    system: str
    prompt: str
    answer: type[BaseModel]
    schema: str
    max_tokens: int
    wrong: str = ""
    complaint: str = ""

    def again(self, wrong: str, complaint: str) -> Self:
        return replace(self, wrong=wrong, complaint=complaint)

    @property
    def most_input_tokens(self) -> int:
        # No tokenizer makes more than one token of a byte. That is far too many for prose, but it is only
        # set aside while the model is asked; a guess that can be too low would let the budget be exceeded.
        parts = (self.system, self.prompt, self.schema, self.wrong, self.complaint)
        return _FRAME_TOKENS + sum(len(part.encode()) for part in parts)

    @property
    def most_tokens(self) -> int:
        return self.most_input_tokens + self.max_tokens


@dataclass(frozen=True)
class Usage:
    """Tokens, as the model's server reports them."""

    input: int
    output: int


@dataclass(frozen=True)
class Reply:
    text: str
    usage: Usage | None
    ended: Literal["whole", "cut off", "refused"] = "whole"


class Call(BaseModel):
    """One question that was put to a model, as people see it."""

    id: UUID
    user_id: UUID | None = Field(description="Who asked; none: the service, or somebody who is gone.")
    workspace_id: UUID | None
    acted_by: UUID | None = Field(description="The admin who acted for the user, if one did.")
    purpose: str
    provider: str
    model: str
    outcome: Outcome
    attempts: int = Field(description="How often it was sent.")
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None = Field(description="None where the price is not known.")
    error: str | None
    started_at: datetime
    took_ms: int | None


class UseToday(BaseModel):
    """What was used since midnight UTC."""

    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = Field(0, description="Of those calls whose price is known.")
    budget_tokens: int = Field(0, description="What counts for the budget, calls under way included.")


class ModelStatus(BaseModel):
    """Whether there is a model, and how much of it was used."""

    configured: bool
    name: str | None = Field(description="Where it runs and what it is called.")
    daily_tokens: Annotated[
        int | None, Field(description="For each user and each workspace; none: no limit.")
    ]
    today: UseToday
