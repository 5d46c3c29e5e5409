"""Which memories a client means to delete. A star stands for whatever has such an id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from recollect.api.mem0.models import ANY, ENTITIES, names_entity, read_filters
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.models import NoEntity, Where

NEEDS_ENTITY = 'Say whose memories to delete: user_id, agent_id, app_id or run_id; "*" stands for any.'


def to_delete(given: Mapping[str, str]) -> dict[str, Any]:
    """Filters out of an address. Of stars alone, one has to fit: all four stand for everything."""
    named = {name: given[name] for name in ENTITIES if name in given}
    exact = [{name: value} for name, value in named.items() if value != ANY]
    stars = [{name: ANY} for name, value in named.items() if value == ANY]
    parts: list[dict[str, Any]] = [*exact, *stars] if exact or len(stars) == 1 else []
    if len(stars) > 1 and not exact:
        parts.append({"OR": stars})
    if "filters" in given:
        parts.append(read_filters(given["filters"]))
    if not any(map(names_entity, parts)):
        raise NoEntity(NEEDS_ENTITY)
    if "metadata" in given:
        parts.append({"metadata": read_filters(given["metadata"])})
    return {"AND": parts}


async def forget(
    recollect: Services, tx: Transaction, workspace: UUID | None, filters: Mapping[str, Any]
) -> dict[str, Any]:
    """Delete, and answer as mem0 does, which does it later; here it is done."""
    tx.hold()
    await recollect.engine.delete_all(tx, Where(workspace=workspace, filters=filters))
    event = await recollect.dialect.record(tx, "DELETE", workspace)
    return {"message": "Memories deleted successfully!", "event_id": event}
