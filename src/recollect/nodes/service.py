"""What can be done with memory nodes; the only door to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import InvalidInput
from recollect.kit.validation import told
from recollect.nodes.models import (
    AnotherType,
    Definition,
    Model,
    Node,
    NodeId,
    TypeDescription,
    UnknownNode,
    UnknownType,
)
from recollect.nodes.store import NodeStore, queries
from recollect.nodes.types import TYPES
from recollect.nodes.types.base import MemoryType

PAGE = 100
PURGE_BATCH = 5_000

_node_id: TypeAdapter[str] = TypeAdapter(NodeId)


class Nodes:
    def __init__(self) -> None:
        self._store = NodeStore()

    def types(self) -> list[TypeDescription]:
        """The types there are, and what each takes."""
        return [_described(each) for _, each in sorted(TYPES.items())]

    async def define(self, tx: Transaction, user_id: UUID, node_id: str, wanted: Definition) -> Node:
        """Make a node, or set up anew one of the same type; what it keeps stays."""
        of_type = _type(wanted.memory_type)
        config = _read(of_type.Config, wanted.config).model_dump(mode="json")
        node = await self._store.put(tx, user_id, _name(node_id), of_type.name, config)
        if node is None:
            raise AnotherType
        return node

    async def get(self, tx: Transaction, user_id: UUID, node_id: str) -> Node:
        return await self._node(tx, user_id, node_id, last=True)

    async def page(self, tx: Transaction, user_id: UUID, *, after: str = "", limit: int = PAGE) -> list[Node]:
        """A user's nodes, by their names."""
        return await self._store.page(tx, user_id, after=after, limit=limit)

    async def delete(self, tx: Transaction, user_id: UUID, node_id: str) -> None:
        """Delete a node and all that it keeps."""
        if not await self._store.delete(tx, user_id, _name(node_id)):
            raise UnknownNode

    async def store(
        self, tx: Transaction, user_id: UUID, node_id: str, data: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Put something into a node, in the form that its type takes."""
        node = await self._node(tx, user_id, node_id)
        of_type = _type(node.memory_type)
        return (await of_type.store(tx, node, _read(of_type.Item, data))).model_dump(mode="json")

    async def retrieve(
        self, tx: Transaction, user_id: UUID, node_id: str, query: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a node keeps of what is asked for."""
        node = await self._node(tx, user_id, node_id)
        of_type = _type(node.memory_type)
        return (await of_type.retrieve(tx, node, _read(of_type.Query, query))).model_dump(mode="json")

    async def forget(self, tx: Transaction, user_id: UUID, node_id: str, selection: Mapping[str, Any]) -> int:
        """Delete what is selected of what a node keeps, all if nothing is; says how many."""
        node = await self._node(tx, user_id, node_id)
        of_type = _type(node.memory_type)
        return await of_type.forget(tx, node, _read(of_type.Selection, selection))

    async def purge(self, tenancy: Tenancy) -> int:
        """Delete what has had its time, a bounded batch per transaction."""
        purged = 0
        while True:
            async with tenancy.acting_as(SERVICE) as tx:
                gone = await tx.run(queries.purge_expired, {"batch": PURGE_BATCH}, last=True)
            purged += gone
            if gone < PURGE_BATCH:
                return purged

    async def _node(self, tx: Transaction, user_id: UUID, node_id: str, *, last: bool = False) -> Node:
        node = await self._store.get(tx, user_id, _name(node_id), last=last)
        if node is None:
            raise UnknownNode
        return node


def _name(given: str) -> str:
    try:
        return _node_id.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"The name of a memory node: {error.errors()[0]['msg']}.") from error


def _type(name: str) -> MemoryType:
    try:
        return TYPES[name]
    except KeyError:
        raise UnknownType(f"{UnknownType.title()} There are: {', '.join(sorted(TYPES))}.") from None


def _described(each: MemoryType) -> TypeDescription:
    return TypeDescription(
        memory_type=each.name,
        description=" ".join((each.__doc__ or "").split()),
        config=each.Config.model_json_schema(),
        store=each.Item.model_json_schema(),
        retrieve=each.Query.model_json_schema(),
        forget=each.Selection.model_json_schema(),
    )


def _read(form: type[Model], given: Mapping[str, Any]) -> Model:
    try:
        return form.model_validate(dict(given))
    except ValidationError as error:
        listed, fields = told(error.errors())
        raise InvalidInput(listed, errors=fields) from error
