"""What brings profiles up to date: activities, updates made of them, and what a model is told for that."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import Field, StringConstraints

from recollect.access.models import Model
from recollect.api.profile import LATEST, PATH, Reading, Writing
from recollect.db.tenancy import SERVICE, Transaction
from recollect.http.callers import Id, Owner, Recollect, as_service
from recollect.http.paging import Digits, Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.jobs.models import Run
from recollect.kit.text import Text
from recollect.profile.models import (
    MAX_ACTIVITIES,
    ActivityKind,
    NewActivity,
    Prompt,
    Recorded,
    RecordedActivity,
    Update,
)
from recollect.profile.prompts import MAX_DESCRIPTION, MAX_PROMPT
from recollect.profile.tasks import UPDATE

router = APIRouter(tags=["profile"], route_class=RecollectRoute)

Administering = Annotated[Transaction, transaction("admin", lets_service_in=True)]
ActivityId = Annotated[Id, Path(alias="activityId")]
PromptVersion = Annotated[int, Field(ge=1, le=LATEST), Digits, Path(alias="promptVersion")]


class NewActivities(Model):
    activities: Annotated[list[NewActivity], Field(min_length=1, max_length=MAX_ACTIVITIES)]


class ActivityQuery(PageQuery):
    kind: Annotated[ActivityKind | None, Field(description="Those of this kind.")] = None


class NewPrompt(Model):
    prompt_text: Annotated[Text, StringConstraints(min_length=1, max_length=MAX_PROMPT)]
    description: Annotated[Text, StringConstraints(max_length=MAX_DESCRIPTION)] | None = None


@router.post(
    f"{PATH}/activity",
    summary="Record what a user did, said or noted; the next update takes it into account.",
    description="What is recorded again under its external_id is there once.",
    response_model=Recorded,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def record_activities(user_id: Owner, wanted: NewActivities, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.profile.record(tx, user_id, wanted.activities)


@router.get(
    f"{PATH}/activity",
    summary="List what has been recorded of a user, the latest first.",
    response_model=Page[RecordedActivity],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_activities(
    user_id: Owner, wanted: Annotated[ActivityQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    async def fetch(after: list[Any] | None, limit: int) -> list[RecordedActivity]:
        return await recollect.profile.activities(
            tx, user_id, kind=wanted.kind, before=_position(after), limit=limit
        )

    name = ("activities", str(user_id), wanted.kind or "")
    listing = Listing[RecordedActivity](
        recollect.cursors, name, lambda each: [each.recorded_at.isoformat(), str(each.id)]
    )
    return await listing.page(wanted, fetch)


@router.delete(
    f"{PATH}/activity/{{activityId}}",
    summary="Delete a record of what a user did; what the profile has made of it stays.",
    status_code=204,
    responses=responses(404),
)
async def delete_activity(user_id: Owner, activity_id: ActivityId, tx: Writing, recollect: Recollect) -> None:
    await recollect.profile.forget_activity(tx, user_id, activity_id)


@router.post(
    f"{PATH}/update",
    summary="Have a profile brought up to date by what has been recorded since the last time.",
    description="The answer is the job; one that waits already is not queued again.",
    status_code=202,
    response_model=Run,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def update_profile(user_id: Owner, tx: Writing, recollect: Recollect) -> Any:
    job = await recollect.jobs.enqueue(tx, UPDATE, user_id=user_id, key="on demand")
    return await recollect.jobs.get(tx, job)


@router.get(
    f"{PATH}/updates",
    summary="List the runs that brought a profile up to date, or tried to, the latest first.",
    response_model=Page[Update],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_updates(
    user_id: Owner, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    async def fetch(after: list[Any] | None, limit: int) -> list[Update]:
        return await recollect.profile.updates(tx, user_id, before=_position(after), limit=limit)

    listing = Listing[Update](
        recollect.cursors,
        ("profile updates", str(user_id)),
        lambda each: [each.started_at.isoformat(), str(each.id)],
    )
    return await listing.page(wanted, fetch)


def _position(after: list[Any] | None) -> tuple[datetime, UUID] | None:
    return (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None


# What a model is told, for admins and the service


@router.get(
    "/api/profile/prompts",
    summary="List what models have been told before they update a profile, the latest first (admins).",
    response_model=Page[Prompt],
    response_model_exclude_unset=True,
)
async def list_prompts(tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return {"data": await recollect.profile_prompts.all(own)}


@router.post(
    "/api/profile/prompts",
    summary="Have models told something else from the next update on (admins).",
    status_code=201,
    response_model=Prompt,
    responses=responses(409),
)
async def add_prompt(wanted: NewPrompt, tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        by = None if tx.caller is SERVICE else tx.principal.user_id
        return await recollect.profile_prompts.change(own, wanted.prompt_text, wanted.description, by=by)


@router.post(
    "/api/profile/prompts/{promptVersion}/use",
    summary="Have models told again what an earlier version says (admins).",
    response_model=Prompt,
    responses=responses(404, 409),
)
async def use_prompt(version: PromptVersion, tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return await recollect.profile_prompts.use(own, version)
