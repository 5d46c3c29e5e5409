"""The bank's endpoints."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from recollect.bank.models import (
    DEFAULT_NAMESPACE,
    Append,
    Entry,
    Key,
    Namespace,
    NamespaceSummary,
    Put,
)
from recollect.db.tenancy import Transaction
from recollect.http.callers import Owner, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction

router = APIRouter(tags=["bank"], route_class=RecollectRoute)
problems = responses(404)
write_problems = responses(404, 409)

Reading = Annotated[Transaction, transaction("bank:read")]
Writing = Annotated[Transaction, transaction("bank:write")]
Administering = Annotated[Transaction, transaction("admin")]


class NamespacePage(PageQuery):
    namespace: Namespace = DEFAULT_NAMESPACE


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: Key
    namespace: Namespace = DEFAULT_NAMESPACE


class MaybeNamespace(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespace: Namespace | None = None


class OneEntry(BaseModel):
    data: Entry


class Deleted(BaseModel):
    deleted: int


@router.get(
    "/api/user/{userId}/memory",
    summary="List a user's entries in a namespace.",
    response_model=Page[Entry],
    response_model_exclude_unset=True,
    responses=problems,
)
async def list_entries(
    user_id: Owner, wanted: Annotated[NamespacePage, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[Entry](
        recollect.cursors, ("bank", str(user_id), wanted.namespace), lambda entry: [entry.key]
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[Entry]:
        return await recollect.bank.get_memory(
            tx, user_id, wanted.namespace, after=after[0] if after else "", limit=limit
        )

    return await listing.page(wanted, fetch)


@router.post(
    "/api/user/{userId}/memory",
    summary="Create or replace the value under a key.",
    response_model=OneEntry,
    responses=write_problems,
    dependencies=[idempotent],
)
async def put_entry(user_id: Owner, wanted: Put, tx: Writing, recollect: Recollect) -> Any:
    return {"data": await recollect.bank.put(tx, user_id, wanted)}


@router.delete(
    "/api/user/{userId}/memory",
    summary="Delete the value under a key.",
    status_code=204,
    responses=problems,
)
async def delete_entry(
    user_id: Owner, place: Annotated[Place, Query()], tx: Writing, recollect: Recollect
) -> None:
    await recollect.bank.delete_memory_key(tx, user_id, place.key, place.namespace)


@router.get(
    "/api/user/{userId}/memory/entry",
    summary="Read the value under a key.",
    response_model=OneEntry,
    responses=problems,
)
async def get_entry(
    user_id: Owner, place: Annotated[Place, Query()], tx: Reading, recollect: Recollect
) -> Any:
    return {"data": await recollect.bank.get_memory_key(tx, user_id, place.key, place.namespace)}


@router.post(
    "/api/user/{userId}/memory/append",
    summary="Add to the list under a key, keeping only its last entries.",
    response_model=OneEntry,
    responses=write_problems,
    dependencies=[idempotent],
)
async def append_to_entry(user_id: Owner, wanted: Append, tx: Writing, recollect: Recollect) -> Any:
    return {"data": await recollect.bank.append(tx, user_id, wanted)}


@router.get(
    "/api/user/{userId}/memory/namespaces",
    summary="List the namespaces that a user has entries in.",
    response_model=Page[NamespaceSummary],
    response_model_exclude_unset=True,
    responses=problems,
)
async def list_namespaces(
    user_id: Owner, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[NamespaceSummary](
        recollect.cursors, ("bank namespaces", str(user_id)), lambda summary: [summary.namespace]
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[NamespaceSummary]:
        return await recollect.bank.namespaces(tx, user_id, after=after[0] if after else "", limit=limit)

    return await listing.page(wanted, fetch)


@router.get(
    "/api/admin/users/{userId}/memory",
    summary="List a user's entries in all namespaces (admins).",
    response_model=Page[Entry],
    response_model_exclude_unset=True,
    responses=problems,
)
async def list_all_entries(
    user_id: Owner, wanted: Annotated[PageQuery, Query()], tx: Administering, recollect: Recollect
) -> Any:
    listing = Listing[Entry](
        recollect.cursors, ("bank, all", str(user_id)), lambda entry: [entry.namespace, entry.key]
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[Entry]:
        position = (after[0], after[1]) if after else ("", "")
        return await recollect.bank.everything(tx, user_id, after=position, limit=limit)

    return await listing.page(wanted, fetch)


@router.delete(
    "/api/admin/users/{userId}/memory",
    summary="Delete a user's entries, in one namespace or in all (admins).",
    response_model=Deleted,
    responses=problems,
)
async def clear_entries(
    user_id: Owner,
    wanted: Annotated[MaybeNamespace, Query()],
    tx: Administering,
    recollect: Recollect,
) -> Any:
    return {"deleted": await recollect.bank.clear(tx, user_id, wanted.namespace)}
