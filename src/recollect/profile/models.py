"""The nouns of the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from recollect.access.models import Moment
from recollect.errors import Conflict, InvalidInput, NotFound, RecollectError
from recollect.kit.text import Text

MAX_CONTENT = 20_000
MAX_ACTIVITIES = 1_000

Document = dict[str, Any]
Patch = list[dict[str, Any]]
Origin = Literal["edit", "update", "restore", "undo", "migration"]
ActivityKind = Literal["session", "message", "insight", "note"]
State = Literal["running", "updated", "unchanged", "failed"]
Reason = Annotated[Text, StringConstraints(max_length=2_000)]


class StaleVersion(Conflict):
    """The profile has moved on since that version."""

    code = "stale_version"


class AnotherVersion(StaleVersion):
    """The profile is not at the version that this was meant for."""

    status = 412


class NotAnObject(InvalidInput):
    """A profile is a JSON object."""


class UnknownVersion(NotFound):
    """The profile has no such version."""

    code = "unknown_version"


class UnknownActivity(NotFound):
    """There is no such activity."""

    code = "unknown_activity"


class DamagedHistory(RecollectError):
    """The stored history of this profile is damaged."""

    code, status = "damaged_history", 500


class UpdateRefused(Conflict):
    """What was to become of the profile was refused, and it stays as it is."""

    code = "update_refused"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A profile at one version."""

    version: int
    document: Document
    created_at: datetime | None
    """None: nothing has been stored yet."""


class Version(BaseModel):
    """One version of a profile: what changed, when, by whom and why."""

    version: int
    created_at: datetime
    actor: UUID | None = Field(description="Who wrote it; none: the service.")
    origin: Origin
    source_description: str | None = Field(description="Why it changed.")
    is_full_snapshot: bool = Field(description="Whether the whole document is stored with it.")
    patch: Patch


class Difference(BaseModel):
    """What lies between two versions."""

    from_version: int
    to_version: int
    patch: Patch
    text: list[str] = Field(description="The same, for people: one line for each change.")


class Blame(BaseModel):
    """Which version last changed what a path leads to."""

    path: str
    version: int
    created_at: datetime
    actor: UUID | None
    origin: Origin
    source_description: str | None


class Verified(BaseModel):
    """What became of checking a whole history."""

    versions: int
    checkpoints: int
    damage: list[str] = Field(description="What is wrong, each with its version; none: all is well.")


class Activity(BaseModel):
    """Something that a user did, said or noted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ActivityKind
    content: Annotated[Text, StringConstraints(max_length=MAX_CONTENT)] = Field(
        "", description="What was said or written."
    )
    data: dict[str, Any] = Field(
        default_factory=dict,
        description='What the application adds, such as {"part": "inner_critic"} or {"goal": "..."}.',
    )
    happened_at: Moment


class NewActivity(BaseModel):
    """Something to record."""

    model_config = ConfigDict(extra="forbid")

    kind: ActivityKind
    content: Annotated[Text, StringConstraints(max_length=MAX_CONTENT)] = ""
    data: dict[str, Any] = Field(default_factory=dict)
    happened_at: Moment | None = None
    external_id: Annotated[Text, StringConstraints(min_length=1, max_length=255)] | None = Field(
        None, description="As the application calls it: recorded again under it, it is there once."
    )


class RecordedActivity(Activity):
    id: UUID
    external_id: str | None
    recorded_at: datetime
    considered_in: UUID | None = Field(description="The update that took it into account; none yet.")


class Recorded(BaseModel):
    """How many activities are new; the others were there."""

    recorded: int
    known: int


class Update(BaseModel):
    """A run that brought a profile up to date, or tried to."""

    id: UUID
    user_id: UUID
    state: State
    period: datetime | None = Field(
        description="The period in which the user is updated once; none: on demand."
    )
    made_by: str | None = Field(description='The model, or "rules" where there is none.')
    prompt_version: int | None
    activities: int
    left_out: int = Field(description="Activities that did not fit into what the model is shown.")
    from_version: int | None
    to_version: int | None
    input_tokens: int
    output_tokens: int
    error: str | None
    started_at: datetime
    ended_at: datetime | None


class Prompt(BaseModel):
    """What a model is told before it updates a profile."""

    version: int
    prompt_text: str
    description: str | None
    is_active: bool
    created_by: UUID | None
    created_at: datetime


@dataclass(frozen=True)
class Gathered:
    """What has happened since the last update."""

    activities: Sequence[Activity]
    considered: Sequence[UUID]
    """Which of our own records are among them."""
    events_upto: int


@dataclass(frozen=True)
class Proposed:
    """What an update would make of a profile: nothing is stored yet."""

    base: Snapshot
    document: Document
    patch: Patch
    made_by: str
    prompt_version: int | None
    gathered: Gathered
    left_out: int = 0
