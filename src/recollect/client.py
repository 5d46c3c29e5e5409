"""The Python client for applications.

async with Recollect("http://127.0.0.1:8000", key="rk_...") as memory:
    me = await memory.me()
    await memory.set_memory_key(me.id, "tone", "warm", namespace="prefs")

What the server refuses is raised as the same ``recollect.errors`` that the server raised. A busy or
restarting server is asked again a few times; writes carry an Idempotency-Key, so that asking twice does
not write twice.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Annotated, Any, Self, TypeVar
from uuid import UUID, uuid4

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from recollect import errors
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
from recollect.errors import InvalidInput, Misconfigured, NotFound, RecollectError, Unavailable
from recollect.events.models import Event

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
PAGE = 1_000
LOOK_SECONDS = 0.5
# The server says that it is there far more often.
SILENCE_SECONDS = 45.0
# 502 and 504 are what a proxy says for a server that is restarting.
_PASSING_STATUSES = frozenset({502, 503, 504})
_PASSING_FAILURES = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
_KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RecollectError)
]
_BY_CODE = {kind.code: kind for kind in _KINDS}
# The first of each: those after it are more special than a status can tell.
_BY_STATUS = dict.fromkeys(_PASSING_STATUSES, Unavailable) | {kind.status: kind for kind in reversed(_KINDS)}
_PROBLEM_FIELDS = frozenset({"type", "title", "status", "detail", "code"})
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


class FailedAttempt(BaseModel):
    attempt: int
    started_at: datetime | None
    ended_at: datetime
    error: str


class Job(BaseModel):
    """Work that the server does beside requests: how far it is, how it ended."""

    id: UUID
    task: str
    state: str
    """waiting, running, succeeded, failed or cancelled."""
    user_id: UUID | None
    workspace_id: UUID | None
    asked_by: UUID | None
    origin: str
    arguments: dict[str, Any]
    attempt: int
    done: int
    total: int | None
    result: dict[str, Any] | None
    error: str | None
    failures: list[FailedAttempt]
    created_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def has_ended(self) -> bool:
        return self.state not in {"waiting", "running"}


class Reset(BaseModel):
    """Events were missed that the server no longer knows: read anew what you keep a copy of."""

    position: int
    """Events after this one follow."""
    type: str = "reset"


class Recollect:
    """``timeout`` is in seconds, for each attempt."""

    def __init__(self, base_url: str, *, key: str, timeout: float = 30.0) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InvalidInput("The server's address begins with http:// or https://.")
        if not (key and key.isascii() and key.isprintable()):
            raise InvalidInput("The key is not one: it has no characters, or some that no key has.")
        headers = {"Authorization": f"Bearer {key}"}
        try:
            self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=timeout)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"The server's address is not one: {error}.") from error

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
        await self._http.aclose()

    async def me(self) -> Me:
        """Whom the key belongs to."""
        return _read(Me, await self._send("GET", "/api/auth/me"))

    async def get_memory(self, user_id: UUID | str, namespace: str = DEFAULT_NAMESPACE) -> list[Entry]:
        """A user's entries in a namespace, all of them, by key."""
        wanted = {"namespace": _valid(_namespace, "namespace", namespace)}
        return [_read(Entry, item) async for item in self._items(_memory_of(user_id), wanted)]

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
            answer = await self._send("GET", f"{path}/entry", params=place)
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
        return _entry(await self._send("POST", path, json=wanted.model_dump(by_alias=True)))

    async def delete_memory_key(
        self, user_id: UUID | str, key: str, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Delete the value under a key; NotFound if there is none."""
        path, place = _place(user_id, key, namespace)
        await self._send("DELETE", path, params=place)

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
        wanted = Append(**place, item=item, keep=_valid(_keep, "keep", keep))
        return _entry(await self._send("POST", f"{path}/append", json=wanted.model_dump(by_alias=True)))

    async def namespaces(self, user_id: UUID | str) -> list[NamespaceSummary]:
        """The namespaces that a user has entries in, all of them."""
        path = f"{_memory_of(user_id)}/namespaces"
        return [_read(NamespaceSummary, item) async for item in self._items(path, {})]

    async def jobs(self, *, state: str | None = None, task: str | None = None, limit: int = 100) -> list[Job]:
        """Your jobs and those of your workspaces, the newest first, at most so many."""
        wanted = {name: value for name, value in {"state": state, "task": task}.items() if value is not None}
        found: list[Job] = []
        async for item in self._items("/api/jobs", wanted, page=min(_valid(_limit, "limit", limit), PAGE)):
            found.append(_read(Job, item))
            if len(found) == limit:
                break
        return found

    async def job(self, job_id: UUID | str) -> Job:
        """One job, as it is now."""
        return _read(Job, await self._send("GET", _job(job_id)))

    async def cancel_job(self, job_id: UUID | str) -> Job:
        """Stop a job, or take it out of the queue; Conflict if it has ended."""
        return _read(Job, await self._send("POST", f"{_job(job_id)}/cancel"))

    async def retry_job(self, job_id: UUID | str) -> Job:
        """Queue a job again that failed or was cancelled; Conflict if it has not."""
        return _read(Job, await self._send("POST", f"{_job(job_id)}/retry"))

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
                async with aclosing(self._stream("/api/events", query, position)) as blocks:
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
            await asyncio.sleep(_pause(failures, failure.headers.get("Retry-After", "")))

    async def _stream(
        self, path: str, params: dict[str, Any], position: int | None
    ) -> AsyncGenerator[dict[str, str]]:
        """The fields of each server-sent event."""
        headers = {} if position is None else {"Last-Event-ID": str(position)}
        timeout = httpx.Timeout(**{**self._http.timeout.as_dict(), "read": SILENCE_SECONDS})
        try:
            async with self._http.stream(
                "GET", path, params=params, headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_in(response)
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise _not_understood()
                fields: dict[str, str] = {}
                async for line in response.aiter_lines():
                    if line:
                        name, _, value = line.partition(": ")
                        fields[name] = value
                    else:
                        yield fields
                        fields = {}
        except httpx.HTTPError as error:
            raise Unavailable("The server cannot be reached; see that it is running.") from error

    async def _items(self, path: str, params: dict[str, Any], *, page: int = PAGE) -> AsyncIterator[Any]:
        cursor: dict[str, str] = {}
        while True:
            found = await self._send("GET", path, params={**params, **cursor, "limit": page})
            if not isinstance(found, dict) or not isinstance(found.get("data"), list):
                raise _not_understood()
            for item in found["data"]:
                yield item
            if not found.get("nextCursor"):
                return
            cursor = {"cursor": found["nextCursor"]}

    async def _send(self, method: str, path: str, **content: Any) -> Any:
        # Made once per call: the server answers a repeated write as it answered the first.
        headers = {"Idempotency-Key": str(uuid4())} if method == "POST" else {}
        request = self._http.build_request(method, path, headers=headers, **content)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = await self._http.send(request)
            except _PASSING_FAILURES as error:
                failure: RecollectError = Unavailable("The server cannot be reached; see that it is running.")
                failure.__cause__ = error
            except httpx.HTTPError as error:
                raise Unavailable("The server did not answer in time, or not in HTTP.") from error
            else:
                if response.is_success:
                    return _body(response)
                failure = error_in(response)
                if method == "DELETE" and attempt > 1 and failure.code == "unknown_key":
                    return None  # the attempt whose answer was lost has deleted it
                if response.status_code not in _PASSING_STATUSES:
                    raise failure
            if attempt < ATTEMPTS:
                await asyncio.sleep(_pause(attempt, failure.headers.get("Retry-After", "")))
        raise failure


def error_in(response: httpx.Response) -> RecollectError:
    """The error that a problem document tells of, as the class that fits its code or else its status."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    code, status = str(problem.get("code", "")), response.status_code
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, RecollectError)
    detail = problem.get("detail") or f"The server answered {status} {response.reason_phrase}."
    retry_after = response.headers.get("retry-after")
    error = kind(str(detail), headers={"Retry-After": retry_after} if retry_after else None)
    error.extra = {name: value for name, value in problem.items() if name not in _PROBLEM_FIELDS}
    # A class stands for several codes; programs that look closer find the server's own.
    vars(error).update(code=code or kind.code, status=status)
    return error


