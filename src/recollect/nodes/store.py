"""Rows of memory nodes, read and written."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.nodes.models import Node

queries = Queries(__package__)


class NodeStore:
    async def put(
        self, tx: Transaction, user_id: UUID, node_id: str, memory_type: str, config: dict[str, Any]
    ) -> Node | None:
        """The node as it is now; None if it is of another type."""
        parameters = {
            "user_id": user_id,
            "memory_node_id": node_id,
            "memory_type": memory_type,
            "config": Jsonb(config),
        }
        row = await tx.maybe(queries.put_node, parameters, last=True)
        return Node(**row) if row else None

    async def get(self, tx: Transaction, user_id: UUID, node_id: str, *, last: bool = False) -> Node | None:
        parameters = {"user_id": user_id, "memory_node_id": node_id}
        row = await tx.maybe(queries.get_node, parameters, last=last)
        return Node(**row) if row else None

    async def page(self, tx: Transaction, user_id: UUID, *, after: str, limit: int) -> list[Node]:
        parameters = {"user_id": user_id, "after": after, "limit": limit}
        return [Node(**row) for row in await tx.all(queries.list_nodes, parameters, last=True)]

    async def delete(self, tx: Transaction, user_id: UUID, node_id: str) -> bool:
        parameters = {"user_id": user_id, "memory_node_id": node_id}
        return await tx.run(queries.delete_node, parameters, last=True) == 1
