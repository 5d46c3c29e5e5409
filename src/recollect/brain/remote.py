"""Rows here and memories in mem0, which no transaction spans.

What is about to be done is written down first, and struck out together with the row's change. An intent that
was left says that row and memory may have come apart: then the row counts, and mem0 is made to agree. Without
an intent, somebody has changed mem0 by another way; then what is newer counts, and nothing known is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from recollect.brain.models import Known, NewMemory, Outcome, Owner, Saving
from recollect.brain.store import known_from, known_of, queries, uuid_in
from recollect.db.tenancy import Transaction
from recollect.engine.mem0.adapter import Mem0Engine
from recollect.engine.mem0.models import AT_ONCE
from recollect.engine.models import Entities, UnknownMemory
from recollect.errors import Conflict, RecollectError

# Longer than a call to mem0 takes with all its tries: whoever is still at it then has died.
PATIENCE = timedelta(minutes=2)
WAIT_SECONDS = 10.0
LOOK_AGAIN_SECONDS = 0.05


class Busy(Conflict):
    """Somebody else is saving it at this moment; try again."""

    code = "fact_busy"


@dataclass(frozen=True, slots=True)
class Intent:
    """A fact that nobody else changes meanwhile, and what was known of it when that began."""

    id: UUID
    known: Known | None


class Remote:
    """Saves and deletes with mem0's library or platform as the engine."""

    def __init__(self, engine: Mem0Engine) -> None:
        self.engine = engine

    async def save(self, tx: Transaction, saving: Saving) -> list[Outcome]:
        changed = {wanted.slug: wanted for wanted in saving.changed}
        intents = await self.intend(tx, saving.owner, list(changed), "save")
        outcomes = {slug: Outcome(slug) for slug in saving.slugs}
        outcomes |= {slug: Outcome(slug, error=Busy.title()) for slug in changed.keys() - intents.keys()}
        stored: dict[str, UUID] = {}
        written: set[str] = set()
        try:
            for slug, result in await self._keep_all(
                tx, saving, [changed[slug] for slug in intents], intents
            ):
                if isinstance(result, UUID):
                    stored[slug] = result
                    outcomes[slug] = Outcome(slug, is_new=intents[slug].known is None)
                else:
                    outcomes[slug] = Outcome(slug, error=result.detail)
            written = await self.write(
                tx,
                saving.owner,
                {slug: (intents[slug], changed[slug], stored[slug]) for slug in stored},
                saving.reason,
            )
            outcomes |= {slug: Outcome(slug, error=Busy.title()) for slug in stored.keys() - written}
        finally:
            await self.give_up(tx, saving.owner, [intents[slug] for slug in intents.keys() - written])
        return [outcomes[slug] for slug in saving.slugs]

    async def intend(
        self,
        tx: Transaction,
        owner: Owner,
        slugs: Sequence[str],
        verb: Literal["save", "delete"],
        *,
        wait: float = WAIT_SECONDS,
    ) -> dict[str, Intent]:
        """An intent for each slug that nobody else has in hand, once they have had time to finish."""
        clock = asyncio.get_running_loop().time
        intents: dict[str, Intent] = {}
        deadline = clock() + wait
        while missing := [slug for slug in slugs if slug not in intents]:
            asked = {**owner.parameters, "slugs": missing, "verb": verb, "patience": PATIENCE}
            async with tx.still_open() as writing:
                rows = await writing.all(queries.intend, asked, last=True)
            known = known_from(rows)
            intents |= {
                row["slug"]: Intent(row["intent"], known.get(row["slug"]))
                for row in rows
                if row["intent"] is not None
            }
            if len(intents) < len(slugs):
                if clock() >= deadline:
                    break
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
        return intents

    async def _keep_all(
        self, tx: Transaction, saving: Saving, wanted: Sequence[NewMemory], intents: Mapping[str, Intent]
    ) -> list[tuple[str, UUID | RecollectError]]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def keep(each: NewMemory) -> tuple[str, UUID | RecollectError]:
            known = intents[each.slug].known
            async with turns:
                try:
                    return each.slug, await self.keep(
                        tx, saving.owner, saving.entities, each, known=known, reason=saving.reason
                    )
                except RecollectError as error:
                    return each.slug, error

        # Where one fails unforeseen, none of the others goes on unseen.
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(keep(each)) for each in wanted]
        return [task.result() for task in keeping]

    async def keep(
        self,
        tx: Transaction,
        owner: Owner,
        entities: Entities,
        wanted: NewMemory,
        *,
        known: Known | None,
        reason: str | None,
    ) -> UUID:
        async with tx.still_open() as asking:
            return await self.engine.keep(
                asking,
                owner.tenant,
                entities,
                wanted.slug,
                wanted.content,
                metadata={**wanted.described, "slug": wanted.slug},
                known=uuid_in(known.memory_id) if known else None,
                reason=reason,
            )

    async def write(
        self,
        tx: Transaction,
        owner: Owner,
        facts: Mapping[str, tuple[Intent, NewMemory, UUID]],
        reason: str | None,
    ) -> set[str]:
        """Write the rows of what mem0 has stored, and strike the intents; says which still stood."""
        if not facts:
            return set()
        parameters = {
            **owner.parameters,
            "slugs": list(facts),
            "intents": [intent.id for intent, _, _ in facts.values()],
            "memory_ids": [str(memory_id) for _, _, memory_id in facts.values()],
            "contents": [wanted.content for _, wanted, _ in facts.values()],
            "described": Jsonb([wanted.described for _, wanted, _ in facts.values()]),
            "reason": reason,
        }
        async with tx.still_open() as writing:
            return {row["slug"] for row in await writing.all(queries.write, parameters, last=True)}

    async def give_up(self, tx: Transaction, owner: Owner, intents: Sequence[Intent]) -> None:
        """Leave it to a reconciliation to find out what became of these."""
        if not intents:
            return
        asked = {"owner": owner.id, "intents": [intent.id for intent in intents]}
        async with tx.still_open() as writing:
            await writing.run(queries.give_up, asked, last=True)

    async def delete(
        self, tx: Transaction, owner: Owner, slugs: Sequence[str], reason: str | None
    ) -> list[str]:
        facts = (await known_of(tx, [owner], slugs)).get(owner)
        await tx.finish()
        there = [slug for slug in slugs if facts and slug in facts.known]
        intents = await self.intend(tx, owner, there, "delete")
        gone: list[str] = []
        try:
            if len(intents) < len(there):
                raise Busy
            for slug, intent in intents.items():
                await self.forget(tx, uuid_in(intent.known.memory_id) if intent.known else None, reason)
                gone.append(slug)
        finally:
            await self.erase(tx, owner, [intents[slug] for slug in gone], reason)
            await self.give_up(tx, owner, [intent for slug, intent in intents.items() if slug not in gone])
        return gone

    async def forget(self, tx: Transaction, memory_id: UUID | None, reason: str | None) -> None:
        if memory_id is None:
            return
        async with tx.still_open() as asking:
            # That it is gone already is what was wanted.
            with suppress(UnknownMemory):
                await self.engine.delete(asking, memory_id, reason=reason)

    async def erase(
        self, tx: Transaction, owner: Owner, intents: Sequence[Intent], reason: str | None
    ) -> None:
        """Delete the rows of what mem0 has deleted, and strike the intents."""
        if not intents:
            return
        done = {**owner.parameters, "intents": [intent.id for intent in intents], "reason": reason}
        async with tx.still_open() as writing:
            await writing.all(queries.erase, done, last=True)
