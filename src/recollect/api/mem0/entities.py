"""mem0's endpoints for whom memories are about: users, agents, apps and runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request

from recollect.api.mem0.models import PageNumber, PageSize
from recollect.api.mem0.routing import InProject, Reading, Writing, new_router, paged, workspace_for
from recollect.api.mem0.scope import forget
from recollect.api.mem0.shapes import of_entity
from recollect.engine.models import EntityInUse, EntityName
from recollect.errors import InvalidInput
from recollect.http.callers import Recollect

# Who resets an account goes by this list, and would leave behind whatever is not in it.
MAX_ENTITIES = 10_000

router = new_router()
EntityType = Annotated[Literal["user", "agent", "app", "run"], Path()]
# Names hold slashes, too: the address is taken apart after its percent signs were read.
Called = Annotated[EntityName, Path()]


@router.get("/v1/entities/")
async def list_entities(
    request: Request,
    project: InProject,
    tx: Reading,
    recollect: Recollect,
    page: Annotated[PageNumber | None, Query()] = None,
    page_size: Annotated[PageSize | None, Query()] = None,
) -> Any:
    workspace = await workspace_for(recollect, tx, project)
    found = await recollect.engine.entities(tx, workspace, limit=MAX_ENTITIES + 1)
    if len(found) > MAX_ENTITIES:
        raise InvalidInput(f"More than {MAX_ENTITIES:,} entities; list them with /api/memories/entities.")
    number, size = (page or 1, page_size or 100) if page or page_size else (1, len(found) or 1)
    shapes = [of_entity(one, str(tx.principal.user_id)) for one in found[(number - 1) * size : number * size]]
    return paged(request, len(found), number, size, shapes) | _totals(found)


def _totals(found: Sequence[EntityInUse]) -> dict[str, int]:
    kinds = [one.type for one in found]
    return {f"total_{kind}s": kinds.count(kind) for kind in ("user", "agent", "app", "run")}


@router.delete("/v1/entities/{entity_type}/{name:path}/")
@router.delete("/v2/entities/{entity_type}/{name:path}/")
async def delete_entity(
    entity_type: EntityType, name: Called, project: InProject, tx: Writing, recollect: Recollect
) -> Any:
    # Whose memories are all gone is gone: who deletes user and agent meets some memories twice.
    workspace = await workspace_for(recollect, tx, project)
    answer = await forget(recollect, tx, workspace, {f"{entity_type}_id": {"eq": name}})
    return answer | {"message": "Entity deleted successfully!"}
