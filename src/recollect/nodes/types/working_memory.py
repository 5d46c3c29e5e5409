"""Values under keys that are forgotten after a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from recollect.kit.text import NumberOnly
from recollect.nodes.models import Model, Node
from recollect.nodes.types import key_value_store
from recollect.nodes.types.key_value_store import KeyValueStore

AN_HOUR = 3_600
A_YEAR = 366 * 24 * 3_600

Seconds = Annotated[int, Field(ge=1, le=A_YEAR), NumberOnly]


class Config(Model):
    """How long what is stored in the node lasts."""

    ttl_seconds: Annotated[Seconds, Field(description="Of what is stored from now on.")] = AN_HOUR


class Item(key_value_store.Item):
    """A value and its key, whose old value it replaces, for a while."""

    ttl_seconds: Annotated[
        Seconds | None, Field(description="How long it lasts; none: as the node says.")
    ] = None


class WorkingMemory(KeyValueStore):
    """Values under keys for as long as a task needs them: each is forgotten when its time is over."""

    name: ClassVar[str] = "WORKING_MEMORY"
    Config: ClassVar[type[Model]] = Config
    Item: ClassVar[type[Model]] = Item

    def _lifetime(self, node: Node, item: Any) -> timedelta | None:
        return timedelta(seconds=item.ttl_seconds or Config(**node.config).ttl_seconds)
