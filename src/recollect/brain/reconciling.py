"""With mem0 as the engine: rows and memories that have come apart, found and mended.

An intent that was left says that something was begun here and not finished: then the row counts, and mem0 is
made to agree. Without one, somebody has changed mem0 by another way: what is newer counts, a memory without a
row gets one, and a row without a memory gets it back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from recollect.access.identifiers import Identifiers
from recollect.brain.models import APPS, Kind, Mended, NewMemory, Outcome, Owner, Saving, checked_memory
from recollect.brain.remote import PATIENCE, Intent, Remote
from recollect.brain.store import memory_in, queries, uuid_in
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.engine.mem0.adapter import Mem0Engine
from recollect.engine.models import Entities, Memory, Where
from recollect.errors import InvalidInput, RecollectError
from recollect.kit.logs import logger

PAGE = 500
MENDED = "reconciled with mem0"

log = logger("brain")


@dataclass(frozen=True)
class Here:
    """What the database says about somebody. ``entities`` is none if they are gone."""

    entities: Entities | None
    facts: Mapping[str, dict[str, Any]]
    intents: Mapping[str, dict[str, Any]]


class Mem0Mirror:
    """Keeps rows in step with mem0's library or platform, which no transaction spans."""

    def __init__(self, engine: Mem0Engine, tenancy: Tenancy, identifiers: Identifiers) -> None:
        self._engine = engine
        self._remote = Remote(engine)
        self._tenancy = tenancy
        self._identifiers = identifiers

    async def save(self, tx: Transaction, savings: Sequence[Saving]) -> list[list[Outcome]]:
        outcomes: list[list[Outcome]] = []
        for saving in savings:
            try:
                outcomes.append(await self._remote.save(tx, saving))
            except RecollectError as error:
                outcomes.append(saving.failed(error))
        return outcomes

    async def delete(
        self, tx: Transaction, owner: Owner, slugs: Sequence[str], reason: str | None
    ) -> list[str]:
        return await self._remote.delete(tx, owner, slugs, reason)

    async def reconcile(self, mended: Mended, only: Owner | None = None) -> None:
        if only is not None:
            await self._reconcile(only, mended)
            return
        done: set[Owner] = set()
        async for owner in self._owners():
            done.add(owner)
            await self._reconcile(owner, mended)
        kinds: tuple[Kind, ...] = ("user", "company")
        for owner in [Owner(kind, each) for kind in kinds for each in await self._engine.holders(APPS[kind])]:
            if owner not in done:
                await self._reconcile(owner, mended)
        await self.settle(mended)

    async def settle(self, mended: Mended) -> None:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            rows = await tx.all(queries.owners_to_settle, {"patience": PATIENCE}, last=True)
        for row in rows:
            await self._reconcile(Owner(row["kind"], row["owner"]), mended)

    async def follow(self, memory_id: str, mended: Mended) -> None:
        # What mem0 says now is looked up, and not what it told: then it does not matter how late that was.
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            row = await tx.maybe(queries.row_of_memory, {"memory_id": memory_id}, last=True)
        if row is not None:
            await self._reconcile(Owner(row["kind"], row["owner"]), mended, [row["slug"]], deletes=True)
            return
        if (there := uuid_in(memory_id)) is None:
            return
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            kept = await self._engine.kept(tx, there)
        for kind, app in APPS.items():
            if kept is not None and kept.memory.app == app and (slug := _slug(kept.memory)) is not None:
                await self._reconcile(Owner(kind, kept.tenant), mended, [slug])

    async def _owners(self) -> AsyncIterator[Owner]:
        after: tuple[str, UUID] = ("", UUID(int=0))
        while True:
            asked = {"after_kind": after[0], "after_owner": after[1], "limit": PAGE}
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                rows = await tx.all(queries.owners_with_facts, asked, last=True)
            for row in rows:
                yield Owner(row["kind"], row["owner"])
            if len(rows) < PAGE:
                return
            after = (rows[-1]["kind"], rows[-1]["owner"])

    async def _reconcile(
        self, owner: Owner, mended: Mended, only: Sequence[str] | None = None, *, deletes: bool = False
    ) -> None:
        """``deletes`` says that what is missing at mem0 was deleted there, and on purpose."""
        here, there = await self._here(owner), await self._there(owner)
        slugs = here.facts.keys() | there.keys() | here.intents.keys()
        for slug in sorted(slugs if only is None else slugs & set(only)):
            mended.checked += 1
            if not self._has_drifted(slug, here, there.get(slug, ())):
                continue
            try:
                if here.entities is None:
                    await self._forget(there.get(slug, ()), mended)
                else:
                    await self._mend(owner, slug, here, here.entities, mended, deletes=deletes)
            except RecollectError as error:
                mended.failed += 1
                log.warning("a fact was not mended", slug=slug, owner=str(owner.id), reason=error.detail)

    async def _here(self, owner: Owner) -> Here:
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.maybe(queries.owner, owner.parameters)
            facts = await tx.all(queries.facts_of, owner.parameters)
            intents = await tx.all(queries.intents_of, {**owner.parameters, "patience": PATIENCE})
        return Here(
            None if row is None else owner.entities(self._identifiers, row["rut"]),
            {fact["slug"]: fact for fact in facts},
            {intent["slug"]: intent for intent in intents},
        )

    async def _there(self, owner: Owner, slug: str | None = None) -> dict[str, list[Memory]]:
        """What mem0 has for them, by slug, newest first."""
        filters = None if slug is None else {"metadata": {"slug": slug}}
        where = Where(Entities(app=owner.app), workspace=owner.id, filters=filters)
        found: dict[str, list[Memory]] = {}
        after = None
        while True:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                page = await self._engine.list(tx, where, after=after, limit=PAGE)
            for memory in page:
                if (named := _slug(memory)) is not None:
                    found.setdefault(named, []).append(memory)
            if len(page) < PAGE:
                return found
            after = (page[-1].created_at, page[-1].id)

    @staticmethod
    def _has_drifted(slug: str, here: Here, memories: Sequence[Memory]) -> bool:
        if (intent := here.intents.get(slug)) is not None:
            # Without having been left, somebody is at it.
            return bool(intent["is_left"])
        fact = here.facts.get(slug)
        return (
            fact is None or len(memories) != 1 or not _agree(memory_in(fact), fact["memory_id"], memories[0])
        )

    async def _forget(self, memories: Sequence[Memory], mended: Mended) -> None:
        for memory in memories:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                await self._remote.forget(tx, memory.id, MENDED)
            mended.removed += 1

    async def _mend(
        self, owner: Owner, slug: str, here: Here, entities: Entities, mended: Mended, *, deletes: bool
    ) -> None:
        left = here.intents.get(slug)
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            intent = (await self._remote.intend(tx, owner, [slug], "save", wait=0)).get(slug)
            if intent is None:
                return
            mending = Mending(self._remote, tx, owner, entities, slug, intent, mended)
            try:
                # Once nobody else can change them, both are looked at again.
                memories = (await self._there(owner, slug)).get(slug, [])
                memory = _chosen(memories, intent)
                await mending.clear([each for each in memories if each is not memory])
                if memory is None and (deletes or (left is not None and left["verb"] == "delete")):
                    await mending.drop()
                elif (
                    left is None and memory is not None and _counts_more(memory, intent, here.facts.get(slug))
                ):
                    await mending.follow(memory)
                else:
                    await mending.push(memory)
            except RecollectError:
                await self._remote.give_up(tx, owner, [intent])
                raise


