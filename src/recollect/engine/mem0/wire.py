"""Calls of mem0's platform over HTTP, and what its refusals mean to our callers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from recollect.engine.mem0.models import AT_ONCE, Mem0Away, Mem0NotConfigured
from recollect.engine.mem0.replies import AddedReply
from recollect.engine.models import UnknownMemory
from recollect.errors import InvalidInput, Misconfigured, TooManyAttempts

R = TypeVar("R", bound=BaseModel)

RETRY = {"Retry-After": "5"}
# For an addition that the platform takes on and does in its own time.
WAITS = (0.2, 0.5, 1, 2, 4, 8)


class Wire:
    """``seconds`` are for one answer, to its end."""

    def __init__(
        self, http: httpx.AsyncClient, host: str, key: SecretStr | None, *, seconds: float = 30
    ) -> None:
        self._http = http
        self._seconds = seconds
        self._host = host.rstrip("/")
        self._key = key
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(
        self,
        kind: type[R],
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> R:
        if self._key is None:
            raise Mem0NotConfigured
        headers = {"Authorization": f"Token {self._key.get_secret_value()}"}
        try:
            async with self._turns, asyncio.timeout(self._seconds):
                answer = await self._http.request(
                    method, f"{self._host}{path}", json=body, params=query, headers=headers
                )
            _refuse(answer)
            return kind.model_validate_json(answer.content)
        except (httpx.HTTPError, TimeoutError) as error:
            raise Mem0Away(headers=RETRY) from error
        except ValidationError as error:
            raise Mem0Away("mem0 answers in a way that is not understood here.") from error

    async def stored(self, body: Mapping[str, Any]) -> UUID:
        """Add one memory, and wait for it if it takes a while."""
        answer = await self.ask(AddedReply, "POST", "/v3/memories/add/", body=body)
        event = answer.event_id
        for wait in WAITS:
            if answer.results:
                return answer.results[0].id
            if answer.status == "FAILED" or event is None:
                raise Mem0Away("mem0 has failed to store a memory.", headers=RETRY)
            await asyncio.sleep(wait)
            answer = await self.ask(AddedReply, "GET", f"/v1/event/{quote(event, safe='')}/")
        raise Mem0Away("mem0 has not stored the memory in time; the same request again adds nothing twice.")


def _refuse(answer: httpx.Response) -> None:
    status = answer.status_code
    if status < 400:
        return
    if status in {401, 403}:
        raise Misconfigured("mem0 does not accept MEM0_API_KEY; look at the key in mem0's dashboard.")
    if status == 404:
        raise UnknownMemory
    if status == 429:
        raise TooManyAttempts(
            "mem0 wants fewer calls; try again later.",
            headers={"Retry-After": answer.headers.get("Retry-After", RETRY["Retry-After"])},
        )
    if status in {400, 409, 413, 422}:
        raise InvalidInput(f"mem0 does not accept this: {_detail(answer)}")
    raise Mem0Away(headers=RETRY)


def _detail(answer: httpx.Response) -> str:
    try:
        found = answer.json()
    except ValueError:
        found = None
    detail = found.get("detail") if isinstance(found, dict) else found
    return str(detail)[:500] if detail else f"status {answer.status_code}."
