"""Values under keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, StringConstraints

from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.kit.text import NumberOnly, Text, compact_json
from recollect.nodes.models import Model, Node
from recollect.nodes.store import queries
from recollect.nodes.types.base import MemoryType

MAX_VALUE_BYTES = 262_144
MAX_PAGE = 1_000
# A page of the largest values would otherwise be 256 MB.
MAX_PAGE_BYTES = 4 * 1_048_576

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
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="At most this many."), NumberOnly] = 100


class Selection(Model):
    """Which entries to delete; none named: all."""

    key: Key | None = None
    prefix: Key | None = None


class Entry(BaseModel):
    """A value under its key."""

    key: str
    value: Any
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class Entries(BaseModel):
    """Entries by key; if more follow, ``next`` is what they come after."""

    entries: list[Entry]
    next: str | None


class KeyValueStore(MemoryType):
    """Values under keys, until they are deleted."""

    name: ClassVar[str] = "KEY_VALUE_STORE"
    Config: ClassVar[type[Model]] = Config
    Item: ClassVar[type[Model]] = Item
    Query: ClassVar[type[Model]] = Query
    Selection: ClassVar[type[Model]] = Selection

    async def store(self, tx: Transaction, node: Node, item: Any) -> Entry:
        text = compact_json(item.value)
        if len(text.encode()) > MAX_VALUE_BYTES:
            raise NodeValueTooLarge
        parameters = {"key": item.key, "value": text, "ttl": self._lifetime(node, item)}
        return Entry(**await tx.one(queries.put_value, {**_place(node), **parameters}, last=True))

    async def retrieve(self, tx: Transaction, node: Node, query: Any) -> Entries:
        wanted = {**query.model_dump(), "bytes": MAX_PAGE_BYTES}
        rows = await tx.all(queries.read_values, {**_place(node), **wanted}, last=True)
        more_follow = rows and rows[-1]["is_followed"]
        return Entries(entries=[Entry(**row) for row in rows], next=rows[-1]["key"] if more_follow else None)

    async def forget(self, tx: Transaction, node: Node, selection: Any) -> int:
        wanted = {**_place(node), **selection.model_dump()}
        forgotten: int = (await tx.one(queries.delete_values, wanted, last=True))["forgotten"]
        return forgotten

    def _lifetime(self, node: Node, item: Any) -> timedelta | None:
        del node, item
        return None


def _place(node: Node) -> dict[str, Any]:
    return {"user_id": node.user_id, "memory_node_id": node.memory_node_id}
