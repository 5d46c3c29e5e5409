"""Our nouns in the shapes in which mem0's clients read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid5

from recollect.access.membership_models import WorkspaceMember
from recollect.engine.dialect.models import Answered, Request, Touched
from recollect.engine.models import EntityInUse, Found, Memory, Version
from recollect.events.models import matches
from recollect.events.webhooks.models import Endpoint, EndpointWithSecret
from recollect.jobs.models import State

STATUS: dict[State, str] = {
    "waiting": "PENDING",
    "running": "RUNNING",
    "succeeded": "SUCCEEDED",
    "failed": "FAILED",
    "cancelled": "FAILED",
}
# mem0 knows three things that can happen to a memory. What was superseded is no longer told, as if deleted.
EVENT = {"SUPERSEDE": "DELETE", "RESTORE": "ADD"}
# mem0's names for what happens, and ours.
HEARD = {"memory_add": "memory.added", "memory_update": "memory.updated", "memory_delete": "memory.deleted"}


def of_memory(memory: Memory, fields: Sequence[str] | None = None) -> dict[str, Any]:
    shape = {
        "id": memory.id,
        "memory": memory.text,
        "user_id": memory.user,
        "agent_id": memory.agent,
        "app_id": memory.app,
        "run_id": memory.run,
        "session_id": memory.run,
        "metadata": memory.metadata,
        "categories": memory.categories,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "timestamp": memory.occurred_at,
        "expiration_date": _last_day(memory.expires_at),
        "replaced_by": memory.superseded_by,
    }
    return _only(shape, fields)


def of_found(found: Found, fields: Sequence[str] | None = None) -> dict[str, Any]:
    shape = of_memory(found) | {"score": found.score}
    if found.breakdown is not None:
        signals = {"semantic": found.breakdown.meaning, "bm25": found.breakdown.lexical}
        shape["score_breakdown"] = {name: value for name, value in signals.items() if value is not None}
    return _only(shape, fields)


def _only(shape: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    return {name: value for name, value in shape.items() if not fields or name == "id" or name in fields}


def _last_day(expires_at: datetime | None) -> str | None:
    # mem0 tells the last day on which it is there; ours is the moment from which it is not.
    return (expires_at - timedelta(microseconds=1)).date().isoformat() if expires_at else None


def of_touched(touched: Touched) -> dict[str, Any]:
    event = EVENT.get(touched.event, touched.event)
    return {"id": touched.id, "memory": touched.text, "data": {"memory": touched.text}, "event": event}


def of_answer(answered: Answered) -> dict[str, Any]:
    if answered.results is None:
        message = "Memory processing has been queued for background execution"
        return {"message": message, "status": "PENDING", "event_id": answered.id}
    shape: dict[str, Any] = {
        "message": "Memories processed.",
        "status": "SUCCEEDED",
        "event_id": answered.id,
        "results": [of_touched(one) for one in answered.results],
    }
    if answered.not_understood:
        shape["not_understood"] = list(answered.not_understood)
    return shape


def of_request(request: Request) -> dict[str, Any]:
    began = request.started_at or request.created_at
    latency = (request.completed_at - began).total_seconds() * 1_000 if request.completed_at else None
    return {
        "id": request.id,
        "event_type": request.kind,
        "status": STATUS[request.state],
        "payload": {},
        "metadata": {"not_understood": request.not_understood},
        "results": [of_touched(one) for one in request.results],
        "error": request.error if STATUS[request.state] == "FAILED" else None,
        "created_at": request.created_at,
        "updated_at": request.completed_at or began,
        "started_at": request.started_at,
        "completed_at": request.completed_at,
        "latency": latency,
    }


def of_version(version: Version) -> dict[str, Any]:
    event = EVENT.get(version.event, version.event)
    return {
        "id": uuid5(version.memory_id, str(version.version)),
        "memory_id": version.memory_id,
        "input": [],
        "old_memory": version.previous,
        "new_memory": None if event == "DELETE" else version.text,
        "event": event,
        "metadata": version.metadata,
        "created_at": version.made_at,
        "updated_at": version.made_at,
    }


def of_entity(entity: EntityInUse, owner: str) -> dict[str, Any]:
    return {
        "id": entity.name,
        "name": entity.name,
        "type": entity.type,
        "owner": owner,
        "metadata": None,
        "total_memories": entity.memories,
        "created_at": entity.first_at,
        "updated_at": entity.updated_at,
    }


def of_member(member: WorkspaceMember) -> dict[str, Any]:
    return {
        "username": member.full_name or member.email,
        "email": member.email,
        "role": "OWNER" if member.role == "owner" else "READER",
    }


def of_webhook(endpoint: Endpoint) -> dict[str, Any]:
    shape = {
        "webhook_id": endpoint.id,
        "name": endpoint.description,
        "url": endpoint.url,
        "event_types": [name for name, ours in HEARD.items() if matches(ours, endpoint.types)],
        "owner": endpoint.created_by,
        "is_active": endpoint.is_enabled,
        "project": endpoint.workspace_id,
        "created_at": endpoint.created_at,
        "updated_at": endpoint.created_at,
    }
    if isinstance(endpoint, EndpointWithSecret):
        shape["secret"] = endpoint.secret
    return shape
