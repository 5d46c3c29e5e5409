"""What the endpoints of memories take. The command line reads what was typed with the same models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from recollect.access.models import Model, Moment
from recollect.engine.filters import InvalidFilter
from recollect.engine.models import (
    MAX_FOUND,
    MAX_MESSAGES,
    MAX_TEXT,
    Addition,
    Entities,
    EntityName,
    Feedback,
    Message,
    Reason,
    Wanted,
    Where,
)
from recollect.kit.text import InvalidJson, NumberOnly, Text, of_form, strict_json

_SAYS_SOMETHING = r"^[^\x00]*\S[^\x00]*$"

# How long it may be is for the engine to say, under a code of its own; the description says it here.
Said = Annotated[
    Text,
    *of_form(_SAYS_SOMETHING, "say something; blanks alone are nothing to remember"),
    Field(json_schema_extra={"maxLength": MAX_TEXT, "pattern": _SAYS_SOMETHING}),
]
Query = Annotated[
    Text, StringConstraints(max_length=10_000), *of_form(_SAYS_SOMETHING, "say what to look for")
]
Category = Annotated[Text, StringConstraints(min_length=1, max_length=100)]
Filters = Annotated[
    dict[str, Any],
    Field(
        description="Conditions on metadata and on the memory itself, with AND, OR, NOT and operators.",
        examples=[{"AND": [{"category": "food"}, {"stars": {"gte": 4}}]}],
    ),
]
# Postgres keeps four bytes of these, and refuses what is nearly nothing.
_Kept = AfterValidator(lambda given: round(given, 6))
Share = Annotated[float, Field(ge=0, le=1, strict=True), _Kept]
Weight = Annotated[float, Field(ge=0, le=10, strict=True), _Kept]
HalfLife = Annotated[float, Field(ge=0.01, le=36_500, strict=True)]
TrueOrFalse = Annotated[bool, Field(strict=True)]


def _given(**fields: str) -> list[Any]:
    """For a schema: that a field is there and of this type, for each of these fields."""
    return [{"required": [name], "properties": {name: {"type": type_}}} for name, type_ in fields.items()]


_NAMED: dict[str, Any] = {"anyOf": _given(user="string", agent="string", app="string", run="string")}


class About(Model):
    """Whom memories are about, as the application calls them."""

    user: EntityName | None = None
    agent: EntityName | None = None
    app: EntityName | None = None
    run: Annotated[
        EntityName | None, Field(description="A conversation or a task; its turns are neighbours.")
    ] = None

    @property
    def entities(self) -> Entities:
        return Entities(self.user, self.agent, self.app, self.run)


class Turn(Message):
    """One turn of a conversation. Parts of its content that are not text, such as images, are left out."""

    content: Annotated[
        Text | list[dict[str, Any]] | None,
        Field(description='Text, or parts such as {"type": "text", "text": "..."}.'),
    ]


class NewMemory(About):
    """Something to remember: a text, or messages; and whom it is about."""

    model_config = ConfigDict(
        json_schema_extra={"allOf": [{"oneOf": _given(text="string", messages="array")}, _NAMED]}
    )

    text: Said | None = None
    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    workspace: Annotated[UUID | None, Field(description="Whose it is to be; none: the caller's own.")] = None
    metadata: Annotated[dict[str, Any], Field(default_factory=dict)]
    categories: Annotated[list[Category], Field(default_factory=list, max_length=50)]
    importance: Share | None = None
    infer: Annotated[
        TrueOrFalse, Field(description="Distil facts; false: keep what was said, turn by turn.")
    ] = True
    expires_at: Moment | None = None
    occurred_at: Annotated[Moment | None, Field(description="When it was said, if not now.")] = None
    reason: Reason | None = None

    @property
    def addition(self) -> Addition:
        return Addition(
            messages=self._turns,
            entities=self.entities,
            workspace=self.workspace,
            metadata=self.metadata,
            categories=self.categories,
            importance=self.importance,
            infer=self.infer,
            expires_at=self.expires_at,
            occurred_at=self.occurred_at,
            reason=self.reason,
        )

    @property
    def _turns(self) -> Sequence[Message]:
        return [Message(content=self.text)] if self.messages is None else self.messages

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.messages is None):
            raise ValueError("give either text or messages")
        return self


class Sought(About):
    """What to look for, and among which memories."""

    query: Query
    workspace: Annotated[UUID | None, Field(description="Look there; none: among the caller's own.")] = None
    filters: Filters | None = None
    expired: Annotated[TrueOrFalse, Field(description="Also what has expired.")] = False
    superseded: Annotated[TrueOrFalse, Field(description="Also what newer facts have replaced.")] = False
    threshold: Annotated[Share, Field(description="Only what scores at least this much.")] = 0.0
    recency: Annotated[
        Weight, Field(description="What being new counts, beside the words' 1; it halves with age.")
    ] = 0.0
    half_life_days: HalfLife = 30.0
    importance: Annotated[Weight, Field(description="What importance counts, beside the words' 1.")] = 0.0

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            query=self.query,
            where=Where(self.entities, self.workspace, self.filters, self.expired, self.superseded),
            threshold=self.threshold,
            recency=self.recency,
            half_life=timedelta(days=self.half_life_days),
            importance=self.importance,
            **self._more,
        )

    @property
    def _more(self) -> dict[str, Any]:
        return {}


class Search(Sought):
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND), NumberOnly] = 10
    explain: Annotated[TrueOrFalse, Field(description="Say what each score is made of.")] = False

    @property
    def _more(self) -> dict[str, Any]:
        return {"limit": self.limit, "explain": self.explain}


class WantedContext(Sought):
    budget_tokens: Annotated[
        int, Field(ge=1, le=1_000_000, description="The text takes no more than this."), NumberOnly
    ] = 1_000


class MemoryChange(Model):
    """What is left out or null stays as it is; but an ``expires_at`` of null takes the expiry away."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                *_given(text="string", metadata="object", occurred_at="string"),
                {"required": ["expires_at"]},
            ]
        }
    )

    text: Said | None = None
    metadata: Annotated[dict[str, Any] | None, Field(description="In place of all that there was.")] = None
    expires_at: Moment | None = None
    occurred_at: Annotated[Moment | None, Field(description="When it was said.")] = None
    reason: Reason | None = None

    @property
    def changes(self) -> dict[str, Any]:
        keeps_expiry = "expires_at" not in self.model_fields_set
        return {
            "text": self.text,
            "metadata": self.metadata,
            "expires_at": "keep" if keeps_expiry else self.expires_at,
            "occurred_at": self.occurred_at,
            "reason": self.reason,
        }


class NewFeedback(Model):
    """Whether a memory was any good; null takes back what was said before."""

    feedback: Feedback | None
    reason: Reason | None = None


class Because(Model):
    reason: Reason | None = None


def read_filters(given: str | None) -> Mapping[str, Any] | None:
    """Filters out of JSON text."""
    if given is None:
        return None
    try:
        filters: Mapping[str, Any] = strict_json(given.encode())
    except InvalidJson as error:
        raise InvalidFilter(f"filters: {error.detail.replace('The body', 'The text')}") from error
    return filters
