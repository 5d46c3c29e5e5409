"""What workers do for profiles."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from recollect.jobs.models import Counts, GiveUp, Job, Task
from recollect.jobs.service import Jobs
from recollect.profile.compacting import Compactor
from recollect.profile.updating import Updater

UPDATE = "profile.update"
UPDATE_SOME = "profile.update_some"
# Of those who were active, in one transaction; and of them, in one job that any worker may take.
PAGE = 10_000
SHARE = 50
_LOWEST = UUID(int=0)


def tasks(updater: Updater, compactor: Compactor, jobs: Jobs) -> tuple[Task, ...]:
    async def update_all(job: Job) -> Counts:
        return await _share_out(job, updater, jobs)

    async def update_some(job: Job) -> Counts:
        users = [UUID(each) for each in job.arguments["users"]]
        return await updater.update_some(users, datetime.fromisoformat(job.arguments["period"]))

    async def update(job: Job) -> Counts:
        if job.user_id is None:
            raise GiveUp("A profile is updated for its user.")
        run = await updater.update(job.user_id)
        if run is None:
            return {"state": "skipped"}
        return {"state": run.state, "version": run.to_version, "error": run.error}

    async def compact(job: Job) -> Counts:
        del job  # whatever is thinned stays so
        return await compactor.compact()

    return (
        Task(
            "profile.update_all", update_all, for_service_only=True, every="7 2 * * *", cron="memory-update"
        ),
        Task(UPDATE_SOME, update_some, for_service_only=True),
        Task(UPDATE, update),
        Task("profile.compact", compact, for_service_only=True, every="23 5 * * 0", cron="profile-compact"),
    )


async def _share_out(job: Job, updater: Updater, jobs: Jobs) -> Counts:
    """Queue the updates of all who were active, in shares that any worker may take."""
    after, queued = UUID(job.checkpoint["after"]) if job.checkpoint else _LOWEST, job.done
    while True:
        async with job.step() as tx:
            users = await updater.active_users(tx, after=after, limit=PAGE)
            for begin in range(0, len(users), SHARE):
                share = [str(user_id) for user_id in users[begin : begin + SHARE]]
                # However often this job is tried, it is one period.
                arguments = {"users": share, "period": job.created_at.isoformat()}
                await jobs.enqueue(tx, UPDATE_SOME, arguments, origin="schedule")
            queued += len(users)
            if users:
                after = users[-1]
                await job.progress(queued, checkpoint={"after": str(after)})
        if len(users) < PAGE:
            return {"users": queued}
