"""The nouns of what clients of mem0 ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from recollect.engine.models import Change
from recollect.errors import NotFound
from recollect.jobs.models import State

RequestKind = Literal["ADD", "DELETE"]


class UnknownRequest(NotFound):
    """There is no such event, or it was too long ago."""

    code = "unknown_event"


class UnknownExport(NotFound):
    """There is no such export; create one with these filters first."""

    code = "unknown_export"


class UnknownProject(NotFound):
    """There is no such project among yours."""

    code = "unknown_project"


@dataclass(frozen=True)
class Account:
    """Who is calling: to mem0's clients an organisation, whose projects are the caller's workspaces."""

    user_id: UUID
    project_id: UUID
    email: str | None


@dataclass(frozen=True)
class Touched:
    """A memory that a request has touched, with what it says now; None if it is gone."""

    id: UUID
    event: str
    text: str | None

    @classmethod
    def by(cls, change: Change) -> Touched:
        return cls(change.id, change.event, change.text)


@dataclass(frozen=True)
class Request:
    """Something asked for, and how far it is."""

    id: UUID
    kind: RequestKind
    state: State
    results: Sequence[Touched]
    not_understood: int
    error: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True)
class Answered:
    """What a request to add is answered with. ``results`` is None while a job still has it to do."""

    id: UUID
    results: Sequence[Touched] | None
    not_understood: Sequence[str] = ()


@dataclass(frozen=True)
class Wishes:
    """What a project wants of memories that are added to it."""

    custom_instructions: str | None = None
    agent_custom_instructions: str | None = None
    custom_categories: Sequence[Mapping[str, Any] | str] | None = None
