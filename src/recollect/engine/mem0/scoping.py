"""How a tenant's memories are told apart on a server that knows nothing of tenants.

Whom a memory is about is called there by the name the application gave and the tenant's id: what mem0 does
with all that it knows of somebody, it then does within one tenant. The tenant stands in the metadata, too,
and is always asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from recollect.engine.filters import compile_filter
from recollect.engine.mem0.models import NotSupported
from recollect.engine.mem0.replies import MemoryReply
from recollect.engine.models import Entities, Where

ENTITIES = {"user": "user_id", "agent": "agent_id", "app": "app_id", "run": "run_id"}
_IDS = frozenset(ENTITIES.values())
RESERVED = "recollect_"
"""What begins like this in the metadata is ours."""
TENANT = f"{RESERVED}tenant"
DIGEST = f"{RESERVED}digest"


def names_for(entities: Entities, tenant: UUID) -> dict[str, str]:
    """Whom it is about, as mem0 is told."""
    named = {theirs: getattr(entities, ours) for ours, theirs in ENTITIES.items()}
    return {theirs: _scoped(name, tenant) for theirs, name in named.items() if name is not None}


def named_in(memory: MemoryReply, tenant: UUID) -> dict[str, str]:
    """Whom it is about, as the application calls them."""
    given = {ours: getattr(memory, theirs) for ours, theirs in ENTITIES.items()}
    given["run"] = given["run"] or memory.session_id
    return {ours: unscoped(name, tenant) for ours, name in given.items() if name}


def unscoped(name: str, tenant: UUID) -> str:
    return name.removesuffix(f"@{tenant}")


def is_of(name: str, tenant: UUID) -> bool:
    return name.endswith(f"@{tenant}")


def tenant_in(name: str, called: str) -> UUID | None:
    """The tenant who calls something this, if the name on the server is theirs."""
    own, _, tenant = name.rpartition("@")
    try:
        return UUID(tenant) if own == called else None
    except ValueError:
        return None


def within(tenant: UUID, where: Where, *more: Mapping[str, Any]) -> dict[str, Any]:
    """A filter for a tenant's memories in scope."""
    # Bounds and operators are the same in every mode.
    compile_filter(where.filters)
    parts: list[Mapping[str, Any]] = [{"metadata": {TENANT: str(tenant)}}, *more]
    parts += [{theirs: name} for theirs, name in names_for(where.entities, tenant).items()]
    # mem0 wants to be told whom it is about, if only that it is somebody.
    parts.append({"OR": [{theirs: "*"} for theirs in ENTITIES.values()]})
    if where.filters:
        parts.append(_translated(where.filters, tenant))
    return {"AND": parts}


def _translated(filters: Mapping[str, Any], tenant: UUID) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in filters.items():
        if key in {"AND", "OR", "NOT"}:
            several = value if isinstance(value, Sequence) else [value]
            found[key] = [_translated(each, tenant) for each in several]
        elif key in _IDS:
            found[key] = _operand(value, tenant)
        else:
            found[key] = value
    return found


def _operand(given: Any, tenant: UUID) -> Any:
    if isinstance(given, Mapping):
        if {"contains", "icontains"} & given.keys():
            raise NotSupported("On mem0's platform, user, agent, app and run are found by whole names alone.")
        return {operator: _operand(operand, tenant) for operator, operand in given.items()}
    if isinstance(given, str):
        return given if given == "*" else _scoped(given, tenant)
    return [_operand(each, tenant) for each in given] if isinstance(given, Sequence) else given


def _scoped(name: str, tenant: UUID) -> str:
    return f"{name}@{tenant}"
