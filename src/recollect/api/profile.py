"""The profile: a user's state as a document, as it is, as it was, and how it came to be so."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Depends, Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from recollect.access.models import Model, Moment
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.http.callers import Owner, Recollect
from recollect.http.conditions import Conditional, Conditions, tag
from recollect.http.edge.body import JSON_PATCH, MERGE_PATCH, media_type_of
from recollect.http.paging import Digits, Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.kit.text import NumberOnly, Text
from recollect.profile.canonical import canonical
from recollect.profile.models import (
    AnotherVersion,
    Blame,
    Difference,
    Document,
    Reason,
    Snapshot,
    Verified,
    Version,
)
from recollect.profile.patch import MAX_OPERATIONS

router = APIRouter(tags=["profile"], route_class=RecollectRoute)

PATH = "/api/users/{userId}/profile"
LATEST = 2**31 - 1

Reading = Annotated[Transaction, transaction("profile:read")]
Writing = Annotated[Transaction, transaction("profile:write")]
VersionNumber = Annotated[int, Field(ge=0, le=LATEST), Digits]


class ProfileQuery(Model):
    version: Annotated[VersionNumber | None, Field(description="As it was at this version.")] = None
    at: Annotated[Moment | None, Field(description="As it was at this moment.")] = None
    since: Annotated[
        VersionNumber | None, Field(description="Not the document, but what has changed since this version.")
    ] = None


class Change(Model):
    base: Annotated[
        VersionNumber | None,
        Field(
            description="The version that the change was made from. Where others have changed something else "
            "since, both changes stand; where they have changed the same, it is refused."
        ),
    ] = None
    reason: Annotated[Reason | None, Field(description="Why, for the history.")] = None


class DiffQuery(Model):
    from_version: Annotated[VersionNumber, Field(alias="from", description="This version,")]
    to_version: Annotated[
        VersionNumber | None, Field(alias="to", description="and this one; none: the latest.")
    ] = None


class HistoryPage(PageQuery):
    # A version may bring a whole document with it.
    limit: Annotated[int, Field(ge=1, le=100, description="At most this many."), Digits] = 100


class BlameQuery(Model):
    path: Annotated[
        Text,
        StringConstraints(max_length=10_000),
        Field(description="A JSON Pointer (RFC 6901); empty: the whole document.", examples=["/summary"]),
    ] = ""


JsonVersion = Annotated[int, Field(ge=0, le=LATEST), NumberOnly]


class Restore(Model):
    """Which version to go back to: by its number, or the one of a moment."""

    version: JsonVersion | None = None
    at: Moment | None = None
    reason: Reason | None = None


class Undo(Model):
    """What to take back."""

    version: Annotated[
        JsonVersion | None, Field(description="What this version changed; none: the latest.")
    ] = None
    reason: Reason | None = None


class Sent(NamedTuple):
    is_merge_patch: bool
    patch: Any


async def _sent(request: Request) -> Sent:
    if not await request.body():
        raise InvalidInput("Send the change as the body.")
    return Sent(media_type_of(request.headers) == MERGE_PATCH, await request.json())


_OPERATION = {
    "type": "object",
    "required": ["op", "path"],
    "properties": {
        "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
        "path": {"type": "string", "examples": ["/summary"]},
        "from": {"type": "string"},
        "value": {},
    },
}
_PATCH_BODY = {
    "required": True,
    "content": {
        JSON_PATCH: {"schema": {"type": "array", "maxItems": MAX_OPERATIONS, "items": _OPERATION}},
        MERGE_PATCH: {"schema": {"type": "object"}},
    },
}
_TAGGED = {
    "description": "The document.",
    "headers": {
        "ETag": {"description": "Its version, in quotes.", "schema": {"type": "string"}},
        "Last-Modified": {"description": "When it was made.", "schema": {"type": "string"}},
    },
}
_WRITTEN: dict[int | str, dict[str, Any]] = {200: _TAGGED, **responses(404, 409)}
_WRITTEN_IF: dict[int | str, dict[str, Any]] = {**_WRITTEN, **responses(412)}


@router.get(
    PATH,
    summary="Read a user's profile: as it is, as it was, or what has changed in it.",
    description="The answer is the document itself, so that a JSON Pointer leads where it says; its version "
    "is the ETag. With since it is what lies between that version and the latest: little enough for a "
    "model's context.",
    response_model=Difference | Document,
    responses={200: _TAGGED, 304: {"description": "It is at that version still."}, **responses(404, 412)},
)
async def get_profile(
    user_id: Owner,
    wanted: Annotated[ProfileQuery, Query()],
    conditions: Conditional,
    tx: Reading,
    recollect: Recollect,
) -> Any:
    if wanted.since is None:
        found = await recollect.profile.reconstruct_memory(tx, user_id, version=wanted.version, at=wanted.at)
        return _fresh(found.version, conditions) or answer(found)
    if wanted.version is not None or wanted.at is not None:
        raise InvalidInput("since: what has changed up to now; leave version and at out, or see diff.")
    difference = await recollect.profile.diff(tx, user_id, wanted.since)
    return _fresh(difference.to_version, conditions) or Response(
        difference.model_dump_json(),
        headers={"ETag": tag(difference.to_version)},
        media_type="application/json",
    )


@router.patch(
    PATH,
    summary="Change a user's profile by a JSON Patch (RFC 6902) or a JSON Merge Patch (RFC 7396).",
    description="The change stands whole or not at all, as a new version. If-Match has it done at one "
    "version only; base has it merged with what others have done since.",
    response_model=Document,
    responses=_WRITTEN_IF,
    dependencies=[idempotent],
    openapi_extra={"requestBody": _PATCH_BODY},
)
async def change_profile(
    user_id: Owner,
    wanted: Annotated[Change, Query()],
    sent: Annotated[Sent, Depends(_sent)],
    conditions: Conditional,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    profile = recollect.profile
    change = profile.merge_patch if sent.is_merge_patch else profile.save_new_snapshot
    made = await change(
        tx, user_id, sent.patch, base=wanted.base, only_if=conditions.allow, reason=wanted.reason
    )
    return answer(made)


@router.put(
    PATH,
    summary="Say what a user's whole profile is to be.",
    description="What that changes is stored, as a new version; version in the document means nothing.",
    response_model=Document,
    responses=_WRITTEN_IF,
    dependencies=[idempotent],
)
async def replace_profile(
    user_id: Owner,
    wanted: Annotated[Change, Query()],
    document: Annotated[Document, Body()],
    conditions: Conditional,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    made = await recollect.profile.replace(
        tx, user_id, document, base=wanted.base, only_if=conditions.allow, reason=wanted.reason
    )
    return answer(made)


@router.get(
    f"{PATH}/history",
    summary="List a profile's versions, the latest first: what changed, when, by whom and why.",
    response_model=Page[Version],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_versions(
    user_id: Owner, wanted: Annotated[HistoryPage, Query()], tx: Reading, recollect: Recollect
) -> Any:
    async def fetch(after: list[Any] | None, limit: int) -> list[Version]:
        return await recollect.profile.history(tx, user_id, before=after[0] if after else None, limit=limit)

    name = ("profile history", str(user_id))
    return await Listing[Version](recollect.cursors, name, lambda each: [each.version]).page(wanted, fetch)


@router.get(
    f"{PATH}/diff",
    summary="Compare two versions of a profile: as a JSON Patch, and as lines for people.",
    response_model=Difference,
    responses=responses(404),
)
async def compare_versions(
    user_id: Owner, wanted: Annotated[DiffQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    return await recollect.profile.diff(tx, user_id, wanted.from_version, wanted.to_version)


@router.post(
    f"{PATH}/restore",
    summary="Make a profile what it was at a version or at a moment, as a new version.",
    response_model=Document,
    responses=_WRITTEN,
    dependencies=[idempotent],
)
async def restore_profile(user_id: Owner, wanted: Restore, tx: Writing, recollect: Recollect) -> Any:
    return answer(await recollect.profile.restore(tx, user_id, **dict(wanted)))


@router.post(
    f"{PATH}/undo",
    summary="Take back what one version of a profile changed, and nothing that came after it.",
    description="That is a new version too: undone itself, what was taken back is there again.",
    response_model=Document,
    responses=_WRITTEN,
    dependencies=[idempotent],
)
async def undo_version(
    user_id: Owner, tx: Writing, recollect: Recollect, wanted: Annotated[Undo | None, Body()] = None
) -> Any:
    return answer(await recollect.profile.undo(tx, user_id, **dict(wanted or Undo())))


@router.get(
    f"{PATH}/blame",
    summary="Say which version last changed what a path in a profile leads to.",
    response_model=Blame,
    responses=responses(404),
)
async def blame_version(
    user_id: Owner, wanted: Annotated[BlameQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    return await recollect.profile.blame(tx, user_id, wanted.path)


@router.get(
    f"{PATH}/verify",
    summary="Check a profile's whole history: each patch, each checksum, each checkpoint.",
    response_model=Verified,
    responses=responses(404),
)
async def verify_history(user_id: Owner, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.profile.verify(tx, user_id)


def answer(snapshot: Snapshot) -> Response:
    """The document itself, byte for byte the same for each version, as its tag promises."""
    headers = {"ETag": tag(snapshot.version)}
    if snapshot.created_at is not None:
        headers["Last-Modified"] = _http_date(snapshot.created_at)
    return Response(canonical(snapshot.document), headers=headers, media_type="application/json")


def _fresh(version: int, conditions: Conditions) -> Response | None:
    """What is said instead of the document, where the request's conditions want none."""
    if not conditions.is_matched_by(version):
        raise AnotherVersion(f"This is version {version}.", current_version=version)
    return Response(status_code=304, headers={"ETag": tag(version)}) if conditions.is_known(version) else None


def _http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)
