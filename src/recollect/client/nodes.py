"""The memory nodes of workflows, through the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from recollect.client.connection import Connection, data_in, not_understood, plain_json, read, valid
from recollect.nodes.models import Node, NodeId, TypeDescription

_id: TypeAdapter[UUID] = TypeAdapter(UUID)
_node_id: TypeAdapter[str] = TypeAdapter(NodeId)


class _Forgotten(BaseModel):
    forgotten: int


class Nodes:
    def __init__(self, server: Connection) -> None:
        self._server = server

    async def types(self) -> list[TypeDescription]:
        """The types of memory node, and the JSON schemas of what each takes."""
        answer = await self._server.send("GET", "/api/memory-types")
        return [read(TypeDescription, item) for item in data_in(answer)]

    async def list(self, user_id: UUID | str) -> list[Node]:
        """A user's memory nodes, all of them, by name."""
        return [read(Node, item) async for item in self._server.items(_nodes_of(user_id), {})]

    def node(self, user_id: UUID | str, memory_node_id: str) -> MemoryNode:
        """A user's memory node of that name, whether or not it is defined yet."""
        name = valid(_node_id, "memory_node_id", memory_node_id)
        return MemoryNode(self._server, f"{_nodes_of(user_id)}/{name}")


class MemoryNode:
    """One memory node. What it takes and answers with depends on its type: ``nodes.types()``."""

    def __init__(self, server: Connection, path: str) -> None:
        self._server = server
        self._path = path

    async def define(self, memory_type: str, config: Mapping[str, Any] | None = None) -> Node:
        """Make it, or set it up anew; what it keeps stays. Conflict if it is of another type."""
        wanted = plain_json({"memory_type": memory_type, "config": config or {}})
        return read(Node, await self._server.send("PUT", self._path, json=wanted))

    async def get(self) -> Node:
        """What it is; NotFound if it is not defined."""
        return read(Node, await self._server.send("GET", self._path))

    async def store(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Put something in; says what is there now."""
        return await self._answer("store", data)

    async def retrieve(self, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What it keeps of what is asked for."""
        return await self._answer("retrieve", query or {})

    async def forget(self, selection: Mapping[str, Any]) -> int:
        """Delete what is selected, with ``{}`` all that it keeps; says how many."""
        answer = await self._server.send("POST", f"{self._path}/forget", json=plain_json(selection))
        return read(_Forgotten, answer).forgotten

    async def delete(self) -> None:
        """Delete it and all that it keeps; NotFound if it is not defined."""
        await self._server.send("DELETE", self._path)

    async def _answer(self, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._server.send("POST", f"{self._path}/{verb}", json=plain_json(given))
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
            raise not_understood()
        data: dict[str, Any] = answer["data"]
        return data


def _nodes_of(user_id: UUID | str) -> str:
    return f"/api/users/{valid(_id, 'user_id', user_id)}/nodes"
