"""The nouns of the memory engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from recollect.access.models import Moment
from recollect.errors import InvalidInput, NotFound
from recollect.kit.text import Text, check_json

if TYPE_CHECKING:
    from recollect.db.tenancy import Tenancy, Transaction

MAX_TEXT = 50_000
MAX_MESSAGES = 1_000
MAX_FOUND = 1_000
MAX_METADATA_BYTES = 65_536
MAX_NAMES = 1_500

Event = Literal["ADD", "UPDATE", "DELETE", "SUPERSEDE", "FEEDBACK", "RESTORE", "NONE"]
Feedback = Literal["POSITIVE", "NEGATIVE", "VERY_NEGATIVE"]
EntityName = Annotated[Text, StringConstraints(min_length=1, max_length=256)]
MemoryText = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Reason = Annotated[Text, StringConstraints(max_length=2_000)]


class NoEntity(InvalidInput):
    """Say whom it is about: at least one of user, agent, app and run."""

    code = "no_entity"


class TextTooLong(InvalidInput):
    """A memory has at most 50,000 characters; split it, and keep whole documents elsewhere."""

    code = "text_too_long"


class UnknownMemory(NotFound):
    """There is no such memory."""

    code = "unknown_memory"


@dataclass(frozen=True, slots=True)
class Entities:
    """Whom a memory is about, as the application calls them."""

    user: str | None = None
    agent: str | None = None
    app: str | None = None
    run: str | None = None

    def named(self) -> Entities:
        """These, or an error if there is none."""
        if not any((self.user, self.agent, self.app, self.run)):
            raise NoEntity
        if (
            sum(len((name or "").encode()) for name in (self.user, self.agent, self.app, self.run))
            > MAX_NAMES
        ):
            raise InvalidInput(f"user, agent, app and run: at most {MAX_NAMES:,} bytes together.")
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        return {"of_user": self.user, "of_agent": self.agent, "of_app": self.app, "of_run": self.run}


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose a memory is: a user's, a workspace's or a company's."""

    id: UUID
    workspace: UUID | None = None
    company: UUID | None = None

    @classmethod
    def of_company(cls, company: UUID) -> Tenant:
        return cls(company, company=company)

    @property
    def owner(self) -> UUID | None:
        return self.id if self.workspace is None and self.company is None else None


KEPT = "kept"
"""Who made a fact that somebody keeps under a key of their own: it is changed and forgotten by them alone."""


class Message(BaseModel):
    """One turn of a conversation. ``content`` is text; parts that are not (images) are left out."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[Text, StringConstraints(min_length=1, max_length=64)] = "user"
    content: Any
    name: Annotated[Text | None, StringConstraints(max_length=256)] = None
    occurred_at: Moment | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content.strip()
        parts = self.content if isinstance(self.content, list) else [self.content]
        said = [
            part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
        return "\n".join(said).strip()


Messages = str | Sequence[Message]


@dataclass(frozen=True)
class Addition:
    """What a call to add asks for."""

    messages: Sequence[Message]
    entities: Entities
    workspace: UUID | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    categories: Sequence[str] = ()
    importance: float | None = None
    infer: bool = True
    expires_at: datetime | None = None
    occurred_at: datetime | None = None
    instructions: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Update:
    """What is to change about a memory; the rest stays as it is."""

    memory_id: UUID
    text: str | None = None
    metadata: Mapping[str, Any] | None = None
    expires_at: datetime | Literal["keep"] | None = "keep"
    occurred_at: datetime | None = None


class Change(BaseModel):
    """What became of one turn or fact, or of a fact that a new one supersedes."""

    id: UUID
    text: str
    event: Event


class Added(BaseModel):
    """What an addition came to. ``made_by`` says who distilled the facts: a model, or "rules"."""

    results: list[Change]
    not_understood: list[str] = []
    made_by: str | None = None


class Memory(BaseModel):
    """Something remembered."""

    id: UUID
    text: str
    kind: Literal["turn", "fact"]
    user: str | None = None
    agent: str | None = None
    app: str | None = None
    run: str | None = None
    workspace: UUID | None = None
    company: UUID | None = None
    role: str | None = None
    speaker: str | None = None
    metadata: dict[str, Any] = {}
    categories: list[str] = []
    importance: float | None = None
    occurred_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: UUID | None = None
    deleted_at: datetime | None = None
    feedback: Feedback | None = None
    feedback_reason: str | None = None
    version: int = 1
    made_by: str | None = None


class Breakdown(BaseModel):
    """What a score is made of. ``lexical`` is the mean of the three by words: the turn alone, with one
    neighbour on each side, with two."""

    lexical: float
    turn: float | None = None
    window_of_three: float | None = None
    window_of_five: float | None = None
    meaning: float | None = None
    recency: float | None = None
    importance: float | None = None


class Found(Memory):
    """A memory that a search found, with its score from 0 to 1."""

    score: float
    breakdown: Breakdown | None = None


class Version(BaseModel):
    """One entry of a memory's history."""

    memory_id: UUID
    version: int
    event: Event
    text: str
    previous: str | None = None
    metadata: dict[str, Any] = {}
    actor: UUID | None = None
    reason: str | None = None
    made_at: datetime


