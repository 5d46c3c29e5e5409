"""The Python client for applications.

async with Recollect("http://127.0.0.1:8000", key="rk_...") as memory:
    me = await memory.me()
    await memory.set_memory_key(me.id, "tone", "warm", namespace="prefs")
    await memory.memories.add("I moved to Bonn.", user="mia")
    found = await memory.memories.search("Where does she live?", user="mia")
    await memory.brain.user(me.id).put("user_city", "Lives in Bonn.")
    scratch = memory.nodes.node(me.id, "scratch")
    await scratch.define("WORKING_MEMORY", {"ttl_seconds": 600})
    await scratch.store({"key": "step", "value": 3})
    state = await memory.profile.merge(me.id, {"summary": "Calm of late."})

What the server refuses is raised as the same ``recollect.errors`` that the server raised. A busy or
restarting server is asked again a few times; writes carry an Idempotency-Key, so that asking twice does
not write twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, Field, TypeAdapter

from recollect.bank.models import (
    DEFAULT_NAMESPACE,
    MAX_KEPT,
    Append,
    Entry,
    Key,
    Namespace,
    NamespaceSummary,
    Put,
    serialised,
)
from recollect.client.brain import Brain, Facts
from recollect.client.chats import Chats
from recollect.client.connection import ATTEMPTS, PAGE, Connection, not_understood, pause, read, valid
from recollect.client.jobs import FailedAttempt, Job
from recollect.client.memories import Memories
from recollect.client.nodes import MemoryNode, Nodes
from recollect.client.profile import Profile
from recollect.client.rules import Rules
from recollect.errors import NotFound, RecollectError, Unavailable
from recollect.events.models import Event
from recollect.profile.models import StaleVersion

__all__ = [
    "Brain",
    "Chats",
    "Facts",
    "FailedAttempt",
    "Job",
    "Me",
    "Memories",
    "MemoryNode",
    "Nodes",
    "Profile",
    "Recollect",
    "Reset",
    "Rules",
    "StaleVersion",
]

LOOK_SECONDS = 0.5
_MISSING: Any = object()

_id: TypeAdapter[UUID] = TypeAdapter(UUID)
_key: TypeAdapter[str] = TypeAdapter(Key)
_namespace: TypeAdapter[str] = TypeAdapter(Namespace)
_limit: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])
_keep: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1, le=MAX_KEPT)])


class Me(BaseModel):
    """Whom the key belongs to, and what it may do."""

    id: UUID
    email: str | None
    full_name: str | None
    is_admin: bool
    scopes: list[str]


class Reset(BaseModel):
    """Events were missed that the server no longer knows: read anew what you keep a copy of."""

    position: int
    """Events after this one follow."""
    type: str = "reset"


class Recollect:
    """``timeout`` is in seconds, for each attempt."""

    def __init__(self, base_url: str, *, key: str, timeout: float = 30.0) -> None:
        self._server = Connection(base_url, key=key, timeout=timeout)
        self.memories = Memories(self._server)
        self.brain = Brain(self._server)
        self.nodes = Nodes(self._server)
        self.profile = Profile(self._server)
        self.chats = Chats(self._server)
        self.rules = Rules(self._server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._server.close()

    async def me(self) -> Me:
        """Whom the key belongs to."""
        return read(Me, await self._server.send("GET", "/api/auth/me"))

    async def get_memory(self, user_id: UUID | str, namespace: str = DEFAULT_NAMESPACE) -> list[Entry]:
        """A user's entries in a namespace, all of them, by key."""
        wanted = {"namespace": valid(_namespace, "namespace", namespace)}
        return [read(Entry, item) async for item in self._server.items(_memory_of(user_id), wanted)]

    async def get_memory_key(
        self,
        user_id: UUID | str,
        key: str,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        default: Any = _MISSING,
    ) -> Any:
        """The value under a key; without one the default, or NotFound if none is given."""
        path, place = _place(user_id, key, namespace)
        try:
            answer = await self._server.send("GET", f"{path}/entry", params=place)
        except NotFound as error:
            # Only a missing key: a missing user must not pass for it.
            if default is _MISSING or error.code != "unknown_key":
                raise
            return default
        return _entry(answer).value

    async def set_memory_key(
        self, user_id: UUID | str, key: str, value: Any, namespace: str = DEFAULT_NAMESPACE
    ) -> Entry:
        """Create or replace the value under a key."""
        path, place = _place(user_id, key, namespace)
        serialised(value)
        wanted = Put(**place, value=value)
        return _entry(await self._server.send("POST", path, json=wanted.model_dump(by_alias=True)))

    async def delete_memory_key(
        self, user_id: UUID | str, key: str, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Delete the value under a key; NotFound if there is none."""
        path, place = _place(user_id, key, namespace)
        await self._server.send("DELETE", path, params=place)

    async def append_memory_key(
        self,
        user_id: UUID | str,
        key: str,
        item: Any,
        *,
        keep: int = 10,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Entry:
        """Add to the list under a key, keeping its last entries."""
        path, place = _place(user_id, key, namespace)
        serialised(item)
        wanted = Append(**place, item=item, keep=valid(_keep, "keep", keep))
        return _entry(
            await self._server.send("POST", f"{path}/append", json=wanted.model_dump(by_alias=True))
        )

    async def namespaces(self, user_id: UUID | str) -> list[NamespaceSummary]:
        """The namespaces that a user has entries in, all of them."""
        path = f"{_memory_of(user_id)}/namespaces"
        return [read(NamespaceSummary, item) async for item in self._server.items(path, {})]

    async def jobs(self, *, state: str | None = None, task: str | None = None, limit: int = 100) -> list[Job]:
        """Your jobs and those of your workspaces, the newest first, at most so many."""
        wanted = {name: value for name, value in {"state": state, "task": task}.items() if value is not None}
        found: list[Job] = []
        async for item in self._server.items(
            "/api/jobs", wanted, page=min(valid(_limit, "limit", limit), PAGE)
        ):
            found.append(read(Job, item))
            if len(found) == limit:
                break
        return found

    async def job(self, job_id: UUID | str) -> Job:
        """One job, as it is now."""
        return read(Job, await self._server.send("GET", _job(job_id)))

    async def cancel_job(self, job_id: UUID | str) -> Job:
        """Stop a job, or take it out of the queue; Conflict if it has ended."""
        return read(Job, await self._server.send("POST", f"{_job(job_id)}/cancel"))

    async def retry_job(self, job_id: UUID | str) -> Job:
        """Queue a job again that failed or was cancelled; Conflict if it has not."""
        return read(Job, await self._server.send("POST", f"{_job(job_id)}/retry"))

    async def wait_for_job(
        self, job_id: UUID | str, *, on_progress: Callable[[Job], None] | None = None
    ) -> Job:
        """The job when it has ended, however it did. ``on_progress`` is told of each look at it."""
        while True:
            job = await self.job(job_id)
            if on_progress is not None:
                on_progress(job)
            if job.has_ended:
                return job
            await asyncio.sleep(LOOK_SECONDS)

    async def events(
        self, types: Sequence[str] = (), *, after: int | None = None
    ) -> AsyncIterator[Event | Reset]:
        """What happens, as it happens: from now on, or after a position. ``types`` may name families
        (``"bank.*"``). A server that goes away is waited for, and then tells what was missed; one that is
        not there to begin with is Unavailable. Leave the loop to stop listening."""
        query = {"types": ",".join(types)} if types else {}
        position, failures, was_there = after, 0, False
        while True:
            try:
                async with aclosing(self._server.stream("/api/events", query, position)) as blocks:
                    async for block in blocks:
                        was_there = True
                        if (told := _told(block)) is not None:
                            position, failures = told.position, 0
                            yield told
                        elif "id" in block:
                            # Where it begins: an interruption before the first event loses none.
                            position = int(block["id"])
                failure: RecollectError = Unavailable("The server has ended the connection.")
            except Unavailable as error:
                failure = error
            failures += 1
            if failures >= ATTEMPTS and not was_there:
                raise failure
            await asyncio.sleep(pause(failures, failure.headers.get("Retry-After", "")))


def _memory_of(user_id: UUID | str) -> str:
    return f"/api/user/{valid(_id, 'user_id', user_id)}/memory"


def _job(job_id: UUID | str) -> str:
    return f"/api/jobs/{valid(_id, 'job_id', job_id)}"


def _place(user_id: UUID | str, key: str, namespace: str) -> tuple[str, dict[str, str]]:
    place = {"key": valid(_key, "key", key), "namespace": valid(_namespace, "namespace", namespace)}
    return _memory_of(user_id), place


def _told(block: dict[str, str]) -> Event | Reset | None:
    """An event, if the block is not only there to show that the server is."""
    if "data" not in block:
        return None
    try:
        if block.get("event") == "reset":
            return Reset(position=int(block["id"]))
        return read(Event, json.loads(block["data"]))
    except (KeyError, ValueError) as error:
        raise not_understood() from error


def _entry(answer: Any) -> Entry:
    return read(Entry, answer.get("data") if isinstance(answer, dict) else None)
