"""mem0's endpoints for memories, those of its older clients included."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request

from recollect.api.mem0.models import (
    ENTITIES,
    Add,
    BatchDeletes,
    BatchUpdates,
    GiveFeedback,
    Listing,
    PageQuery,
    Search,
    Update,
)
from recollect.api.mem0.routing import InProject, Reading, Writing, new_router, paged, workspace_for
from recollect.api.mem0.scope import forget, to_delete
from recollect.api.mem0.shapes import of_answer, of_found, of_memory, of_version
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.models import Update as Change
from recollect.errors import InvalidInput
from recollect.http.callers import Id, Recollect

PAGE = 100
# Older clients ask for a list without pages. One that is longer is refused: to cut it would hide the rest.
MAX_LIST = 10_000

router = new_router()
MemoryId = Annotated[Id, Path()]
Pages = Annotated[PageQuery, Query()]


# Adding


@router.post("/v3/memories/add/")
async def add(wanted: Add, project: InProject, tx: Writing, recollect: Recollect) -> Any:
    return await _added(wanted, project, tx, recollect)


@router.post("/v1/memories/")
async def add_as_before(wanted: Add, project: InProject, tx: Writing, recollect: Recollect) -> Any:
    answer = await _added(wanted, project, tx, recollect)
    results = answer.get("results", [answer])
    return {"results": results, "relations": []} if wanted.output_format == "v1.1" else results


async def _added(wanted: Add, project: str | None, tx: Transaction, recollect: Services) -> dict[str, Any]:
    workspace = await workspace_for(recollect, tx, wanted.project_id, project)
    return of_answer(await recollect.dialect.add(tx, wanted.addition(workspace)))


# Finding


@router.post("/v3/memories/search/")
async def search(wanted: Search, project: InProject, tx: Reading, recollect: Recollect) -> Any:
    return {"results": await _found(wanted, project, tx, recollect)}


@router.post("/v1/memories/search/")
@router.post("/v2/memories/search/")
async def search_as_before(wanted: Search, project: InProject, tx: Reading, recollect: Recollect) -> Any:
    return await _found(wanted, project, tx, recollect)


async def _found(
    wanted: Search, project: str | None, tx: Transaction, recollect: Services
) -> list[dict[str, Any]]:
    workspace = await workspace_for(recollect, tx, wanted.project_id, project)
    found = await recollect.engine.search(tx, wanted.wanted(workspace))
    return [of_found(one, wanted.fields) for one in found]


@router.post("/v3/memories/")
async def get_all(
    request: Request,
    wanted: Listing,
    asked: Pages,
    tx: Reading,
    recollect: Recollect,
) -> Any:
    number, size = asked.page or wanted.page or 1, asked.page_size or wanted.page_size or PAGE
    workspace = await workspace_for(recollect, tx, wanted.project_id, asked.project_id)
    count, memories = await recollect.dialect.page(
        tx, wanted.where(workspace), offset=(number - 1) * size, limit=size
    )
    shapes = [of_memory(memory, wanted.fields) for memory in memories]
    return paged(request, count, number, size, shapes)


@router.post("/v2/memories/")
async def get_all_as_before(
    request: Request,
    wanted: Listing,
    asked: Pages,
    tx: Reading,
    recollect: Recollect,
) -> Any:
    if asked.page or asked.page_size or wanted.page or wanted.page_size:
        return await get_all(request, wanted, asked, tx, recollect)
    workspace = await workspace_for(recollect, tx, wanted.project_id, asked.project_id)
    count, memories = await recollect.dialect.page(tx, wanted.where(workspace), offset=0, limit=MAX_LIST)
    if count > MAX_LIST:
        raise InvalidInput(f"There are {count:,} memories; ask for them by page and page_size.")
    return [of_memory(memory, wanted.fields) for memory in memories]


@router.get("/v1/memories/")
async def list_as_before(
    request: Request, wanted: Annotated[Listing, Query()], tx: Reading, recollect: Recollect
) -> Any:
    return await get_all_as_before(request, wanted, PageQuery(), tx, recollect)


# One memory


@router.get("/v1/memories/{memory_id}/")
async def get(memory_id: MemoryId, tx: Reading, recollect: Recollect) -> Any:
    return of_memory(await recollect.engine.get(tx, memory_id))


@router.put("/v1/memories/{memory_id}/")
async def update(memory_id: MemoryId, wanted: Update, tx: Writing, recollect: Recollect) -> Any:
    keeps = "expiration_date" not in wanted.model_fields_set
    memory = await recollect.engine.update(
        tx,
        memory_id,
        text=wanted.text,
        metadata=wanted.metadata,
        expires_at="keep" if keeps else wanted.expiration_date,
        occurred_at=wanted.timestamp,
    )
    return of_memory(memory)


@router.delete("/v1/memories/{memory_id}/")
async def delete(
    memory_id: MemoryId,
    tx: Writing,
    recollect: Recollect,
    delete_linked: Annotated[bool, Query()] = False,
) -> Any:
    message = "Memory deleted successfully!"
    if not delete_linked:
        await recollect.engine.delete(tx, memory_id)
        return {"message": message}
    deleted = await recollect.dialect.delete_with_linked(tx, memory_id)
    return {"message": message, "cascade_count": deleted - 1}


@router.get("/v1/memories/{memory_id}/history/")
async def history(memory_id: MemoryId, tx: Reading, recollect: Recollect) -> Any:
    versions = await recollect.engine.history(tx, memory_id)
    # What somebody thinks of a memory does not change it.
    return [of_version(version) for version in versions if version.event != "FEEDBACK"]


@router.post("/v1/feedback/")
async def feedback(wanted: GiveFeedback, tx: Writing, recollect: Recollect) -> Any:
    memory = await recollect.engine.feedback(tx, wanted.memory_id, wanted.feedback, wanted.feedback_reason)
    return {"id": memory.id, "feedback": memory.feedback, "feedback_reason": memory.feedback_reason}


# Many


@router.delete("/v1/memories/")
async def delete_all(request: Request, project: InProject, tx: Writing, recollect: Recollect) -> Any:
    asked = request.query_params
    given = {name: asked[name] for name in (*ENTITIES, "filters", "metadata") if name in asked}
    filters = to_delete(given)
    workspace = await workspace_for(recollect, tx, project)
    return await forget(recollect, tx, workspace, filters)


@router.put("/v1/batch/")
async def batch_update(wanted: BatchUpdates, tx: Writing, recollect: Recollect) -> Any:
    changes = [Change(one.memory_id, text=one.text, metadata=one.metadata) for one in wanted.memories]
    changed = await recollect.engine.update_many(tx, changes)
    return {"message": f"Successfully updated {len(changed)} memories"}


@router.delete("/v1/batch/")
async def batch_delete(wanted: BatchDeletes, tx: Writing, recollect: Recollect) -> Any:
    deleted = await recollect.engine.delete_many(tx, [one.memory_id for one in wanted.memories])
    return {"message": f"Successfully deleted {deleted} memories"}
