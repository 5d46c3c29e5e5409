"""Jobs as the client sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel


class FailedAttempt(BaseModel):
    attempt: int
    started_at: datetime | None
    ended_at: datetime
    error: str


class Job(BaseModel):
    """Work that the server does beside requests: how far it is, how it ended."""

    id: UUID
    task: str
    state: str
    """waiting, running, succeeded, failed or cancelled."""
    user_id: UUID | None
    workspace_id: UUID | None
    asked_by: UUID | None
    origin: str
    arguments: dict[str, Any]
    attempt: int
    done: int
    total: int | None
    result: dict[str, Any] | None
    error: str | None
    failures: list[FailedAttempt]
    created_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def has_ended(self) -> bool:
        return self.state not in {"waiting", "running"}
