"""For outside schedulers: they ask for a scheduled job, as often as they like; it runs once in its period."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from recollect.db.tenancy import SERVICE
from recollect.errors import NotFound, NotSignedIn
from recollect.http.callers import Recollect
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute
from recollect.jobs.schedule import Triggered
from recollect.kit.logs import logger
from recollect.kit.text import Text
from recollect.settings import Settings

router = APIRouter(tags=["jobs"], route_class=RecollectRoute)
log = logger("cron")

DESCRIPTION = (
    'Takes the secret CRON_SECRET as "Authorization: Bearer ...". However often it is asked for within '
    "one period of its schedule, the job is queued once; the answer then names that run."
)
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Triggered, "description": "In this period it was queued before."},
    **responses(401, 404, 503),
}

ScheduledJob = Annotated[
    Text, Path(alias="job", min_length=1, max_length=128, description="Its name on the schedule.")
]


class CronNotConfigured(NotFound):
    """This server takes no calls from outside schedulers."""

    code = "cron_not_configured"


class WrongCronSecret(NotSignedIn):
    """Send CRON_SECRET as "Authorization: Bearer ..."."""

    code = "wrong_secret"


@router.post(
    "/api/cron/{job}",
    summary="Have a scheduled job run, unless it has run in this period.",
    description=DESCRIPTION,
    status_code=202,
    response_model=Triggered,
    responses=ANSWERS,
)
# Vercel's scheduler, for one, knows no other method.
@router.get(
    "/api/cron/{job}",
    summary="The same, for schedulers that can only GET.",
    description=DESCRIPTION,
    status_code=202,
    response_model=Triggered,
    responses=ANSWERS,
)
async def trigger(job: ScheduledJob, request: Request, response: Response, recollect: Recollect) -> Any:
    _check_secret(request, recollect.settings)
    async with recollect.tenancy.acting_as(SERVICE) as tx:
        triggered = await recollect.schedule.trigger(tx, job)
    log.info("asked by an outside scheduler", job=job, is_new=triggered.is_new)
    if not triggered.is_new:
        response.status_code = 200
    return triggered


def _check_secret(request: Request, settings: Settings) -> None:
    secret = settings.cron_secret.get_secret_value() if settings.cron_secret else ""
    if not secret.strip():  # what is blank would fit whatever nobody has sent
        raise CronNotConfigured(f"{CronNotConfigured.title()} Set CRON_SECRET to take them.")
    scheme, _, presented = request.headers.get("authorization", "").partition(" ")
    # As the bytes came over the wire, where they are not necessarily Latin-1.
    is_right = hmac.compare_digest(presented.encode("latin-1", "replace"), secret.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise WrongCronSecret
