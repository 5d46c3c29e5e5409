"""Memories of what stands in companies and profiles already, made as the domains of those names say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from recollect.brain.domains import build
from recollect.brain.models import Kind, NewMemory, Owner, Saved, UnknownOwner
from recollect.brain.service import Brain
from recollect.brain.store import queries
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import InvalidInput
from recollect.kit.logs import logger

log = logger("brain")

PAGE = 200
REASON = "Loaded from existing data."

Row = Mapping[str, Any]
Progress = Callable[[int, int, Mapping[str, Any]], Awaitable[None]]
"""Told how many are done, of how many, and where to go on after a crash."""

ROWS: dict[Kind, Query] = {"company": queries.companies_to_load, "user": queries.users_to_load}
COUNTS: dict[Kind, Query] = {"company": queries.count_companies, "user": queries.count_users}


@dataclass
class Loaded:
    """How far the loading of all has come."""

    after: str | None = None
    loaded: int = 0
    failed: int = 0
    created: int = 0

    @property
    def done(self) -> int:
        return self.loaded + self.failed

    def result(self, plural: str) -> dict[str, int]:
        return {
            f"total_{plural}": self.done,
            f"loaded_{plural}": self.loaded,
            f"failed_{plural}": self.failed,
            "total_memories_created": self.created,
        }


class Loading:
    def __init__(self, tenancy: Tenancy, brain: Brain, language: str) -> None:
        self._tenancy = tenancy
        self._brain = brain
        self._language = language

    async def load_company_memories(self, company_id: UUID) -> Saved:
        """Make memories of what is in a company's row."""
        return await self._load(Owner("company", company_id))

    async def load_user_memories(self, user_id: UUID) -> Saved:
        """Make memories of what is in a user's profile."""
        return await self._load(Owner("user", user_id))

    async def load_all_companies(
        self, progress: Progress, checkpoint: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """Make memories of every company's row; ``checkpoint`` is where an earlier attempt was."""
        return (await self._load_all("company", progress, checkpoint)).result("companies")

    async def load_all_users(
        self, progress: Progress, checkpoint: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """Make memories of every user's profile; ``checkpoint`` is where an earlier attempt was."""
        return (await self._load_all("user", progress, checkpoint)).result("users")

    async def _load(self, owner: Owner) -> Saved:
        rows = await self._rows(owner.kind, only=owner.id)
        if not rows:
            raise UnknownOwner(f"There is no {owner.kind} {owner.id}.")
        [saved] = await self._save([(owner, self._memories(owner.kind, rows[0]))])
        return saved

    async def _load_all(self, kind: Kind, progress: Progress, checkpoint: Mapping[str, Any] | None) -> Loaded:
        so_far = Loaded(**checkpoint or {})
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            total = (await tx.one(COUNTS[kind], last=True))["count"]
        while rows := await self._rows(kind, after=so_far.after):
            await self._load_page(kind, rows, so_far)
            await progress(so_far.done, max(total, so_far.done), asdict(so_far))
        return so_far

    async def _load_page(self, kind: Kind, rows: Sequence[Row], so_far: Loaded) -> None:
        batch, errors = [], {}
        for row in rows:
            try:
                batch.append((Owner(kind, row["id"]), self._memories(kind, row)))
            except InvalidInput as error:
                errors[row["id"]] = error.detail
        for (owner, _), saved in zip(batch, await self._save(batch), strict=True):
            so_far.created += saved.created
            if not saved.success:
                errors[owner.id] = "; ".join(saved.errors)
        so_far.failed += len(errors)
        so_far.loaded += len(rows) - len(errors)
        so_far.after = str(rows[-1]["id"])
        for first, reason in list(errors.items())[:1]:
            log.warning("memories not loaded", kind=kind, failed=len(errors), first=str(first), reason=reason)

    async def _rows(self, kind: Kind, *, only: UUID | None = None, after: str | None = None) -> Sequence[Row]:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return await tx.all(ROWS[kind], {"only": only, "after": after, "limit": PAGE}, last=True)

    def _memories(self, kind: Kind, row: Row) -> list[NewMemory]:
        fields = {name: value for name, value in row.items() if name != "id"}
        return [
            NewMemory(slug=built.slug, content=built.content, category=built.category)
            for built in build(kind, fields, language=self._language)
        ]

    async def _save(self, batch: Sequence[tuple[Owner, Sequence[NewMemory]]]) -> list[Saved]:
        """In the order of the batch. Of whom there is nothing to say, nobody is asked."""
        telling = [each for each in batch if each[1]]
        told = iter(await self._brain.save_for_many(self._tenancy, telling, reason=REASON) if telling else ())
        return [next(told) if memories else Saved(success=True) for _, memories in batch]