class Link(BaseModel):
    """A fact that says nearly the same as another."""

    memory_id: UUID
    similarity: float


class EntityInUse(BaseModel):
    """Somebody whom memories are about."""

    type: Literal["user", "agent", "app", "run"]
    name: str
    memories: int
    first_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Where:
    """Which memories a call is about."""

    entities: Entities = Entities()
    workspace: UUID | None = None
    filters: Mapping[str, Any] | None = None
    expired: bool = False
    superseded: bool = False


@dataclass(frozen=True)
class Wanted:
    """What a search asks for. Recency and importance count for as much as they are given here; meaning
    counts for what the embedder in use has been measured to be worth."""

    query: str
    where: Where = Where()
    limit: int = 10
    threshold: float = 0.0
    explain: bool = False
    recency: float = 0.0
    half_life: timedelta = timedelta(days=30)
    importance: float = 0.0


class Context(BaseModel):
    """The best memories as text, within a budget."""

    text: str
    ids: list[UUID]
    tokens: int
    budget: int
    whole: Annotated[int, Field(description="Tokens of all memories in scope.")]
    saved: Annotated[int, Field(description="Tokens that the context spares against all of them.")]


class MemoryEngine(Protocol):
    """What every engine can do: the native one, mem0's library and mem0's platform. What mem0 cannot do is
    refused with NotSupported."""

    name: str

    async def add(self, tx: Transaction, wanted: Addition) -> Added: ...
    async def search(self, tx: Transaction, wanted: Wanted) -> list[Found]: ...
    async def context(self, tx: Transaction, wanted: Wanted, *, budget_tokens: int) -> Context: ...
    async def get(self, tx: Transaction, memory_id: UUID) -> Memory: ...
    async def list(
        self, tx: Transaction, where: Where, *, after: tuple[datetime, UUID] | None = None, limit: int = 100
    ) -> list[Memory]: ...
    async def count(self, tx: Transaction, where: Where) -> int: ...
    async def update(
        self,
        tx: Transaction,
        memory_id: UUID,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | Literal["keep"] | None = "keep",
        occurred_at: datetime | None = None,
        reason: str | None = None,
    ) -> Memory: ...
    async def update_many(
        self, tx: Transaction, wanted: Sequence[Update], *, reason: str | None = None
    ) -> Sequence[Memory]: ...
    async def delete(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> None: ...
    async def delete_many(
        self, tx: Transaction, memory_ids: Sequence[UUID], *, reason: str | None = None
    ) -> int: ...
    async def delete_all(self, tx: Transaction, where: Where, *, reason: str | None = None) -> int: ...
    async def restore(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> Memory: ...
    async def history(self, tx: Transaction, memory_id: UUID) -> Sequence[Version]: ...
    async def links(self, tx: Transaction, memory_id: UUID) -> Sequence[Link]: ...
    async def feedback(
        self, tx: Transaction, memory_id: UUID, feedback: Feedback | None, reason: str | None = None
    ) -> Memory: ...
    async def entities(
        self,
        tx: Transaction,
        workspace: UUID | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 100,
    ) -> Sequence[EntityInUse]: ...
    async def purge(self, tenancy: Tenancy) -> int: ...


def check_metadata(metadata: Any) -> None:
    check_json(metadata)
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > MAX_METADATA_BYTES:
        raise InvalidInput(f"metadata: at most {MAX_METADATA_BYTES // 1024} KB of JSON.")
