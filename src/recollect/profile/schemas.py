"""What a profile's document looks like, and how one form of it becomes the next.

A deployment with a form of its own writes a pydantic model, makes a ``Schema`` of it and names it in
RECOLLECT_PROFILE_SCHEMA ("package.module:NAME"). Fields that a model does not name are kept where it allows
them, so ``extra="allow"`` is the friendly choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.errors import InvalidInput, Misconfigured
from recollect.kit.text import NumberOnly
from recollect.profile import patch
from recollect.profile.deriving import derive
from recollect.profile.models import Activity

Document = dict[str, Any]
Derive = Callable[[Document, Sequence[Activity], datetime], Document]
Migration = Callable[[Document], Document]

SHOWN_PROBLEMS = 5


class DoesNotFit(InvalidInput):
    """The document does not fit the profile's schema."""

    code = "does_not_fit"


# A whole number stays one: a document is stored as it came.
Score = Annotated[int | float, Field(ge=0, le=1), NumberOnly]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Goal(Open):
    goal: str


class Part(Open):
    """A part of the person."""

    name: str
    status: str = "active"
    recency_score: Score | None = None
    influence_score: Score | None = None
    goals: list[Goal] = Field(default_factory=list)


class TriggerAndGoal(Open):
    trigger: str
    desired_outcome: str | None = None
    related_parts: list[str] = Field(default_factory=list)


class State(Open):
    """A user's state. ``version`` is the version of the stored row; ``schema_version`` that of this form."""

    version: Annotated[int, Field(ge=0), NumberOnly]
    schema_version: Annotated[int, Field(ge=1), NumberOnly] = 1
    last_updated_by: str
    summary: str = ""
    parts: dict[str, Part] = Field(default_factory=dict)
    triggers_and_goals: list[TriggerAndGoal] = Field(default_factory=list)
    safety_notes: str = ""


@dataclass(frozen=True)
class Schema:
    """A form of document. ``migrations`` leads from each earlier version to the next: a JSON Patch, or a
    function where it depends on what is in the document; what is stored is a patch either way."""

    model: type[BaseModel]
    version: int
    empty: Mapping[str, Any]
    migrations: Mapping[int, Sequence[Mapping[str, Any]] | Migration] = field(default_factory=dict)
    derive: Derive | None = None
    """How it is brought up to date without a model; none: it is not."""

    def check(self, document: Document) -> Document:
        """The document itself, if it fits."""
        try:
            self.model.model_validate(document)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            told = [
                f"/{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:SHOWN_PROBLEMS]
            ]
            raise DoesNotFit(f"{DoesNotFit.title()} {'; '.join(told)}.") from error
        return document

    def is_behind(self, document: Mapping[str, Any]) -> bool:
        return self.version_of(document) < self.version

    def migrated(self, document: Document) -> Document:
        """The document in the present form."""
        while (at := self.version_of(document)) < self.version:
            step = self.migrations.get(at)
            if step is None:
                raise Misconfigured(f"The profile's schema says no way from version {at} to {at + 1}.")
            made = step(document) if callable(step) else patch.apply(document, [dict(each) for each in step])
            document = {**made, "schema_version": at + 1}
        return document

    @staticmethod
    def version_of(document: Mapping[str, Any]) -> int:
        said = document.get("schema_version", 1)
        return said if isinstance(said, int) else 1


STATE = Schema(
    model=State,
    version=1,
    empty={
        "version": 0,
        "last_updated_by": "system",
        "summary": "",
        "parts": {},
        "triggers_and_goals": [],
        "safety_notes": "",
    },
    derive=derive,
)
