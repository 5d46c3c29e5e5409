"""What can be done with the brain; the only door to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal
from uuid import UUID

from recollect.access.identifiers import Identifiers
from recollect.brain.models import (
    ChangedSince,
    Fact,
    FactChange,
    FoundFact,
    Known,
    Mended,
    Mirror,
    NewMemory,
    NotSaved,
    Outcome,
    Owner,
    Planned,
    Saved,
    Saving,
    UnknownFact,
    UnknownOwner,
    checked_memory,
    slug_of,
)
from recollect.brain.store import OwnerFacts, fact_from, known_of, memory_in, queries
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.engine.mem0.models import Mem0NotConfigured
from recollect.engine.models import Entities, MemoryEngine, Wanted, Where
from recollect.errors import InvalidInput, NotAllowed, NotFound, NotSignedIn, RecollectError

PAGE = 1_000
# Facts in one transaction; more in a call are saved one such part after the other.
AT_ONCE = 1_000
MAX_MEMORIES = 100_000


class Brain:
    def __init__(
        self, engine: MemoryEngine, mirror: Mirror, identifiers: Identifiers, *, is_configured: bool
    ) -> None:
        self._engine = engine
        self._mirror = mirror
        self._identifiers = identifiers
        self._is_configured = is_configured

    async def save_company_memories(
        self, tx: Transaction, company_id: UUID, memories: Sequence[object], *, reason: str | None = None
    ) -> Saved:
        """Keep facts about a company, each under its slug."""
        return await self.save(tx, Owner("company", company_id), memories, reason=reason)

    async def save_user_memories(
        self, tx: Transaction, user_id: UUID, memories: Sequence[object], *, reason: str | None = None
    ) -> Saved:
        """Keep facts about a user, each under its slug."""
        return await self.save(tx, Owner("user", user_id), memories, reason=reason)

    async def save(
        self, tx: Transaction, owner: Owner, memories: Sequence[object], *, reason: str | None = None
    ) -> Saved:
        """Keep facts, each under its slug; what cannot be kept is counted and named, the others stay."""
        if len(memories) > MAX_MEMORIES:
            raise InvalidInput(f"memories: at most {MAX_MEMORIES:,} in one call.")
        if not self._is_configured:
            return _not_configured()
        valid, refused = _checked(memories)
        latest = _latest(valid)
        became: dict[str, Outcome] = {}
        for first in range(0, max(len(latest), 1), AT_ONCE):
            part = latest[first : first + AT_ONCE]
            outcomes: Sequence[Outcome] | None
            try:
                async with tx.still_open() as asking:
                    [outcomes] = await self._save(asking, {owner: part}, reason)
            except (NotFound, NotSignedIn, NotAllowed):
                raise
            except RecollectError as error:
                outcomes = _failed(part, error)
            if outcomes is None:
                raise UnknownOwner(f"There is no such {owner.kind}.")
            became |= {outcome.slug: outcome for outcome in outcomes}
        return _told(owner, [*refused, *(became[memory.slug] for memory in valid)])

    async def put(self, tx: Transaction, owner: Owner, memory: object, *, reason: str | None = None) -> Fact:
        """Keep one fact under its slug; an error if it cannot be kept."""
        wanted = checked_memory(memory)
        saved = await self.save(tx, owner, [wanted], reason=reason)
        if not saved.success:
            raise NotSaved(saved.errors[0])
        async with tx.still_open() as reading:
            return await self.get(reading, owner, wanted.slug)

    async def save_for_many(
        self,
        tenancy: Tenancy,
        batch: Sequence[tuple[Owner, Sequence[NewMemory]]],
        *,
        reason: str | None = None,
    ) -> list[Saved]:
        """Keep facts about many, as the service; what is saved of one does not hang on the others. Where the
        database or the embedder is away that is an error: trying again helps, and doubles nothing."""
        if not self._is_configured:
            return [_not_configured() for _ in batch]
        wanted = {owner: _latest(memories) for owner, memories in batch}
        async with tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            outcomes = await self._save(tx, wanted, reason)
        return [
            _told(owner, found if found is not None else _failed(wanted[owner], UnknownOwner()))
            for owner, found in zip(wanted, outcomes, strict=True)
        ]

    async def _save(
        self, tx: Transaction, wanted: Mapping[Owner, Sequence[NewMemory]], reason: str | None
    ) -> list[Sequence[Outcome] | None]:
        """What became of each fact, by owner; None for one that there is not."""
        slugs = [memory.slug for memories in wanted.values() for memory in memories]
        facts = await known_of(tx, list(wanted), slugs)
        # Nothing is held while the engine works, which can take another server.
        await tx.finish()
        savings = {
            owner: Saving(owner, self._entities(owner, facts[owner]), memories, facts[owner].known, reason)
            for owner, memories in wanted.items()
            if owner in facts
        }
        saved = dict(zip(savings, await self._mirror.save(tx, list(savings.values())), strict=True))
        return [saved.get(owner) for owner in wanted]

    async def plan(self, tx: Transaction, owner: Owner, memories: Sequence[object]) -> list[Planned]:
        """What saving these would change, without changing it."""
        valid, refused = _checked(memories)
        latest = _latest(valid)
        facts = (await known_of(tx, [owner], [memory.slug for memory in latest])).get(owner)
        if facts is None:
            raise UnknownOwner(f"There is no such {owner.kind}.")
        planned = [_planned(memory, facts.known.get(memory.slug)) for memory in latest]
        return planned + [Planned(slug=each.slug, change="refused", error=each.error) for each in refused]

    async def get(self, tx: Transaction, owner: Owner, slug: str) -> Fact:
        """What is known under a slug; an error if nothing is."""
        row = await tx.maybe(queries.get_fact, {**owner.parameters, "slug": slug}, last=True)
        if row is None:
            raise UnknownFact
        return fact_from(row, Fact)

    async def facts(
        self,
        tx: Transaction,
        owner: Owner,
        *,
        category: str | None = None,
        after: str = "",
        limit: int = PAGE,
    ) -> list[Fact]:
        """What is known about somebody, by slug."""
        asked = {**owner.parameters, "category": category, "after": after, "limit": limit}
        if not after:
            await self._see(tx, owner)
        return [fact_from(row, Fact) for row in await tx.all(queries.list_facts, asked, last=True)]

    async def search(
        self, tx: Transaction, owner: Owner, query: str, *, category: str | None = None, limit: int = 10
    ) -> list[FoundFact]:
        """The facts that fit a query best, best first."""
        await self._see(tx, owner)
        await tx.finish()
        filters = None if category is None else {"metadata": {"category": category}}
        # By tenant and kind alone: the number that somebody is known by may have changed since.
        where = Where(Entities(app=owner.app), workspace=owner.id, filters=filters)
        async with tx.still_open() as asking:
            found = await self._engine.search(asking, Wanted(query, where, limit=limit))
        scores = {str(memory.id): memory.score for memory in found}
        if not scores:
            return []
        async with tx.still_open() as reading:
            asked = {**owner.parameters, "memory_ids": list(scores)}
            rows = await reading.all(queries.facts_of_memories, asked, last=True)
        facts = [fact_from(row, FoundFact, score=scores[row["memory_id"]]) for row in rows]
        return sorted(facts, key=lambda fact: (-fact.score, fact.slug))

    async def company_called(self, tx: Transaction, name: str) -> Owner:
        """The one company of that name, among those that the caller may see."""
        found = await tx.all(queries.companies_called, {"name": name}, last=True)
        if not found:
            raise UnknownOwner(f'There is no company called "{name}".')
        if len(found) > 1:
            raise InvalidInput(f'There are several companies called "{name}"; give the id of one.')
        return Owner("company", found[0]["id"])

    async def delete(
        self, tx: Transaction, owner: Owner, slugs: Sequence[str], *, reason: str | None = None
    ) -> list[str]:
        """Forget facts together with their memories; says which there were. History keeps what they said."""
        return await self._mirror.delete(tx, owner, slugs, reason)

    async def history(
        self, tx: Transaction, owner: Owner, slug: str, *, after: int | None = None, limit: int = PAGE
    ) -> list[FactChange]:
        """What became of a slug, newest first; also of one that is gone."""
        asked = {**owner.parameters, "slug": slug, "after": after, "limit": limit}
        rows = await tx.all(queries.history_of, asked, last=True)
        if not rows and after is None:
            raise UnknownFact
        return [FactChange(**row) for row in rows]

    async def undo(
        self,
        tx: Transaction,
        owner: Owner,
        slug: str,
        *,
        change: int | None = None,
        reason: str | None = None,
    ) -> FactChange:
        """Take a slug's last change back, if it is ``change`` where that is given; a change in itself."""
        [last] = await self.history(tx, owner, slug, limit=1)
        if change not in {None, last.id}:
            raise ChangedSince
        why = reason or f"change {last.id} undone"
        async with tx.still_open() as writing:
            if last.before is None:
                await self.delete(writing, owner, [slug], reason=why)
            else:
                before = {"slug": slug, "content": last.before, "extra_metadata": last.metadata_before or {}}
                await self.put(writing, owner, memory_in(before), reason=why)
        async with tx.still_open() as reading:
            [undone] = await self.history(reading, owner, slug, limit=1)
        return undone

    async def reconcile(self, only: Owner | None = None) -> Mended:
        """Find rows without memories and memories without rows, and mend them."""
        mended = Mended()
        await self._mirror.reconcile(mended, only)
        return mended

    async def settle(self) -> Mended:
        """Mend what is known to have been left half done."""
        mended = Mended()
        await self._mirror.settle(mended)
        return mended

    async def follow(self, memory_id: str) -> Mended:
        """Bring a row into step with its memory, after somebody else has changed it."""
        mended = Mended()
        await self._mirror.follow(memory_id, mended)
        return mended

    def _entities(self, owner: Owner, facts: OwnerFacts) -> Entities:
        return owner.entities(self._identifiers, facts.identifier)

    async def _see(self, tx: Transaction, owner: Owner) -> None:
        if await tx.maybe(queries.owner, owner.parameters) is None:
            raise UnknownOwner(f"There is no such {owner.kind}.")


