"""Every call is a row: written before the model is asked, which also sets its tokens aside, and completed
afterwards. Each write is a transaction of its own, so that none is open while the model thinks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Caller, Proof, Tenancy, Transaction
from recollect.errors import NotFound, NotSignedIn, RecollectError
from recollect.kit.logs import logger
from recollect.llm.failures import ModelBudgetSpent, ModelFailed
from recollect.llm.models import Call, Outcome, Reply, UseToday
from recollect.llm.prices import Price

PURGE_BATCH = 5_000
# A call may take half an hour at most; one that is still open later has nobody left to close it.
LOST_AFTER = timedelta(hours=1)
MAX_ERROR = 300

queries = Queries(__package__)
log = logger("llm")


@dataclass(frozen=True)
class Whose:
    """For whom a call is made, and so whose budget it counts for."""

    user_id: UUID | None
    workspace_id: UUID | None
    acted_by: UUID | None

    @property
    def budgets(self) -> list[str]:
        known = [str(each) for each in (self.user_id, self.workspace_id) if each]
        # Always in the same order, so that two calls cannot wait for each other.
        return sorted(known) or ["service"]


@dataclass
class Entry:
    """A call that is under way: what it has taken, and what it may take yet."""

    id: UUID
    whose: Whose
    set_aside: int
    attempts: int = 0
    taken: int = 0
    """Counted for the budget, which includes what servers did not report."""
    under_way: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    began: float = field(default_factory=time.monotonic)

    def sent(self, most_tokens: int) -> None:
        self.attempts += 1
        self.under_way = most_tokens

    def failed(self, *, may_have_cost: bool) -> None:
        if may_have_cost:
            self.taken += self.under_way
        self.under_way = 0

    def answered(self, reply: Reply, most_input_tokens: int, price: Price | None) -> None:
        self.under_way = 0
        if reply.usage is None:
            self.taken += most_input_tokens + len(reply.text.encode())
            return
        self.taken += reply.usage.input + reply.usage.output
        self.input_tokens = (self.input_tokens or 0) + reply.usage.input
        self.output_tokens = (self.output_tokens or 0) + reply.usage.output
        if price is not None:
            self.cost = (self.cost or Decimal()) + price.of(reply.usage)


class Ledger:
    def __init__(self, tenancy: Tenancy, *, daily_tokens: int | None, keep_days: int) -> None:
        # Not on the connections of requests: a model is asked by those who can wait.
        self._tenancy = tenancy.beside_requests()
        self.daily_tokens = daily_tokens
        self._keep = timedelta(days=keep_days)
        self._closing: set[asyncio.Task[None]] = set()

    async def whose(self, caller: Caller, workspace_id: UUID | None) -> Whose:
        """Who asks, as the database finds."""
        if caller.proof is Proof.SERVICE:
            return Whose(None, workspace_id, None)
        if caller.proof is Proof.NOBODY:
            raise NotSignedIn
        async with self._tenancy.acting_as(caller, for_one_call=True) as tx:
            row = await tx.one(queries.whose_call, {"workspace_id": workspace_id}, last=True)
            principal = tx.principal
        if not row["is_member"]:
            raise NotFound("There is no such workspace, or you are not in it.")
        return Whose(principal.user_id, workspace_id, principal.actor_id)

    @asynccontextmanager
    async def recorded(
        self, whose: Whose, purpose: str, provider: str, model: str, most_tokens: int, part_of: UUID | None
    ) -> AsyncIterator[Entry]:
        """Written down, whatever happens inside."""
        about = {"purpose": purpose, "provider": provider, "model": model, "part_of": part_of}
        entry = await self._open(whose, about, most_tokens)
        try:
            yield entry
        except (ModelFailed, ModelBudgetSpent) as error:
            outcome: Outcome = error.outcome if isinstance(error, ModelFailed) else "over_budget"
            await self._close_after_failure(entry, purpose, outcome, error.detail)
            raise
        except asyncio.CancelledError:
            # In a task of its own: this one may be cancelled again, and as often as it waits for anything.
            closing = asyncio.create_task(
                self._close_after_failure(entry, purpose, "cancelled", "Whoever asked did not wait.")
            )
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.shield(closing)
            raise
        except BaseException as error:
            # A fault of ours, or the database's: the name tells enough, and holds nothing of what was said.
            await self._close_after_failure(entry, purpose, "failed", f"Ended by {type(error).__name__}.")
            raise
        await self._close(entry, purpose, "ok", None)

    async def make_room(self, entry: Entry, most_tokens: int) -> None:
        """Set aside what a further attempt can take, where the rest of the first one's is not enough."""
        wanted = entry.taken + most_tokens
        if wanted <= entry.set_aside:
            return
        async with self._weighing(entry.whose) as tx:
            parameters = {**self._budget_of(entry.whose), "id": entry.id, "tokens": wanted}
            if not await tx.run(queries.extend_call, parameters, last=True):
                raise budget_spent()
        entry.set_aside = wanted

    async def _open(self, whose: Whose, about: Mapping[str, Any], most_tokens: int) -> Entry:
        spent = budget_spent()
        async with self._weighing(whose) as tx:
            parameters = {
                **self._budget_of(whose),
                **about,
                "acted_by": whose.acted_by,
                "tokens": most_tokens,
                "error": spent.detail,
            }
            row = await tx.one(queries.open_call, parameters, last=True)
        if row["outcome"] == "over_budget":
            raise spent
        return Entry(row["id"], whose, set_aside=most_tokens)

    @asynccontextmanager
    async def _weighing(self, whose: Whose) -> AsyncIterator[Transaction]:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            if self.daily_tokens is not None:
                await tx.run(queries.lock_budgets, {"tenants": whose.budgets})
            yield tx

    def _budget_of(self, whose: Whose) -> dict[str, Any]:
        return {
            "user_id": whose.user_id,
            "workspace_id": whose.workspace_id,
            "daily_tokens": self.daily_tokens,
        }

    async def _close(self, entry: Entry, purpose: str, outcome: Outcome, error: str | None) -> None:
        took_ms = round((time.monotonic() - entry.began) * 1_000)
        found = {
            "outcome": outcome,
            "attempts": entry.attempts,
            "input_tokens": entry.input_tokens,
            "output_tokens": entry.output_tokens,
            "took_ms": took_ms,
        }
        log.debug("model asked", purpose=purpose, **found)
        parameters = {
            **found,
            "id": entry.id,
            # What was under way when it ended is paid for, as far as anybody knows.
            "tokens": entry.taken + entry.under_way,
            "cost_usd": entry.cost,
            "error": error[:MAX_ERROR] if error else None,
        }
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await tx.run(queries.close_call, parameters, last=True)

    async def _close_after_failure(self, entry: Entry, purpose: str, outcome: Outcome, error: str) -> None:
        # If this fails too, what failed first is what to tell; the row is found open, and marked as lost.
        with suppress(RecollectError):
            await self._close(entry, purpose, outcome, error)

    async def calls(
        self,
        tx: Transaction,
        *,
        purpose: str | None,
        outcome: Outcome | None,
        before: tuple[datetime, UUID] | None,
        limit: int,
    ) -> list[Call]:
        moment, call_id = before or (None, None)
        parameters = {
            "purpose": purpose,
            "outcome": outcome,
            "before": moment,
            "before_id": call_id,
            "limit": limit,
        }
        query = queries.list_all_calls if tx.caller is SERVICE else queries.list_calls
        return [Call(**row) for row in await tx.all(query, parameters, last=True)]

    async def today(self, tx: Transaction) -> UseToday:
        query = queries.use_today_of_all if tx.caller is SERVICE else queries.use_today
        return UseToday(**await tx.one(query, last=True))

    async def purge(self) -> int:
        """Forget old calls; those that nobody can close any more are marked as lost first."""
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await tx.run(queries.mark_lost, {"age": LOST_AFTER}, last=True)
        purged, gone = 0, PURGE_BATCH
        while gone == PURGE_BATCH:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                gone = await tx.run(queries.purge_calls, {"age": self._keep, "batch": PURGE_BATCH}, last=True)
            purged += gone
        return purged


def budget_spent() -> ModelBudgetSpent:
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    return ModelBudgetSpent(headers={"Retry-After": str(int((midnight - now).total_seconds()) + 1)})
