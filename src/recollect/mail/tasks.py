"""What workers do about mail."""

from __future__ import annotations

from recollect.jobs.models import Counts, GiveUp, Job, Task
from recollect.mail.service import Mail
from recollect.mail.smtp import MailServerRefuses


def tasks(mail: Mail) -> tuple[Task, ...]:
    async def digest(job: Job) -> Counts:
        try:
            done = await mail.deliver(job.tenancy, job.step)
        except MailServerRefuses as error:
            # Settings do not change by waiting. The messages stay, and the next digest tries again.
            raise GiveUp(error.detail) from error
        return vars(done)

    return (
        Task(
            "mail.digest",
            digest,
            attempts=4,
            for_service_only=True,
            every="*/15 * * * *",
            cron="mail-digest",
        ),
    )
