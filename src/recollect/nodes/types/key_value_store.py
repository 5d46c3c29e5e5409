"""Values under keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints

from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.kit.text import NumberOnly, Text, compact_json
from recollect.nodes.models import Model, Node
from recollect.nodes.store import queries
from recollect.nodes.types.base import Answer, MemoryType

MAX_VALUE_BYTES = 262_144
MAX_PAGE = 1_000

Key = Annotated[Text, StringConstraints(min_length=1, max_length=255)]


class NodeValueTooLarge(InvalidInput):
    """A value may be at most 256 KB of JSON; keep big things elsewhere and store a link."""

    code = "value_too_large"


class Config(Model):
    """A store of keys and values has nothing to set up."""


class Item(Model):
    """A value and its key, whose old value it replaces."""

    key: Key
    value: Annotated[Any, Field(description="Any JSON, at most 256 KB.")]


class Query(Model):
    """Which entries to read, by key."""

    key: Annotated[Key | None, Field(description="The one under this key.")] = None
    prefix: Annotated[Key | None, Field(description="Those whose key begins like this.")] = None
    after: Annotated[Key | None, Field(description="Those that come after this key: the next page.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), NumberOnly] = 100


class Selection(Model):
    """Which entries to delete; none named: all."""

    key: Key | None = None
    prefix: Key | None = None


class KeyValueStore(MemoryType):
    """Values under keys, until they are deleted."""

    name: ClassVar[str] = "KEY_VALUE_STORE"
    Config: ClassVar[type[Model]] = Config
    Item: ClassVar[type[Model]] = Item
    Query: ClassVar[type[Model]] = Query
    Selection: ClassVar[type[Model]] = Selection

    async def store(self, tx: Transaction, node: Node, item: Any) -> Answer:
        text = compact_json(item.value)
        if len(text.encode()) > MAX_VALUE_BYTES:
            raise NodeValueTooLarge
        parameters = {"key": item.key, "value": text, "ttl": self._lifetime(node, item)}
        return await tx.one(queries.put_value, {**_place(node), **parameters}, last=True)

    async def retrieve(self, tx: Transaction, node: Node, query: Any) -> Answer:
        wanted = {**query.model_dump(), "limit": query.limit + 1}
        rows = await tx.all(queries.read_values, {**_place(node), **wanted}, last=True)
        found = rows[: query.limit]
        return {"entries": found, "next": found[-1]["key"] if len(rows) > query.limit else None}

    async def forget(self, tx: Transaction, node: Node, selection: Any) -> int:
        return await tx.run(queries.delete_values, {**_place(node), **selection.model_dump()}, last=True)

    def _lifetime(self, node: Node, item: Any) -> timedelta | None:
        del node, item
        return None


def _place(node: Node) -> dict[str, Any]:
    return {"user_id": node.user_id, "memory_node_id": node.memory_node_id}
