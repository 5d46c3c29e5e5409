"""The nouns of chat histories."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.errors import NotFound
from recollect.rules.chats.models import Chat, Kind, Role

Decides = Literal["author", "workspace"]


class UnknownChat(NotFound):
    """There is no such chat."""

    code = "unknown_chat"


class Imported(BaseModel):
    """What became of chats that were given."""

    chats: Annotated[int, Field(description="How many got turns.")] = 0
    turns: int = 0
    known_turns: Annotated[int, Field(description="Turns that were here already.")] = 0
    masked: Annotated[dict[str, int], Field(description="Secrets that were masked, by kind.")] = {}
    ids: Annotated[
        list[UUID | None],
        Field(description="Of each chat, in the order given; none: it says nothing that another has not."),
    ] = []

    # The sessions that got turns: a very long one comes in parts, and is one.
    grown: Annotated[set[tuple[str, str]], Field(exclude=True)] = set()

    def add(self, other: Imported) -> None:
        """Count the other's in."""
        self.grown = self.grown | other.grown
        self.chats = len(self.grown)
        self.turns += other.turns
        self.known_turns += other.known_turns
        self.masked = dict(Counter(self.masked) + Counter(other.masked))
        self.ids = [*self.ids, *other.ids]


class History(BaseModel):
    """A chat as it is kept."""

    id: UUID
    workspace_id: UUID | None
    project_id: UUID | None
    source: Annotated[str, Field(description="What wrote it: claude-code, codex, cursor, api and so on.")]
    file: str | None
    session: str
    project: Annotated[str | None, Field(description="The folder or repository that it was about.")]
    author: str | None
    title: str | None
    started_at: datetime | None
    imported_at: Annotated[datetime, Field(description="When it last got turns.")]
    turns: Annotated[int, Field(description="How many are kept.")]


class HistoryTurn(BaseModel):
    """What was said in a chat."""

    id: UUID
    number: int
    role: Role
    kind: Kind
    text: str
    doing: Annotated[str, Field(description="What the assistant had just done.")]
    language: str | None
    masked: Annotated[list[str], Field(description="Kinds of secrets that were masked.")]
    said_at: datetime | None


class Consent(BaseModel):
    """Whether rules may be learnt from somebody's chats."""

    workspace_id: Annotated[
        UUID | None, Field(description="For chats in this workspace; none: for one's own.")
    ]
    granted: bool
    how: Annotated[str, Field(description="Where it was said.")]
    created_at: datetime


class RuleSettings(BaseModel):
    """Whose agreement it takes to learn rules from the chats of a workspace."""

    consent: Annotated[
        Decides,
        Field(description="Each author's own, or the workspace's, which then has asked its people itself."),
    ] = "author"


@dataclass(frozen=True, slots=True)
class Stored:
    """A chat, or a part of a very long one, as it was read, and its rows."""

    id: UUID
    chat: Chat
    turn_ids: dict[int, UUID]
    # Numbers of turns that no extraction has read.
    new: frozenset[int]
