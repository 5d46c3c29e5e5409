"""What workers do for clients of mem0."""

from __future__ import annotations

from datetime import timedelta

from recollect.engine.dialect.service import ADD, Dialect
from recollect.engine.service import Engine
from recollect.errors import RecollectError
from recollect.jobs.models import Counts, GiveUp, Job, Task, TryLater
from recollect.llm.failures import ModelBudgetSpent

# The day's tokens come back at midnight, and others may have left some.
AGAIN_AFTER = timedelta(hours=1)
# What trying again can mend: the request was too slow, came too early or too often, or met another.
_PASSING = frozenset({408, 409, 425, 429})


def tasks(dialect: Dialect, engine: Engine) -> tuple[Task, ...]:
    async def add(job: Job) -> Counts | None:
        async with job.step() as tx:
            wanted = await dialect.queued(tx, job.id)
        if wanted is None:
            raise GiveUp("There is nothing to add: nobody asked for it, or it was done.")
        try:
            # Not in a step: the engine lets go of its transaction while the model is asked. A fact that
            # an attempt before this one has stored is not stored twice.
            async with job.tenancy.acting_as(job.caller, for_one_call=True) as adding:
                added = await engine.add(adding, wanted)
        except ModelBudgetSpent as error:
            raise TryLater(AGAIN_AFTER, error.detail) from error
        except RecollectError as error:
            if 400 <= error.status < 500 and error.status not in _PASSING:
                raise GiveUp(error.detail) from error
            raise
        async with job.step() as tx:
            await dialect.settle(tx, job.id, added)
            counts = {"changed": len(added.results), "not_understood": len(added.not_understood)}
            await job.finish(tx, counts)
        return None

    return (Task(ADD, add),)
