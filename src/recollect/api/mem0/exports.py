"""mem0's exports and summaries. mem0 has a model write them; here they hold the memories themselves."""

from __future__ import annotations

from typing import Any

from recollect.api.mem0.memories import MAX_LIST
from recollect.api.mem0.models import Export, NewExport
from recollect.api.mem0.routing import InProject, Reading, Writing, new_router, workspace_for
from recollect.api.mem0.shapes import of_memory
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.models import Where
from recollect.errors import InvalidInput
from recollect.http.callers import Recollect

router = new_router()


@router.post("/v1/exports/", status_code=201)
async def create_export(wanted: NewExport, project: InProject, tx: Writing, recollect: Recollect) -> Any:
    workspace = await workspace_for(recollect, tx, wanted.project_id, project)
    export = await recollect.dialect.create_export(tx, workspace, wanted.conditions())
    return {
        "message": "Memory export request received. It holds the memories as they are when it is fetched;"
        " they are not rewritten to the schema.",
        "id": export,
    }


@router.post("/v1/exports/get/")
async def get_export(wanted: Export, project: InProject, tx: Reading, recollect: Recollect) -> Any:
    workspace = await workspace_for(recollect, tx, wanted.project_id, project)
    filters = None if wanted.memory_export_id else wanted.conditions()
    where = await recollect.dialect.find_export(
        tx, workspace, export_id=wanted.memory_export_id, filters=filters
    )
    return {"memories": await _memories(recollect, tx, where)}


@router.post("/v1/summary/")
async def summary(wanted: Export, project: InProject, tx: Reading, recollect: Recollect) -> Any:
    """What there is to be summed up, the newest first."""
    workspace = await workspace_for(recollect, tx, wanted.project_id, project)
    return await _memories(recollect, tx, Where(workspace=workspace, filters=wanted.conditions()))


async def _memories(recollect: Services, tx: Transaction, where: Where) -> list[dict[str, Any]]:
    count, memories = await recollect.dialect.page(tx, where, offset=0, limit=MAX_LIST)
    if count > MAX_LIST:
        raise InvalidInput(f"There are {count:,} memories; narrow the filters down to {MAX_LIST:,}.")
    return [of_memory(memory) for memory in memories]
