"""What clients of mem0 can ask for beyond memories; the only door to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb
from pydantic import TypeAdapter

from recollect.access.roles import if_role_allows
from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.engine.adding import checked
from recollect.engine.dialect.models import (
    Account,
    Answered,
    Request,
    RequestKind,
    Touched,
    UnknownExport,
    UnknownProject,
    UnknownRequest,
    Wishes,
)
from recollect.engine.models import Added, Addition, Memory, UnknownMemory, Where
from recollect.engine.service import Engine
from recollect.engine.store import digest, memory_from, scope_parameters
from recollect.jobs.service import Jobs

queries = Queries(__package__)

ADD = "memory.add"
PURGE_BATCH = 5_000

_addition: TypeAdapter[Addition] = TypeAdapter(Addition)


class Dialect:
    def __init__(self, engine: Engine, jobs: Jobs, *, has_model: bool, keep_days: int) -> None:
        self._engine = engine
        self._jobs = jobs
        self._has_model = has_model
        self._keep = timedelta(days=keep_days)

    # Who is calling, and in which project

    async def account(self, tx: Transaction) -> Account:
        row = await tx.one(queries.whoami, last=True)
        return Account(row["user_id"], row["project_id"], tx.principal.email)

    async def workspace_of(self, tx: Transaction, project_id: UUID) -> UUID | None:
        """Where a project's memories lie. The caller's own are those of the personal workspace."""
        row = await tx.maybe(queries.is_personal, {"id": project_id})
        if row is None:
            raise UnknownProject
        return None if row["is_personal"] else project_id

    async def wishes(self, tx: Transaction, project_id: UUID) -> Wishes:
        row = await tx.maybe(queries.get_project, {"id": project_id}, last=True)
        return Wishes(**row) if row else Wishes(custom_categories=[])

    async def change_wishes(self, tx: Transaction, project_id: UUID, wanted: Wishes) -> None:
        """Change what is given, and leave the rest (owners and admins)."""
        categories = wanted.custom_categories
        parameters = {
            "id": project_id,
            "custom_instructions": wanted.custom_instructions,
            "agent_custom_instructions": wanted.agent_custom_instructions,
            "custom_categories": None if categories is None else Jsonb(categories),
        }
        await if_role_allows(tx, queries.change_project, parameters)

    # Adding

    async def add(self, tx: Transaction, wanted: Addition) -> Answered:
        """Remember at once what takes no model. What takes one is queued: nobody waits for it."""
        checked(wanted)
        if wanted.infer and self._has_model:
            return await self._queue(tx, wanted)
        added = await self._engine.add(tx, wanted)
        touched = [Touched.by(change) for change in added.results]
        request = await self.record(tx, "ADD", wanted.workspace, touched, len(added.not_understood))
        return Answered(request, touched, added.not_understood)

    async def _queue(self, tx: Transaction, wanted: Addition) -> Answered:
        # A later fact supersedes an earlier one: those of one entity are told apart in their order.
        order = digest("memory.add", wanted.entities.parameters).hex()
        job = await self._jobs.enqueue(tx, ADD, workspace_id=wanted.workspace, in_order_of=order)
        parameters = {
            **_done(wanted.workspace, "ADD", [], 0),
            "job": job,
            "wanted": Jsonb(_addition.dump_python(wanted, mode="json")),
        }
        row = await tx.one(queries.add_request, parameters, last=True)
        return Answered(row["id"], None)

    async def queued(self, tx: Transaction, job: UUID) -> Addition | None:
        """What a job is to add, as its project wants it."""
        row = await tx.maybe(queries.take_request, {"job": job})
        if row is None:
            return None
        wanted = _addition.validate_python(row["wanted"])
        if wanted.instructions is not None:
            return wanted
        is_agents = wanted.entities.agent is not None and wanted.entities.user is None
        of_project = row["agent_custom_instructions"] if is_agents else None
        return replace(wanted, instructions=of_project or row["custom_instructions"])

    async def settle(self, tx: Transaction, job: UUID, added: Added) -> None:
        """Note what came of a queued addition."""
        touched = [Touched.by(change) for change in added.results]
        parameters = {
            "job": job,
            "results": _without_text(touched),
            "not_understood": len(added.not_understood),
        }
        await tx.run(queries.settle_request, parameters)

    # Requests

    async def record(
        self,
        tx: Transaction,
        kind: RequestKind,
        workspace: UUID | None,
        touched: Sequence[Touched] = (),
        not_understood: int = 0,
    ) -> UUID:
        """Note something that was done at once."""
        async with tx.still_open() as writing:
            parameters = _done(workspace, kind, touched, not_understood)
            row = await writing.one(queries.add_request, parameters, last=True)
        request: UUID = row["id"]
        return request

    async def request(self, tx: Transaction, request_id: UUID) -> Request:
        row = await tx.maybe(queries.get_request, {"id": request_id}, last=True)
        if row is None:
            raise UnknownRequest
        return _request(row)

    async def requests(self, tx: Transaction, *, offset: int, limit: int) -> tuple[int, list[Request]]:
        """How many there are, and some of them, the newest first."""
        counted = await tx.one(queries.count_requests)
        rows = await tx.all(queries.list_requests, {"offset": offset, "limit": limit}, last=True)
        return counted["requests"], [_request(row) for row in rows]

    # Memories by page, by chain and for export

    async def page(
        self, tx: Transaction, where: Where, *, offset: int, limit: int
    ) -> tuple[int, list[Memory]]:
        """How many memories are in scope, and some of them, the newest first."""
        tx.hold()
        count = await self._engine.count(tx, where)
        parameters = {**scope_parameters(where), "offset": offset, "limit": limit}
        rows = await tx.all(queries.page_of_memories, parameters)
        return count, [memory_from(row) for row in rows]

    async def delete_with_linked(self, tx: Transaction, memory_id: UUID) -> int:
        """Forget a memory and all that it superseded; says how many."""
        deleted = await tx.run(queries.delete_chain, {"id": memory_id, "reason": None}, last=True)
        if not deleted:
            raise UnknownMemory
        return deleted

    async def create_export(
        self, tx: Transaction, workspace: UUID | None, filters: Mapping[str, Any]
    ) -> UUID:
        """Note which memories an export is to hold. They are read when it is fetched: there is no copy."""
        scope_parameters(Where(filters=filters))
        wanted = json.dumps(filters)
        parameters = {**_done(workspace, "EXPORT", [], 0), "wanted": wanted}
        row = await tx.one(queries.add_request, parameters, last=True)
        export: UUID = row["id"]
        return export

    async def find_export(
        self,
        tx: Transaction,
        workspace: UUID | None,
        *,
        export_id: UUID | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Where:
        """What an export holds: that of this id, or the latest with these filters."""
        asked = {"id": export_id, "workspace": workspace, "wanted": json.dumps(filters)}
        row = await tx.maybe(queries.find_export, asked)
        if row is None:
            raise UnknownExport
        return Where(workspace=row["workspace_id"], filters=row["wanted"])

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget requests that were answered long ago; those of jobs go with their jobs."""
        purged, gone = 0, PURGE_BATCH
        while gone == PURGE_BATCH:
            async with tenancy.acting_as(SERVICE) as tx:
                parameters = {"age": self._keep, "batch": PURGE_BATCH}
                gone = await tx.run(queries.purge_requests, parameters, last=True)
            purged += gone
        return purged


def _done(
    workspace: UUID | None, kind: str, touched: Sequence[Touched], not_understood: int
) -> dict[str, Any]:
    return {
        "workspace": workspace,
        "job": None,
        "kind": kind,
        "wanted": None,
        "results": _without_text(touched),
        "not_understood": not_understood,
    }


def _without_text(touched: Sequence[Touched]) -> str:
    return json.dumps([{"id": str(one.id), "event": one.event} for one in touched])


def _request(row: DictRow) -> Request:
    texts = row.pop("texts")
    results = [Touched(UUID(one["id"]), one["event"], texts.get(one["id"])) for one in row.pop("results")]
    return Request(**row, results=results)
