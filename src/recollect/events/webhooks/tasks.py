"""The work of delivering: one job for an endpoint, however many events wait for it.

At least once: an attempt whose worker dies before it could be recorded is made again, under the same id.
In order for each subject: only the first delivery of it that is not done yet is attempted.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.events.webhooks.sending import Outcome, Sender
from recollect.events.webhooks.store import Due, SecretBox, next_due, queries, record_attempt, take_due
from recollect.jobs.models import Counts, Job, Task
from recollect.kit.logs import logger
from recollect.kit.secret import UnsealError

log = logger("webhooks")

DELIVER = "webhooks.deliver"
TEND = "webhooks.tend"
AT_ONCE = 8
# Longer than an attempt can last: a worker that died is followed by another after this time.
LEASE = timedelta(seconds=30)
# Then the next endpoint has its turn.
TURN_SECONDS = 60

# After the first failure, the second, and so on: about a day in all.
DELAYS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
)
# Counted while a delivery waits for the one before it, too: else the hundredth about a subject that the
# receiver does not take would have its turn after a hundred days.
GIVEN_UP_AFTER = timedelta(days=1)
LONGEST_REST = timedelta(hours=1)
# An endpoint is disabled after so many failures in a row, the first of them at least so long ago.
DISABLED_AFTER_FAILURES = 20
DISABLED_AFTER = timedelta(days=1)
FORGOTTEN_AFTER = timedelta(minutes=10)

_chance = random.SystemRandom()


def delay_after(attempt: int) -> timedelta | None:
    """How long to wait after that many attempts before it, or None if there is no further one. Never quite
    the same: what failed together should not come back together."""
    return DELAYS[attempt] * _chance.uniform(0.9, 1.2) if attempt < len(DELAYS) else None


def rest_after(failures: int) -> timedelta | None:
    """How long to leave an endpoint alone that has failed so often in a row."""
    if failures < AT_ONCE:
        return None
    return min(DELAYS[min(failures - AT_ONCE, len(DELAYS) - 1)], LONGEST_REST)


class Delivering:
    def __init__(self, sender: Sender, box: SecretBox) -> None:
        self._sender = sender
        self._box = box

    async def run(self, job: Job) -> Counts:
        """Send what is due for one endpoint, and see to it that somebody comes back for the rest."""
        endpoint_id = UUID(job.arguments["endpoint"])
        counts = {"delivered": 0, "failed": 0}
        turn_ends = time.monotonic() + TURN_SECONDS
        while True:
            async with job.step() as tx:
                is_over = time.monotonic() > turn_ends
                batch = [] if is_over else await take_due(tx, endpoint_id, batch=AT_ONCE, lease=LEASE)
                if not batch:
                    await come_back(tx, endpoint_id, job.workspace_id)
                    await job.finish(tx, counts)
                    return counts
            outcomes = await asyncio.gather(*map(self._attempt, batch))
            async with job.step() as tx:
                await _record(tx, batch, outcomes)
            delivered = sum(outcome.is_delivered for outcome in outcomes)
            counts["delivered"] += delivered
            counts["failed"] += len(outcomes) - delivered

    async def _attempt(self, due: Due) -> Outcome:
        try:
            signing = [self._box.unseal(due.endpoint_id, sealed) for sealed in due.sealed_secrets]
        except UnsealError:
            return Outcome(None, 0, "The signing secret cannot be opened any more; make another one.")
        return await self._sender.send(due.url, str(due.id), due.payload, signing)


async def _record(tx: Transaction, batch: Sequence[Due], outcomes: Sequence[Outcome]) -> None:
    endpoint_id = batch[0].endpoint_id
    # The endpoint before its deliveries, as everywhere: who locks them the other way round may meet us.
    if any(outcome.is_delivered for outcome in outcomes):
        await tx.run(queries.endpoint_answers, {"id": endpoint_id})
    else:
        await _record_failures(tx, endpoint_id, len(outcomes))
    if any(outcome.is_gone for outcome in outcomes):
        await _disable(tx, endpoint_id, "The receiver answered 410 Gone.", at_once=True)
    for due, outcome in zip(batch, outcomes, strict=True):
        is_final = outcome.is_delivered or outcome.is_gone or due.age > GIVEN_UP_AFTER
        await record_attempt(tx, due, outcome, None if is_final else delay_after(due.attempt))


async def _record_failures(tx: Transaction, endpoint_id: UUID, failed: int) -> None:
    row = await tx.maybe(queries.endpoint_fails, {"id": endpoint_id, "failed": failed})
    if row is None:
        return  # removed meanwhile
    if rest := rest_after(row["failures"]):
        await tx.run(queries.rest_endpoint, {"id": endpoint_id, "rest": rest})
    reason = f"The last {row['failures']} attempts failed, over more than a day."
    await _disable(tx, endpoint_id, reason, at_once=False)


async def _disable(tx: Transaction, endpoint_id: UUID, reason: str, *, at_once: bool) -> None:
    parameters = {
        "id": endpoint_id,
        "reason": reason,
        "at_once": at_once,
        "failures": DISABLED_AFTER_FAILURES,
        "age": DISABLED_AFTER,
    }
    if await tx.run(queries.disable_endpoint, parameters):
        log.warning("webhook disabled", endpoint=str(endpoint_id), reason=reason)


async def come_back(tx: Transaction, endpoint_id: UUID, workspace_id: UUID | None) -> None:
    """Queue the next look at an endpoint for when something is due there."""
    at = await next_due(tx, endpoint_id)
    if at is None:
        return
    moment = _on_the_dot(max(at, datetime.now(UTC)))
    parameters = {
        "endpoint_id": endpoint_id,
        # A job that waits for tomorrow must not stand for one that is wanted now.
        "key": f"{endpoint_id} {moment.isoformat()}",
        "at": moment,
        "workspace_id": workspace_id,
    }
    await tx.run(queries.queue_delivering, parameters)


def _on_the_dot(moment: datetime) -> datetime:
    """The next full second, or minute if it is far: then many wishes become one job."""
    is_near = moment - datetime.now(UTC) < timedelta(minutes=2)
    grain = 1 if is_near else 60
    return datetime.fromtimestamp(-(-moment.timestamp() // grain) * grain, UTC)


async def tend(job: Job) -> Counts:
    """Go after deliveries that no job looks after any more: one was given up, or taken out of the queue."""
    async with job.step() as tx:
        forgotten = await tx.all(queries.forgotten_endpoints, {"age": FORGOTTEN_AFTER})
        for row in forgotten:
            await come_back(tx, row["id"], job.workspace_id)
    return {"woken": len(forgotten)}


def tasks(sender: Sender, box: SecretBox) -> tuple[Task, ...]:
    return (
        # A failure of the job itself is one of ours: the database was away, say. That passes.
        Task(DELIVER, Delivering(sender, box).run, attempts=20, for_service_only=True),
        Task(TEND, tend, for_service_only=True, every="*/15 * * * *", cron="webhooks-tend"),
    )
