"""How rules are extracted from chats.

A run reads what somebody said, finds the rules in it, keeps those turns in the memory engine, and writes new
rules as pending, with exact quotes. Whatever goes wrong, no rule is written, what is new stays new for the
next run, and this one is recorded with what it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from recollect.db.tenancy import SERVICE, Caller, Tenancy, Transaction
from recollect.errors import RecollectError, Superseded
from recollect.kit.logs import logger
from recollect.kit.loops import for_ever, stop
from recollect.rules import store
from recollect.rules.finding import Finder, Outcome, Progress, Steps
from recollect.rules.histories.service import Histories
from recollect.rules.material import Asked, Material, gather, placed
from recollect.rules.models import (
    Compared,
    Estimate,
    Extracted,
    ExtractionUnderWay,
    Finding,
    Found,
    NoActivePrompt,
    Tried,
)
from recollect.rules.store import queries

log = logger("rules")

# A run whose worker was not heard of for this long has none any more.
LEASE = timedelta(minutes=10)
HEARD_OF_EVERY = LEASE / 6
_OURS = "The extraction failed by a fault of ours; the server's log tells more."
_STOPPED = "The extraction was stopped."


class Extractor:
    def __init__(self, tenancy: Tenancy, histories: Histories, finder: Finder) -> None:
        self._tenancy = tenancy
        self._histories = histories
        self._finder = finder

    async def extract(self, asked: Asked, progress: Progress | None = None) -> Extracted:
        """Write down the rules that somebody's chats ask for: what is new in them, or the chats named."""
        steps = Steps(progress)
        asked = await self._placed(asked)
        async with self._run(asked, steps) as run:
            material = await self._gather(asked)
            outcome = await self._finder.find(run, material, steps)
            while (extracted := await self._write(run, material, outcome, steps)) is None:
                outcome = await outcome.settled_again()
        await steps.tick()
        return extracted

    async def estimate(self, asked: Asked) -> Estimate:
        """What an extraction would read and send. No model is asked, and nothing is written."""
        return await self._finder.estimate(await self._gather(await self._placed(asked)))

    async def compare(self, asked: Asked, prompt_text: str | None = None) -> Compared:
        """What a prompt, or another text for it, makes of chats, beside the active one. No rule is stored."""
        trial = replace(await self._placed(asked), origin="trial")
        # Whatever may be refused comes before anything has cost anything.
        await self._check_active(trial)
        tried = await self._try(trial, prompt_text)
        return Compared(active=await self._try(replace(trial, prompt_id=None)), tried=tried)

    async def _check_active(self, asked: Asked) -> None:
        async with self._acting(asked) as tx:
            if self._finder.asks_a_model and await store.prompt_in_use(tx, asked.workspace) is None:
                raise NoActivePrompt

    async def users_with_news(
        self, tx: Transaction, workspace: UUID | None, *, after: UUID, limit: int
    ) -> list[UUID]:
        """A page of those who have agreed and said something that no extraction has read."""
        parameters = {"workspace": workspace, "after": after, "limit": limit}
        return [row["id"] for row in await tx.all(queries.users_with_news, parameters)]

    async def _write(self, run: UUID, material: Material, outcome: Outcome, steps: Steps) -> Extracted | None:
        """Write down what was found; none if there are other rules by now than it was held against."""
        asked = material.asked
        found = [material.row_of(each, outcome.memory_of(each)) for each in outcome.findings]
        # The rules, what was read for them and the end of the run stand together, or not at all.
        async with self._acting(asked) as tx:
            await store.hold_rules(tx, asked.user_id, asked.workspace)
            known = await store.known_rules(tx, asked.user_id, asked.workspace)
            if known != material.known:
                material.known = known
                return None
            noted = await store.note(tx, run, found, material.read)
            steps.counted["proposed"] = sum(each.is_new for each in noted)
            steps.counted["repeated"] = sum(each.is_raised for each in noted)
            await store.end(tx, run, "done", steps.counted)
            return Extracted(
                run=await store.run(tx, run),
                rules=await store.rules(tx, [each.id for each in noted]),
            )

    async def _try(self, asked: Asked, prompt_text: str | None = None) -> Tried:
        steps = Steps()
        async with self._run(asked, steps) as run:
            material = await self._gather(asked)
            if prompt_text is not None and material.prompt is not None:
                material.prompt = material.prompt.model_copy(update={"prompt_text": prompt_text})
            outcome = await self._finder.find(run, material, steps)
            async with self._acting(asked) as tx:
                await store.end(tx, run, "done", steps.counted)
                ended = await store.run(tx, run)
        return Tried(run=ended, rules=[_found(material, each) for each in outcome.findings])

    async def _placed(self, asked: Asked) -> Asked:
        async with self._acting(asked) as tx:
            return await placed(tx, asked)

    async def _gather(self, asked: Asked) -> Material:
        async with self._acting(asked) as tx:
            return await gather(tx, self._histories, asked)

    @asynccontextmanager
    async def _run(self, asked: Asked, steps: Steps) -> AsyncIterator[UUID]:
        """Begin an extraction; whatever goes wrong in it is recorded."""
        wanted = {
            "user_id": asked.user_id,
            "workspace": asked.workspace,
            "origin": asked.origin,
            "lease": LEASE,
        }
        async with self._acting(asked) as tx:
            run: UUID | None = (await tx.one(queries.begin_extraction, wanted))["id"]
        if run is None:
            raise ExtractionUnderWay
        holding = asyncio.create_task(for_ever(partial(self._hold, run)))
        try:
            yield run
        except Superseded:
            raise
        except RecollectError as error:
            await self._fail(run, steps, error.detail)
            raise
        except asyncio.CancelledError:
            await asyncio.shield(self._fail(run, steps, _STOPPED))
            raise
        except Exception:
            log.exception("rules could not be extracted", run=str(run))
            await self._fail(run, steps, _OURS)
            raise
        finally:
            await stop(holding)

    async def _hold(self, run: UUID) -> None:
        """Let nobody take the run for abandoned, however long a model takes."""
        await asyncio.sleep(HEARD_OF_EVERY.total_seconds())
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await tx.run(queries.hold_extraction, {"id": run}, last=True)

    async def _fail(self, run: UUID, steps: Steps, reason: str) -> None:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            await store.end(tx, run, "failed", steps.counted, reason)

    def _acting(self, asked: Asked) -> Transaction:
        return self._tenancy.acting_as(Caller.user(asked.user_id))


def _found(material: Material, finding: Finding) -> Found:
    row = material.row_of(finding, None)
    return Found.model_validate({name: row[name] for name in Found.model_fields})
