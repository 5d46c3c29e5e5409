"""The model: whether there is one, what it was asked for, and what that took."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from recollect.db.tenancy import Transaction
from recollect.http.callers import Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.routing import RecollectRoute, transaction
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text
from recollect.llm.models import Call, ModelStatus, Outcome

router = APIRouter(tags=["model"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("model:read")]


class CallQuery(PageQuery):
    purpose: Annotated[
        Text | None, Field(min_length=1, max_length=100, description="Only those for this purpose.")
    ] = None
    outcome: Annotated[Outcome | None, Field(description="Only those that ended so.")] = None


@router.get(
    "/api/model",
    summary="Say which model there is, and what the caller has used of it today.",
    response_model=ModelStatus,
)
async def get_model(tx: Reading, recollect: Recollect) -> Any:
    return await recollect.llm.status(tx)


@router.get(
    "/api/model/calls",
    summary="List the caller's questions to the model and those in workspaces they manage, the newest first.",
    response_model=Page[Call],
    response_model_exclude_unset=True,
)
async def list_calls(wanted: Annotated[CallQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(call: Call) -> list[str]:
        return [call.started_at.isoformat(), str(call.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Call]:
        before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        found = await recollect.llm.calls(
            tx, purpose=wanted.purpose, outcome=wanted.outcome, before=before, limit=limit
        )
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return found

    name = ("model calls", wanted.purpose or "", wanted.outcome or "")
    return await Listing[Call](recollect.cursors, name, position).page(wanted, fetch)