def _checked(memories: Iterable[object]) -> tuple[list[NewMemory], list[Outcome]]:
    valid: list[NewMemory] = []
    refused: list[Outcome] = []
    for given in memories:
        try:
            valid.append(checked_memory(given))
        except InvalidInput as error:
            refused.append(Outcome(slug_of(given), error=error.detail))
    return valid, refused


def _latest(memories: Iterable[NewMemory]) -> list[NewMemory]:
    """Each slug once: of several, what was said last."""
    return list({memory.slug: memory for memory in memories}.values())


def _failed(memories: Iterable[NewMemory], error: RecollectError) -> list[Outcome]:
    return [Outcome(memory.slug, error=error.detail) for memory in memories]


def _told(owner: Owner, outcomes: Sequence[Outcome]) -> Saved:
    errors = [f"Error with {owner.kind} memory {each.slug}: {each.error}" for each in outcomes if each.error]
    return Saved(
        success=not errors,
        saved_count=len(outcomes) - len(errors),
        failed_count=len(errors),
        errors=errors,
        created=len({each.slug for each in outcomes if each.is_new and not each.error}),
        failed={each.slug: each.error for each in outcomes if each.error},
    )


def _not_configured() -> Saved:
    return Saved(success=False, errors=[Mem0NotConfigured.title()])


def _planned(wanted: NewMemory, before: Known | None) -> Planned:
    if before is None:
        return Planned(slug=wanted.slug, change="create", after=wanted.content)
    change: Literal["update", "unchanged"] = "unchanged" if before.says(wanted) else "update"
    return Planned(slug=wanted.slug, change=change, before=before.content, after=wanted.content)
