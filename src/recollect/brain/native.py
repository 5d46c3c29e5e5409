"""Rows and memories in one transaction, with Recollect's own engine.

The database itself sees to it that what happens to a memory happens to its row, whoever does it; so to save a
fact is to save its memory. Rows that point elsewhere are left from another engine, and get a memory here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from recollect.access.identifiers import Identifiers
from recollect.brain.models import Mended, Outcome, Owner, Saving
from recollect.brain.store import known_from, known_of, memory_in, queries, uuid_in
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.engine.keeping import Keep, Prepared
from recollect.engine.service import Engine
from recollect.errors import RecollectError, Unavailable

DRIFT_BATCH = 500
MENDED = "reconciled with the engine"


class NativeMirror:
    def __init__(self, engine: Engine, tenancy: Tenancy, identifiers: Identifiers) -> None:
        self._engine = engine
        self._tenancy = tenancy
        self._identifiers = identifiers

    async def save(self, tx: Transaction, savings: Sequence[Saving]) -> list[list[Outcome]]:
        prepared = await self._prepared(wanted.content for saving in savings for wanted in saving.changed)
        outcomes: list[list[Outcome]] = []
        for saving in savings:
            try:
                outcomes.append(await self._save(tx, saving, prepared))
            except Unavailable:
                raise  # and that for all who come after, too
            except RecollectError as error:
                outcomes.append(saving.failed(error))
        return outcomes

    async def _save(self, tx: Transaction, saving: Saving, prepared: dict[str, Prepared]) -> list[Outcome]:
        if not saving.changed:
            return [Outcome(slug) for slug in saving.slugs]
        while True:
            async with tx.still_open() as writing:
                rows = await writing.all(queries.held, {**saving.owner.parameters, "slugs": saving.slugs})
                held = replace(saving, known=known_from(rows))
                missing = [wanted.content for wanted in held.changed if wanted.content not in prepared]
                if not missing:
                    await self._keep(writing, held, prepared)
                    return [Outcome(slug, is_new=slug not in held.known) for slug in saving.slugs]
            # Somebody else has just changed what was to stay as it was.
            prepared |= await self._prepared(missing)

    async def _prepared(self, texts: Iterable[str]) -> dict[str, Prepared]:
        different = list(dict.fromkeys(texts))
        return dict(zip(different, await self._engine.prepare(different), strict=True))

    async def _keep(self, tx: Transaction, saving: Saving, prepared: dict[str, Prepared]) -> None:
        kept = [
            Keep(
                wanted.slug,
                prepared[wanted.content],
                {**wanted.described, "slug": wanted.slug},
                uuid_in(before.memory_id) if (before := saving.known.get(wanted.slug)) else None,
            )
            for wanted in saving.changed
        ]
        await self._engine.keep(tx, saving.owner.tenant, saving.entities, kept, reason=saving.reason)

    async def delete(
        self, tx: Transaction, owner: Owner, slugs: Sequence[str], reason: str | None
    ) -> list[str]:
        parameters = {**owner.parameters, "slugs": list(slugs), "reason": reason}
        return [row["slug"] for row in await tx.all(queries.forget, parameters, last=True)]

    async def reconcile(self, mended: Mended, only: Owner | None = None) -> None:
        whose = only.parameters if only else {"kind": None, "owner": None}
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            mended.checked += (await tx.one(queries.count_facts, whose, last=True))["facts"]
        while True:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                found = await tx.all(queries.drift, {**whose, "limit": DRIFT_BATCH}, last=True)
            failed = mended.failed
            await self._adopt(
                [row for row in found if row["what"] != "no_memory" and row["is_newer"]], mended
            )
            await self._recreate(
                [row for row in found if row["what"] == "no_memory" or not row["is_newer"]], mended
            )
            # What could not be mended would be found again and again.
            if len(found) < DRIFT_BATCH or mended.failed > failed:
                return

    async def _adopt(self, rows: Sequence[dict[str, Any]], mended: Mended) -> None:
        for row in rows:
            asked = {"memory_id": row["memory_id"], "reason": MENDED}
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                is_adopted = (await tx.one(queries.adopt, asked, last=True))["is_adopted"]
            if row["what"] == "differs":
                mended.updated += 1
            elif is_adopted:
                mended.adopted += 1
            else:
                mended.removed += 1

    async def _recreate(self, rows: Sequence[dict[str, Any]], mended: Mended) -> None:
        by_owner = sorted(rows, key=lambda row: (row["kind"], str(row["owner"])))
        batch = {
            Owner(kind, owner): list(group)
            for (kind, owner), group in groupby(by_owner, key=lambda row: (row["kind"], row["owner"]))
        }
        if not batch:
            return
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            known = await known_of(tx, list(batch), [])
            await tx.finish()
            savings = [
                Saving(
                    owner,
                    owner.entities(self._identifiers, known[owner].identifier),
                    list(map(memory_in, group)),
                    known_from(group),
                    MENDED,
                    again=True,
                )
                for owner, group in batch.items()
                if owner in known
            ]
            outcomes = await self.save(tx, savings)
        lost = {(row["kind"], row["owner"], row["slug"]) for row in rows if row["what"] == "no_memory"}
        for saving, outcome in zip(savings, outcomes, strict=True):
            for each in outcome:
                if each.error is not None:
                    mended.failed += 1
                elif (saving.owner.kind, saving.owner.id, each.slug) in lost:
                    mended.recreated += 1
                else:
                    mended.updated += 1

    async def settle(self, mended: Mended) -> None:
        """Nothing: what is half done is not done at all."""

    async def follow(self, memory_id: str, mended: Mended) -> None:
        """Nothing: a row follows its memory by itself, and mem0's are none of ours."""
