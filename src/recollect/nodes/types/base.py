"""What every type of memory node can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pydantic import BaseModel

from recollect.db.tenancy import Transaction
from recollect.nodes.models import Model, Node


class MemoryType(ABC):
    """Its class docstring describes it to users; its models say what it takes."""

    name: ClassVar[str]
    Config: ClassVar[type[Model]]
    Item: ClassVar[type[Model]]
    Query: ClassVar[type[Model]]
    Selection: ClassVar[type[Model]]

    @abstractmethod
    async def store(self, tx: Transaction, node: Node, item: Any) -> BaseModel:
        """Put something in; says what is there now."""

    @abstractmethod
    async def retrieve(self, tx: Transaction, node: Node, query: Any) -> BaseModel:
        """What is kept of what is asked for."""

    @abstractmethod
    async def forget(self, tx: Transaction, node: Node, selection: Any) -> int:
        """Delete what is selected; says how many."""
