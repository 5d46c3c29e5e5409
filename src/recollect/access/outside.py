"""Calls to Supabase's auth service, bounded in time and in size whatever answers there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from recollect.errors import Unavailable

MAX_BYTES = 1_048_576
RETRY = {"Retry-After": "5"}


async def call(http: httpx.AsyncClient, method: str, url: str, **request: Any) -> tuple[int, dict[str, Any]]:
    """The answer's status and the JSON object in it, empty where there is none."""
    try:
        # The client's own timeout starts again with every byte that arrives; here it is for the whole.
        async with asyncio.timeout(http.timeout.read), http.stream(method, url, **request) as answer:
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise Unavailable("Supabase's answer is too long to be one; try again.", headers=RETRY)
    except (httpx.HTTPError, TimeoutError) as error:
        raise Unavailable("Supabase did not answer; try again.", headers=RETRY) from error
    return answer.status_code, _json_object(bytes(body))


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
