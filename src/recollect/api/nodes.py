"""The memory nodes of workflows: the same endpoints for every type, whose schemas say what it takes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel

from recollect.db.tenancy import Transaction
from recollect.http.callers import Owner, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.nodes.models import Definition, Node, NodeId, TypeDescription

router = APIRouter(tags=["nodes"], route_class=RecollectRoute)

NODES = "/api/users/{userId}/nodes"
NODE = NODES + "/{memoryNodeId}"
problems = responses(404)
write_problems = responses(404, 409)

Reading = Annotated[Transaction, transaction("nodes:read")]
Writing = Annotated[Transaction, transaction("nodes:write")]
Name = Annotated[NodeId, Path(alias="memoryNodeId", description="The workflow's own name for the node.")]
Given = Annotated[
    dict[str, Any], Body(description="In the form that the node's type takes: /api/memory-types.")
]


class Types(BaseModel):
    data: list[TypeDescription]


class Answer(BaseModel):
    data: dict[str, Any]


class Forgotten(BaseModel):
    forgotten: int


@router.get(
    "/api/memory-types",
    summary="List the types of memory node, and what each takes.",
    response_model=Types,
)
async def list_types(tx: Reading, recollect: Recollect) -> Any:
    await recollect.access.me(tx)
    return {"data": recollect.nodes.types()}


@router.get(
    NODES,
    summary="List a user's memory nodes.",
    response_model=Page[Node],
    response_model_exclude_unset=True,
    responses=problems,
)
async def list_nodes(
    user_id: Owner, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[Node](recollect.cursors, ("nodes", str(user_id)), lambda node: [node.memory_node_id])

    async def fetch(after: list[Any] | None, limit: int) -> list[Node]:
        return await recollect.nodes.page(tx, user_id, after=after[0] if after else "", limit=limit)

    return await listing.page(wanted, fetch)


@router.put(
    NODE,
    summary="Define a memory node, or set up anew one of the same type.",
    response_model=Node,
    responses=write_problems,
)
async def define_node(
    user_id: Owner, node_id: Name, wanted: Definition, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.nodes.define(tx, user_id, node_id, wanted)


@router.get(NODE, summary="Read what a memory node is.", response_model=Node, responses=problems)
async def get_node(user_id: Owner, node_id: Name, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.nodes.get(tx, user_id, node_id)


@router.delete(
    NODE,
    summary="Delete a memory node and all that it keeps.",
    status_code=204,
    responses=problems,
)
async def delete_node(user_id: Owner, node_id: Name, tx: Writing, recollect: Recollect) -> None:
    await recollect.nodes.delete(tx, user_id, node_id)


@router.post(
    f"{NODE}/store",
    summary="Put something into a memory node.",
    response_model=Answer,
    responses=write_problems,
    dependencies=[idempotent],
)
async def store_in_node(user_id: Owner, node_id: Name, data: Given, tx: Writing, recollect: Recollect) -> Any:
    return {"data": await recollect.nodes.store(tx, user_id, node_id, data)}


@router.post(
    f"{NODE}/retrieve",
    summary="Read what a memory node keeps.",
    response_model=Answer,
    responses=problems,
)
async def retrieve_from_node(
    user_id: Owner, node_id: Name, query: Given, tx: Reading, recollect: Recollect
) -> Any:
    return {"data": await recollect.nodes.retrieve(tx, user_id, node_id, query)}


@router.post(
    f"{NODE}/forget",
    summary="Delete what is selected of what a memory node keeps; all of it if nothing is.",
    response_model=Forgotten,
    responses=write_problems,
    dependencies=[idempotent],
)
async def forget_in_node(
    user_id: Owner, node_id: Name, selection: Given, tx: Writing, recollect: Recollect
) -> Any:
    return {"forgotten": await recollect.nodes.forget(tx, user_id, node_id, selection)}
