"""How a profile is brought up to date: by a model, or by rules where there is none.

A run takes what has happened since the last one, has a new document made of it, checks that, and stores
the difference. Whatever goes wrong, the document stays as it was, what happened is taken up again by the
next run, and this one is recorded with what it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from recollect.db.tenancy import SERVICE, Caller, Tenancy, Transaction
from recollect.errors import RecollectError, Superseded, Unavailable
from recollect.kit.logs import logger
from recollect.llm.service import Llm
from recollect.profile.asking import Asking
from recollect.profile.bounds import Bounds
from recollect.profile.models import (
    Activity,
    Gathered,
    Proposed,
    Snapshot,
    StaleVersion,
    Update,
)
from recollect.profile.patch import diff
from recollect.profile.service import Profile
from recollect.profile.store import queries

log = logger("profile")

BY_RULES = "rules"
SYSTEM = "system"
OURS = ("version", "schema_version", "last_updated_by")
AT_ONCE = 4
MAX_GATHERED = 2_000
ACTIVE_WITHIN = timedelta(days=1)
# Enough for whatever a model call may take, and for the rest.
LEASE_BESIDES_MODEL = timedelta(minutes=5)
PURGE_BATCH = 5_000

Source = Callable[[Transaction, UUID, Sequence[Mapping[str, Any]]], Awaitable[Sequence[Activity]]]
"""What events of one type say of a user, as activities."""


class Updater:
    def __init__(
        self,
        tenancy: Tenancy,
        profile: Profile,
        llm: Llm,
        bounds: Bounds,
        sources: Mapping[str, Source],
        *,
        model_seconds: float,
        keep_days: int,
    ) -> None:
        self._tenancy = tenancy
        self._profile = profile
        self._asking = Asking(tenancy, llm, profile.schema) if llm.configured else None
        self._bounds = bounds
        self._sources = dict(sources)
        self._lease = LEASE_BESIDES_MODEL + 2 * timedelta(seconds=model_seconds)
        self._keep = timedelta(days=keep_days)

    async def generate_memory_update(self, user_id: UUID) -> Proposed:
        """What a user's profile should be now, with the patch that leads there. Nothing is stored."""
        async with self._tenancy.acting_as(Caller.user(user_id)) as tx:
            base = await self._profile.reconstruct_memory(tx, user_id)
            if self._profile.schema.is_behind(base.document):
                base = await self._profile.migrate(tx, user_id)
            gathered = await self._gather(tx, user_id)
        return await self._propose(user_id, base, gathered)

    async def _gather(self, tx: Transaction, user_id: UUID) -> Gathered:
        parameters = {"user_id": user_id, "limit": MAX_GATHERED}
        own = await tx.all(queries.new_activities, parameters)
        considered = [row.pop("id") for row in own]
        activities = [Activity.model_construct(**row) for row in own]
        events = await tx.all(queries.new_events, {**parameters, "types": list(self._sources)})
        for kind, source in self._sources.items():
            if of_kind := [event for event in events if event["type"] == kind]:
                activities += await source(tx, user_id, of_kind)
        return Gathered(
            activities=sorted(activities, key=lambda each: each.happened_at),
            considered=considered,
            events_upto=events[-1]["position"] if events else 0,
        )

    async def _propose(self, user_id: UUID, base: Snapshot, gathered: Gathered) -> Proposed:
        schema, now = self._profile.schema, datetime.now(UTC)
        document, made_by, prompt_version, left_out = base.document, BY_RULES, None, 0
        if self._asking is not None:
            made_by = self._asking.name
            if gathered.activities:
                answer = await self._asking.ask(Caller.user(user_id), base.document, gathered.activities)
                document, prompt_version, left_out = answer.document, answer.prompt_version, answer.left_out
        elif schema.derive is not None:
            document = schema.derive(base.document, gathered.activities, now)
        # Which version it is of what, and whose, is not for it to say.
        document = {name: value for name, value in document.items() if name not in OURS}
        document |= {name: value for name, value in base.document.items() if name in OURS}
        self._bounds.check(base.document, document)
        schema.check(document)
        patch = diff(base.document, document)
        return Proposed(base, document, patch, made_by, prompt_version, gathered, left_out)

    async def update(self, user_id: UUID, *, period: datetime | None = None) -> Update | None:
        """Bring a profile up to date, and say what became of it; None if somebody is at it, or it has been
        done in this period."""
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            claim = {"user_id": user_id, "period": period, "lease": self._lease}
            run: UUID | None = (await tx.one(queries.claim_update, claim, last=True))["id"]
        if run is None:
            return None
        try:
            return await self._carry_out(run, user_id)
        except Superseded:
            # Somebody took it over, and says what becomes of it.
            return None
        except (Unavailable, asyncio.CancelledError):
            await self._give_back(run)
            raise
        except RecollectError as error:
            return await self._fail(run, error.detail)
        except Exception:
            # Whatever it is, it lies in one user's data, and must not stop the updates of all others.
            log.exception("a profile could not be updated", user=str(user_id))
            return await self._fail(run, "The update failed by a fault of ours; the server's log tells more.")

    async def _carry_out(self, run: UUID, user_id: UUID) -> Update:
        proposed = await self.generate_memory_update(user_id)
        try:
            return await self._store(run, user_id, proposed)
        except StaleVersion:
            # Somebody changed the same meanwhile, and what they wrote is part of what is to be told now.
            return await self._store(run, user_id, await self.generate_memory_update(user_id))

    async def _store(self, run: UUID, user_id: UUID, proposed: Proposed) -> Update:
        """The new version, what it was made from and the end of the run stand together, or not at all."""
        base, gathered = proposed.base, proposed.gathered
        async with self._tenancy.acting_as(Caller.user(user_id)) as tx:
            saved = base
            if proposed.patch:
                saved = await self._profile.replace(
                    tx,
                    user_id,
                    proposed.document,
                    base=base,
                    origin="update",
                    reason=f"{len(gathered.activities)} activities.",
                    by=SYSTEM if proposed.made_by == BY_RULES else proposed.made_by,
                )
            ended = {
                "id": run,
                "state": "updated" if saved.version != base.version else "unchanged",
                "made_by": proposed.made_by,
                "prompt_version": proposed.prompt_version,
                "considered": list(gathered.considered),
                "activities": len(gathered.activities),
                "left_out": proposed.left_out,
                "events_upto": gathered.events_upto,
                "from_version": base.version,
                "to_version": saved.version,
                "error": None,
            }
            return Update(**await tx.one(queries.end_update, ended))

    async def _fail(self, run: UUID, reason: str) -> Update:
        failed = {
            "id": run,
            "state": "failed",
            "made_by": self._asking.name if self._asking else BY_RULES,
            "prompt_version": None,
            "considered": [],
            "activities": 0,
            "left_out": 0,
            "events_upto": 0,
            "from_version": None,
            "to_version": None,
            "error": reason,
        }
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return Update(**await tx.one(queries.end_update, failed, last=True))

    async def _give_back(self, run: UUID) -> None:
        """Let whoever tries next begin at once; if this fails too, they wait for the lease to end."""
        with suppress(RecollectError):
            await self._fail(run, "The update was interrupted.")

    async def update_some(self, users: Sequence[UUID], period: datetime) -> dict[str, int]:
        """Bring several profiles up to date, a few at a time; says how many ended how."""
        counts = {"updated": 0, "unchanged": 0, "failed": 0, "skipped": 0}
        turn = asyncio.Semaphore(AT_ONCE)
        interrupted: list[Unavailable] = []

        async def one(user_id: UUID) -> None:
            async with turn:
                try:
                    run = await self.update(user_id, period=period)
                except Unavailable as error:
                    interrupted.append(error)
                    return
            counts["skipped" if run is None else run.state] += 1

        async with asyncio.TaskGroup() as group:
            for user_id in users:
                group.create_task(one(user_id))
        if interrupted:
            # The job is tried again, and passes over those who are done.
            raise interrupted[0]
        return counts

    async def active_users(self, tx: Transaction, *, after: UUID, limit: int) -> list[UUID]:
        """A page of those whose profile does not know of all that they did."""
        parameters = {"types": list(self._sources), "within": ACTIVE_WITHIN, "after": after, "limit": limit}
        return [row["id"] for row in await tx.all(queries.active_users, parameters)]

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget runs and considered activities past their time."""
        purged = 0
        for query in (queries.purge_updates, queries.purge_activities):
            gone = PURGE_BATCH
            while gone == PURGE_BATCH:
                async with tenancy.acting_as(SERVICE) as tx:
                    gone = await tx.run(query, {"age": self._keep, "batch": PURGE_BATCH}, last=True)
                purged += gone
        return purged
