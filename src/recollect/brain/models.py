"""The nouns of the brain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from recollect.engine.models import MAX_TEXT, Entities, Tenant, check_metadata
from recollect.errors import Conflict, InvalidInput, NotFound, RecollectError, Unavailable
from recollect.kit.text import Text, of_form

# Clients and the command line know these nouns too, and need not load the database's driver for them.
if TYPE_CHECKING:
    from recollect.access.identifiers import Identifiers
    from recollect.db.tenancy import Transaction

Kind = Literal["user", "company"]
Slug = Annotated[Text, *of_form(r"^[a-z0-9_]{1,255}$", "a-z, 0-9 and _ alone, at most 255 of them")]
Category = Annotated[Text, StringConstraints(min_length=1, max_length=255)]
# Stripped before it is measured, and then held to what every text is.
Content = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT), *get_args(Text)[1:]
]

# How the engine knows what the brain keeps: a sole trader and their company may have the same number.
APPS: dict[Kind, str] = {"user": "user_brain", "company": "company_brain"}


class UnknownFact(NotFound):
    """Nothing is known under that slug."""

    code = "unknown_slug"


class UnknownOwner(NotFound):
    """There is no such user or company."""

    code = "unknown_owner"


class NotSaved(Unavailable):
    """The engine has not taken it; try again in a moment."""

    code = "fact_not_saved"


class ChangedSince(Conflict):
    """Something has changed it since; look at its history again."""

    code = "changed_since"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom facts are about."""

    kind: Kind
    id: UUID

    @property
    def tenant(self) -> Tenant:
        return Tenant.of_company(self.id) if self.kind == "company" else Tenant(self.id)

    @property
    def app(self) -> str:
        return APPS[self.kind]

    @property
    def parameters(self) -> dict[str, Any]:
        return {"kind": self.kind, "owner": self.id}

    def entities(self, identifiers: Identifiers, identifier: str | None) -> Entities:
        """How the engine knows them: by their number, and as what they are."""
        return Entities(user=identifiers.entity_id(identifier, self.id), app=self.app)


class NewMemory(BaseModel):
    """A fact to be kept under a slug."""

    model_config = ConfigDict(extra="forbid")

    slug: Slug
    content: Content
    category: Category | None = None
    extra_metadata: dict[str, Any] = Field(
        default_factory=dict, description="Whatever else belongs to it; as small as it can be."
    )

    @property
    def described(self) -> dict[str, Any]:
        """What stands beside the content in the row; the engine has the slug besides."""
        own = {name: value for name, value in self.extra_metadata.items() if name not in {"slug", "category"}}
        return own if self.category is None else {**own, "category": self.category}


@dataclass(frozen=True, slots=True)
class Known:
    """What stands in a row: its memory, its content and what describes it."""

    memory_id: str
    content: str
    extra_metadata: Mapping[str, Any]

    def says(self, wanted: NewMemory) -> bool:
        return (self.content, self.extra_metadata) == (wanted.content, wanted.described)


class Fact(BaseModel):
    """What is known under a slug."""

    id: UUID
    slug: str
    content: str
    category: str | None = None
    extra_metadata: dict[str, Any] = {}
    memory_id: str
    created_at: datetime
    updated_at: datetime


class FoundFact(Fact):
    """What a search found, best first, with its score from 0 to 1."""

    score: float


class FactChange(BaseModel):
    """An entry of a fact's history."""

    id: int
    slug: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    before: str | None
    after: str | None
    metadata_before: dict[str, Any] | None
    metadata_after: dict[str, Any] | None
    actor: UUID | None
    reason: str | None
    made_at: datetime


class Saved(BaseModel):
    """What became of a call to save, as its applications expect it."""

    success: bool
    saved_count: int = 0
    failed_count: int = 0
    errors: list[str] = []
    created: Annotated[int, Field(exclude=True)] = 0
    failed: Annotated[dict[str, str], Field(exclude=True, description="Why not, by slug.")] = {}


class Planned(BaseModel):
    """What saving would do to one slug."""

    slug: str
    change: Literal["create", "update", "unchanged", "refused"]
    before: str | None = None
    after: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one fact on its way into row and engine."""

    slug: str
    is_new: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Saving:
    """What is to be saved for one owner. The engine knows them by ``entities``."""

    owner: Owner
    entities: Entities
    memories: Sequence[NewMemory]
    known: Mapping[str, Known]
    reason: str | None = None
    again: bool = False
    """Whether it is what the rows say already: their memories are lost, or say something else."""

    @property
    def slugs(self) -> list[str]:
        return [wanted.slug for wanted in self.memories]

    @property
    def changed(self) -> list[NewMemory]:
        """Those that the engine has to be told."""
        return [wanted for wanted in self.memories if self._says(wanted) == self.again]

    def _says(self, wanted: NewMemory) -> bool:
        before = self.known.get(wanted.slug)
        return before is not None and before.says(wanted)

    def failed(self, error: RecollectError) -> list[Outcome]:
        return [Outcome(slug, error=error.detail) for slug in self.slugs]


@dataclass
class Mended:
    """What a reconciliation found and did."""

    checked: int = 0
    recreated: int = 0
    adopted: int = 0
    updated: int = 0
    removed: int = 0
    failed: int = 0

    @property
    def counts(self) -> dict[str, int]:
        return dict(vars(self))


class Mirror(Protocol):
    """How rows and the engine's memories are kept in step."""

    async def save(self, tx: Transaction, savings: Sequence[Saving]) -> list[list[Outcome]]:
        """Save what has changed, for each owner apart. Nothing is held in ``tx`` any more."""
        ...

    async def delete(
        self, tx: Transaction, owner: Owner, slugs: Sequence[str], reason: str | None
    ) -> list[str]:
        """Forget facts and their memories; says which there were."""
        ...

    async def reconcile(self, mended: Mended, only: Owner | None = None) -> None:
        """Find rows without memories and memories without rows, and mend them."""
        ...

    async def settle(self, mended: Mended) -> None:
        """Mend what is known to have been left half done."""
        ...

    async def follow(self, memory_id: str, mended: Mended) -> None:
        """Have the row say what the memory does, after somebody else has changed it."""
        ...


_memory: TypeAdapter[NewMemory] = TypeAdapter(NewMemory)


def checked_memory(given: object) -> NewMemory:
    """A memory that can be saved, or an error that says in words what is wrong with it."""
    try:
        memory = given if isinstance(given, NewMemory) else _memory.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "a memory"
        raise InvalidInput(f"{field}: {first['msg'].removesuffix('.')}.") from None
    check_metadata(memory.extra_metadata)
    return memory


def slug_of(given: object) -> str:
    """What to call a memory in an error, whatever it is."""
    slug = given.get("slug") if isinstance(given, Mapping) else getattr(given, "slug", None)
    said = slug if isinstance(slug, str) and slug else "(without a slug)"
    return said if len(said) <= 80 else f"{said[:80]}..."
