"""What workers do for rules."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, ValidationError

from recollect.errors import Conflict, RecollectError, Superseded, Unavailable
from recollect.jobs.models import Counts, GiveUp, Job, Task, TryLater
from recollect.jobs.service import Jobs
from recollect.llm.failures import ModelAway
from recollect.rules.extraction import Extractor
from recollect.rules.material import Asked
from recollect.rules.models import ExtractionUnderWay, Origin

EXTRACT = "rules.extract"
PAGE = 1_000
SOON = timedelta(seconds=15)
_LOWEST = UUID(int=0)


class _Arguments(BaseModel):
    chat_history_ids: Annotated[list[UUID], Field(min_length=1)] | None = None
    prompt_id: UUID | None = None


def tasks(extractor: Extractor, jobs: Jobs) -> tuple[Task, ...]:
    async def extract(job: Job) -> Counts:
        return await _extract(job, extractor)

    async def extract_all(job: Job) -> Counts:
        return await _share_out(job, extractor, jobs)

    return (
        Task(EXTRACT, extract),
        Task(
            "rules.extract_all",
            extract_all,
            for_service_only=True,
            every="37 3 * * *",
            cron="rule-extraction",
            per_workspace=True,
        ),
        # Chats that are in no workspace; the same, for all users at once.
        Task(
            "rules.extract_personal",
            extract_all,
            for_service_only=True,
            every="7 4 * * *",
            cron="rule-extraction-personal",
        ),
    )


async def _extract(job: Job, extractor: Extractor) -> Counts:
    if job.user_id is None:
        raise GiveUp("Rules are extracted from the chats of a user.")
    origin: Origin = "schedule" if job.origin == "schedule" else "request"
    try:
        given = _Arguments(**job.arguments)
    except ValidationError as error:
        raise GiveUp("chat_history_ids: ids of chats, at least one; prompt_id: that of a prompt.") from error
    asked = Asked(job.user_id, job.workspace_id, given.chat_history_ids, given.prompt_id, origin)
    try:
        run = (await extractor.extract(asked, job.progress)).run
    except ExtractionUnderWay as error:
        raise TryLater(SOON, error.detail) from error
    except (Unavailable, ModelAway, Superseded):
        raise
    except Conflict as error:
        # Of two that waited for each other one had to give way; the next time it need not.
        raise TryLater(SOON, error.detail) from error
    except RecollectError as error:
        raise GiveUp(error.detail) from error
    return {
        "state": run.state,
        "run": str(run.id),
        "proposed": run.proposed,
        "repeated": run.repeated,
        "tokens_sent": run.tokens_sent,
    }


async def _share_out(job: Job, extractor: Extractor, jobs: Jobs) -> Counts:
    """Queue an extraction for everybody who has said something new there, each for itself."""
    after, queued = UUID(job.checkpoint["after"]) if job.checkpoint else _LOWEST, job.done
    while True:
        async with job.step() as tx:
            users = await extractor.users_with_news(tx, job.workspace_id, after=after, limit=PAGE)
            for user_id in users:
                await jobs.enqueue(
                    tx, EXTRACT, user_id=user_id, workspace_id=job.workspace_id, origin="schedule"
                )
            queued += len(users)
            if users:
                after = users[-1]
                await job.progress(queued, checkpoint={"after": str(after)})
        if len(users) < PAGE:
            return {"users": queued}
