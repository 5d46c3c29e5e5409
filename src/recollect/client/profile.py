"""Profiles through the client: a user's state as a document with versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from recollect.client.connection import PAGE, Connection, given, not_understood, plain_json, read, valid
from recollect.client.jobs import Job
from recollect.profile.models import (
    ActivityKind,
    Blame,
    Difference,
    Document,
    NewActivity,
    Recorded,
    RecordedActivity,
    Update,
    Verified,
    Version,
)

_id: TypeAdapter[UUID] = TypeAdapter(UUID)


class Profile:
    """What is written is told back as the document that it made; its version is in it.

    ``base`` is the version that a change was made from: what others have changed since is kept, or
    ``StaleVersion`` is raised where they have changed the same. With ``strict`` it is raised if anybody has
    changed anything since; its ``extra`` says at which ``current_version`` the profile is.
    """

    def __init__(self, server: Connection) -> None:
        self._server = server

    async def get(
        self, user_id: UUID | str, *, version: int | None = None, at: datetime | None = None
    ) -> Document:
        """A user's state: the latest, that of a version, or as it was at a moment."""
        wanted = given(version=version, at=_moment(at))
        return _document(await self._server.send("GET", _of(user_id), params=wanted))

    async def since(self, user_id: UUID | str, version: int) -> Difference:
        """What has changed since a version: little enough for a model's context."""
        return read(Difference, await self._server.send("GET", _of(user_id), params={"since": version}))

    async def patch(
        self,
        user_id: UUID | str,
        patch: Sequence[Mapping[str, Any]],
        *,
        base: int | None = None,
        strict: bool = False,
        reason: str | None = None,
    ) -> Document:
        """Change it by a JSON Patch (RFC 6902)."""
        wanted = {"json": plain_json({"patch": patch})["patch"], **_written_as("json-patch")}
        return await self._write("PATCH", user_id, wanted, base=base, strict=strict, reason=reason)

    async def merge(
        self,
        user_id: UUID | str,
        changes: Mapping[str, Any],
        *,
        base: int | None = None,
        strict: bool = False,
        reason: str | None = None,
    ) -> Document:
        """Change it by a JSON Merge Patch (RFC 7396): what is None goes, everything else is set."""
        wanted = {"json": plain_json(changes), **_written_as("merge-patch")}
        return await self._write("PATCH", user_id, wanted, base=base, strict=strict, reason=reason)

    async def put(
        self,
        user_id: UUID | str,
        document: Mapping[str, Any],
        *,
        base: int | None = None,
        strict: bool = False,
        reason: str | None = None,
    ) -> Document:
        """Say what the whole document is to be."""
        wanted = {"json": plain_json(document)}
        return await self._write("PUT", user_id, wanted, base=base, strict=strict, reason=reason)

    async def history(self, user_id: UUID | str) -> AsyncIterator[Version]:
        """The versions, the latest first, a page at a time; leave the loop when there are enough."""
        async for item in self._server.items(_of(user_id, "/history"), {}, page=PAGE // 10):
            yield read(Version, item)

    async def diff(self, user_id: UUID | str, one: int, other: int | None = None) -> Difference:
        """What lies between two versions, in either direction; without a second one, up to the latest."""
        wanted = {"from": one, **given(to=other)}
        return read(Difference, await self._server.send("GET", _of(user_id, "/diff"), params=wanted))

    async def restore(
        self,
        user_id: UUID | str,
        *,
        version: int | None = None,
        at: datetime | None = None,
        reason: str | None = None,
    ) -> Document:
        """Make it what it was, as a new version."""
        wanted = given(version=version, at=_moment(at), reason=reason)
        return _document(await self._server.send("POST", _of(user_id, "/restore"), json=wanted))

    async def undo(
        self, user_id: UUID | str, *, version: int | None = None, reason: str | None = None
    ) -> Document:
        """Take back what one version changed (the latest, if none is named), and nothing that came after."""
        wanted = given(version=version, reason=reason)
        return _document(await self._server.send("POST", _of(user_id, "/undo"), json=wanted))

    async def blame(self, user_id: UUID | str, path: str = "") -> Blame:
        """Which version last changed what a JSON Pointer leads to."""
        return read(Blame, await self._server.send("GET", _of(user_id, "/blame"), params={"path": path}))

    async def verify(self, user_id: UUID | str) -> Verified:
        """Check the whole history: each patch, each checksum, each checkpoint."""
        return read(Verified, await self._server.send("GET", _of(user_id, "/verify")))

    async def record(self, user_id: UUID | str, *activities: NewActivity | Mapping[str, Any]) -> Recorded:
        """Record what a user did, said or noted; the next update takes it into account."""
        wanted = plain_json({"activities": activities})
        return read(Recorded, await self._server.send("POST", _of(user_id, "/activity"), json=wanted))

    async def activities(
        self, user_id: UUID | str, *, kind: ActivityKind | None = None
    ) -> AsyncIterator[RecordedActivity]:
        """What has been recorded, the latest first, a page at a time."""
        async for item in self._server.items(_of(user_id, "/activity"), given(kind=kind)):
            yield read(RecordedActivity, item)

    async def delete_activity(self, user_id: UUID | str, activity: UUID | str) -> None:
        """Delete a record; what the profile has made of it stays."""
        await self._server.send("DELETE", _of(user_id, f"/activity/{valid(_id, 'activity', activity)}"))

    async def update(self, user_id: UUID | str) -> Job:
        """Have it brought up to date by what has been recorded; ``wait_for_job`` waits for that."""
        return read(Job, await self._server.send("POST", _of(user_id, "/update")))

    async def updates(self, user_id: UUID | str) -> AsyncIterator[Update]:
        """The runs that brought it up to date, or tried to, the latest first, a page at a time."""
        async for item in self._server.items(_of(user_id, "/updates"), {}):
            yield read(Update, item)

    async def _write(
        self,
        method: str,
        user_id: UUID | str,
        content: Mapping[str, Any],
        *,
        base: int | None,
        strict: bool,
        reason: str | None,
    ) -> Document:
        headers = dict(content.get("headers", {}))
        if strict and base is not None:
            headers["If-Match"] = f'"{base}"'
        params = given(base=None if strict else base, reason=reason)
        sent = {**content, "headers": headers, "params": params}
        return _document(await self._server.send(method, _of(user_id), **sent))


def _of(user_id: UUID | str, path: str = "") -> str:
    return f"/api/users/{valid(_id, 'user_id', user_id)}/profile{path}"


def _written_as(kind: str) -> dict[str, Any]:
    return {"headers": {"Content-Type": f"application/{kind}+json"}}


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def _document(answer: Any) -> Document:
    if not isinstance(answer, dict) or "version" not in answer:
        raise not_understood()
    return answer