@dataclass(frozen=True)
class Mending:
    """One fact on its way back into step."""

    remote: Remote
    tx: Transaction
    owner: Owner
    entities: Entities
    slug: str
    intent: Intent
    mended: Mended

    async def push(self, memory: Memory | None) -> None:
        """Have mem0 say what the row does, which may be nothing."""
        if (known := self.intent.known) is None:
            await self.clear([memory] if memory else [])
            await self.drop()
            return
        wanted = memory_in(
            {"slug": self.slug, "content": known.content, "extra_metadata": known.extra_metadata}
        )
        if memory is not None and _agree(wanted, known.memory_id, memory):
            stored = memory.id
        else:
            stored = await self.remote.keep(
                self.tx, self.owner, self.entities, wanted, known=known, reason=MENDED
            )
            self.mended.recreated += memory is None
            self.mended.updated += memory is not None
        await self.remote.write(self.tx, self.owner, {self.slug: (self.intent, wanted, stored)}, MENDED)

    async def follow(self, memory: Memory) -> None:
        """Have the row say what mem0 does."""
        metadata = {name: value for name, value in memory.metadata.items() if name != "slug"}
        said = {"slug": self.slug, "content": memory.text, "extra_metadata": metadata}
        try:
            wanted = checked_memory({**said, "category": metadata.get("category")})
        except InvalidInput:
            # It cannot have been meant as a fact; what was known before stays.
            await self.push(memory)
            return
        await self.remote.write(self.tx, self.owner, {self.slug: (self.intent, wanted, memory.id)}, MENDED)
        self.mended.adopted += self.intent.known is None
        self.mended.updated += self.intent.known is not None

    async def drop(self) -> None:
        await self.remote.erase(self.tx, self.owner, [self.intent], MENDED)
        self.mended.removed += self.intent.known is not None

    async def clear(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            await self.remote.forget(self.tx, memory.id, MENDED)
            self.mended.removed += 1


def _slug(memory: Memory) -> str | None:
    slug = memory.metadata.get("slug")
    return slug if isinstance(slug, str) else None


def _agree(wanted: NewMemory, memory_id: str, memory: Memory) -> bool:
    described = {**wanted.described, "slug": wanted.slug}
    return (str(memory.id), memory.text, memory.metadata) == (memory_id, wanted.content, described)


def _chosen(memories: Sequence[Memory], intent: Intent) -> Memory | None:
    """The one that the row names, else the newest."""
    named = intent.known.memory_id if intent.known else None
    return next((each for each in memories if str(each.id) == named), memories[0] if memories else None)


def _counts_more(memory: Memory, intent: Intent, fact: Mapping[str, Any] | None) -> bool:
    return intent.known is None or (fact is not None and memory.updated_at > fact["updated_at"])
