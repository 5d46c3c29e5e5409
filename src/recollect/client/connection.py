"""The client's line to a server: retries, pages, streams, and errors as the server raised them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, TypeVar
from uuid import uuid4

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from recollect import errors
from recollect.errors import InvalidInput, Misconfigured, RecollectError, Unavailable
from recollect.kit.text import check_json
from recollect.profile.models import StaleVersion

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
PAGE = 1_000
# The server says that it is there far more often.
SILENCE_SECONDS = 45.0
# 502 and 504 are what a proxy says for a server that is restarting.
_PASSING_STATUSES = frozenset({502, 503, 504})
_PASSING_FAILURES = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
_KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RecollectError)
] + [StaleVersion]
_BY_CODE = {kind.code: kind for kind in _KINDS}
# The first of each: those after it are more special than a status can tell.
_BY_STATUS = dict.fromkeys(_PASSING_STATUSES, Unavailable) | {kind.status: kind for kind in reversed(_KINDS)}
_PROBLEM_FIELDS = frozenset({"type", "title", "status", "detail", "code"})
# What a repeated DELETE finds where the one before it did its work.
_GONE = frozenset({"unknown_key", "unknown_memory", "unknown_slug", "unknown_activity", "unknown_node"})


class Connection:
    def __init__(self, base_url: str, *, key: str, timeout: float) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InvalidInput("The server's address begins with http:// or https://.")
        if not (key and key.isascii() and key.isprintable()):
            raise InvalidInput("The key is not one: it has no characters, or some that no key has.")
        headers = {"Authorization": f"Bearer {key}"}
        try:
            self._http = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=timeout)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"The server's address is not one: {error}.") from error

    async def close(self) -> None:
        await self._http.aclose()

    async def stream(
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
                    raise not_understood()
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

    async def items(self, path: str, params: dict[str, Any], *, page: int = PAGE) -> AsyncIterator[Any]:
        cursor: dict[str, str] = {}
        while True:
            found = await self.send("GET", path, params={**params, **cursor, "limit": page})
            if not isinstance(found, dict) or not isinstance(found.get("data"), list):
                raise not_understood()
            for item in found["data"]:
                yield item
            if not found.get("nextCursor"):
                return
            cursor = {"cursor": found["nextCursor"]}

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
    ) -> Any:
        # Made once per call: the server answers a repeated write as it answered the first.
        own = {"Idempotency-Key": str(uuid4())} if method in {"POST", "PUT", "PATCH"} else {}
        request = self._http.build_request(method, path, headers={**own, **(headers or {})}, **content)
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
                    return body_of(response)
                failure = error_in(response)
                if method == "DELETE" and attempt > 1 and failure.code in _GONE:
                    return None  # the attempt whose answer was lost has deleted it
                if not _is_passing(failure):
                    raise failure
            if attempt < ATTEMPTS:
                await asyncio.sleep(pause(attempt, failure.headers.get("Retry-After", "")))
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


def _is_passing(failure: RecollectError) -> bool:
    # A proxy's 502 and 504 have no code; the server's own are about a model, which it has asked again itself.
    return failure.status in _PASSING_STATUSES and (
        failure.status == Unavailable.status or failure.code == Unavailable.code
    )


def valid(adapter: TypeAdapter[T], name: str, given: Any) -> T:
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"{name}: {error.errors()[0]['msg']}.") from error


def body_of(response: httpx.Response) -> Any:
    if response.status_code == httpx.codes.NO_CONTENT:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise not_understood() from error


def read(model: type[M], given: Any) -> M:
    try:
        # A newer server may say more than this client knows of.
        return model.model_validate(given, extra="ignore")
    except ValidationError as error:
        raise not_understood() from error


def given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def plain_json(fields: Mapping[str, Any]) -> Any:
    """As JSON; None stays, and means that there is none."""
    try:
        plain = to_jsonable_python(fields, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise InvalidInput(f"That cannot be written as JSON: {error}.") from error
    check_json(plain)
    return plain


def data_in(answer: Any) -> list[Any]:
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        raise not_understood()
    data: list[Any] = answer["data"]
    return data


def not_understood() -> Misconfigured:
    return Misconfigured("The answer is not one of Recollect's; check the server's address.")


def pause(attempt: int, asked_for: str) -> float:
    if asked_for.isdecimal():
        return min(float(asked_for), LONGEST_PAUSE_SECONDS)
    longest: float = min(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    # Spread out, so that clients cut off at the same moment do not come back at the same moment.
    return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads retries, guards nothing
