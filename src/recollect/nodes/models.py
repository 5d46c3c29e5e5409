"""The nouns of memory nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.kit.text import Text, of_form

NodeId = Annotated[
    Text,
    StringConstraints(min_length=1, max_length=255),
    *of_form(r"^[A-Za-z0-9][A-Za-z0-9._:\-]*$", "letters, digits and . _ : - only, a letter or digit first"),
]


class UnknownNode(NotFound):
    """There is no such memory node; define it first."""

    code = "unknown_node"


class UnknownType(InvalidInput):
    """There is no such type of memory node."""

    code = "unknown_memory_type"


class AnotherType(Conflict):
    """The memory node is of another type; delete it, or take another name."""

    code = "another_memory_type"


class Model(BaseModel):
    """What comes from outside."""

    model_config = ConfigDict(extra="forbid")


class Definition(Model):
    """What a memory node is to be."""

    memory_type: Annotated[Text, Field(description="Such as WORKING_MEMORY.", examples=["WORKING_MEMORY"])]
    config: Annotated[
        dict[str, Any], Field(description="As the type's schema of its configuration says.")
    ] = {}


class Node(BaseModel):
    """A memory node of a workflow."""

    id: UUID
    user_id: UUID
    memory_node_id: str
    memory_type: str
    config: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class TypeDescription(BaseModel):
    """A type of memory node, and the JSON schemas of what it takes."""

    memory_type: str
    description: str
    config: dict[str, Any]
    store: dict[str, Any]
    retrieve: dict[str, Any]
    forget: dict[str, Any]