def _memory_of(user_id: UUID | str) -> str:
    return f"/api/user/{_valid(_id, 'user_id', user_id)}/memory"


def _job(job_id: UUID | str) -> str:
    return f"/api/jobs/{_valid(_id, 'job_id', job_id)}"


def _place(user_id: UUID | str, key: str, namespace: str) -> tuple[str, dict[str, str]]:
    place = {"key": _valid(_key, "key", key), "namespace": _valid(_namespace, "namespace", namespace)}
    return _memory_of(user_id), place


def _valid(adapter: TypeAdapter[T], name: str, given: Any) -> T:
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"{name}: {error.errors()[0]['msg']}.") from error


def _told(block: dict[str, str]) -> Event | Reset | None:
    """An event, if the block is not only there to show that the server is."""
    if "data" not in block:
        return None
    try:
        if block.get("event") == "reset":
            return Reset(position=int(block["id"]))
        return _read(Event, json.loads(block["data"]))
    except (KeyError, ValueError) as error:
        raise _not_understood() from error


def _body(response: httpx.Response) -> Any:
    if response.status_code == httpx.codes.NO_CONTENT:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise _not_understood() from error


def _entry(answer: Any) -> Entry:
    return _read(Entry, answer.get("data") if isinstance(answer, dict) else None)


def _read(model: type[M], given: Any) -> M:
    try:
        # A newer server may say more than this client knows of.
        return model.model_validate(given, extra="ignore")
    except ValidationError as error:
        raise _not_understood() from error


def _not_understood() -> Misconfigured:
    return Misconfigured("The answer is not one of Recollect's; check the server's address.")


def _pause(attempt: int, asked_for: str) -> float:
    if asked_for.isdecimal():
        return min(float(asked_for), LONGEST_PAUSE_SECONDS)
    longest: float = min(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    # Spread out, so that clients cut off at the same moment do not come back at the same moment.
    return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads retries, guards nothing
