"""mem0's generated profiles of users. There are none here, and its clients are told so in their terms."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from recollect.api.mem0.routing import Reading, Writing, new_router
from recollect.engine.models import EntityName
from recollect.errors import InvalidInput, NotFound
from recollect.http.callers import Recollect

router = new_router()


class NoProfiles(InvalidInput):
    """mem0's profiles are not generated here; search the user's memories instead."""

    code = "no_profiles"


@router.get("/v2/entities/user/{name:path}/profile/")
async def get_profile(name: Annotated[EntityName, Path()], tx: Reading, recollect: Recollect) -> Any:
    await recollect.dialect.account(tx)
    return {
        "profile": None,
        "status": "not_enabled",
        "entity_type": "user",
        "entity_id": name,
        "updated_at": None,
        "generation_count": 0,
    }


@router.get("/v2/profiles/settings/")
async def get_settings(tx: Reading, recollect: Recollect) -> Any:
    await recollect.dialect.account(tx)
    nothing = {"schema": None, "custom_instructions": None}
    return {"enabled": False, "capabilities": {}, "entities": {"user": nothing}}


@router.post("/v2/profiles/settings/")
@router.post("/v2/profiles/jobs/")
async def refuse(tx: Writing, recollect: Recollect) -> Any:
    await recollect.dialect.account(tx)
    raise NoProfiles


@router.get("/v2/profiles/jobs/{job_id}/")
async def get_job(tx: Reading, recollect: Recollect) -> Any:
    await recollect.dialect.account(tx)
    raise NotFound("There is no such job: mem0's profiles are not generated here.")
