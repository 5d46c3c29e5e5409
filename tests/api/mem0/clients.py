"""Both of mem0's clients, called alike, and what tests do with them all the time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any


class Client:
    """Either of both clients, called alike: ``await client("add", "I like tea", user_id="ana")``."""

    def __init__(self, real: Any) -> None:
        self.real = real

    async def __call__(self, method: str, *given: Any, **options: Any) -> Any:
        return await self._call(getattr(self.real, method), *given, **options)

    async def project(self, method: str, *given: Any, **options: Any) -> Any:
        return await self._call(getattr(self.real.project, method), *given, **options)

    async def _call(self, method: Callable[..., Any], *given: Any, **options: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            return await method(*given, **options)
        # The server runs in this very loop, which a call that blocks would hold up.
        return await asyncio.to_thread(method, *given, **options)


async def remember(client: Client, *texts: str, **about: Any) -> list[str]:
    """Have it keep what was said, turn by turn; the ids of the turns."""
    about = {"user_id": "mia", "infer": False, **about}
    added = await client("add", [{"role": "user", "content": text} for text in texts], **about)
    assert added["status"] == "SUCCEEDED"
    return [result["id"] for result in added["results"]]


async def texts_of(client: Client, **filters: Any) -> list[str]:
    """What it remembers, the newest first."""
    page = await client("get_all", filters=filters or {"user_id": "mia"}, page_size=1_000)
    return [memory["memory"] for memory in page["results"]]


MakeClient = Callable[..., Awaitable[Client]]
