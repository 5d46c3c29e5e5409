"""Calls of mem0's platform over HTTP, and what its refusals mean to our callers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import SecretStr

from recollect.engine.mem0.models import AT_ONCE, Mem0Away, Mem0NotConfigured
from recollect.engine.models import UnknownMemory
from recollect.errors import InvalidInput, Misconfigured, TooManyAttempts

RETRY = {"Retry-After": "5"}
# For an addition that the platform takes on and does in its own time.
WAITS = (0.2, 0.5, 1, 2, 4, 8)


class Wire:
    def __init__(self, http: httpx.AsyncClient, host: str, key: SecretStr | None) -> None:
        self._http = http
        self._host = host.rstrip("/")
        self._key = key
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        if self._key is None:
            raise Mem0NotConfigured
        headers = {"Authorization": f"Token {self._key.get_secret_value()}"}
        try:
            async with self._turns:
                answer = await self._http.request(
                    method, f"{self._host}{path}", json=body, params=query, headers=headers
                )
            _refuse(answer)
            return answer.json()
        except httpx.HTTPError as error:
            raise Mem0Away(headers=RETRY) from error
        except ValueError as error:
            raise Mem0Away("mem0 answers with something that is not JSON.", headers=RETRY) from error

    async def results_of(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What an addition came to, which may take a while."""
        for wait in WAITS:
            if answer.get("status") == "FAILED":
                raise Mem0Away("mem0 has failed to store a memory.", headers=RETRY)
            if answer.get("results"):
                results: list[dict[str, Any]] = answer["results"]
                return results
            await asyncio.sleep(wait)
            answer = await self.ask("GET", f"/v1/event/{answer['event_id']}/")
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
