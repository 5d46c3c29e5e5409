"""A stand-in for Supabase's auth service: real HTTP, on loopback, answering as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, Any]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Loopback:
    """``answer`` decides; None leaves the caller waiting, and bytes are sent one at a time for ever."""

    answer: Callable[[Request], Awaitable[Answer | bytes | None]]
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Loopback]:
        open_connections: set[asyncio.Task[Any]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_connections.add(task)
            try:
                await self._exchange(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                return
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            self.url = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
            yield self
        finally:
            server.close()
            for task in open_connections:
                task.cancel()
            await asyncio.gather(*open_connections, return_exceptions=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(head[0].split()[1], headers, json.loads(body) if body else None)
        self.requests.append(request)
        answer = await self.answer(request)
        if answer is None:
            await asyncio.Event().wait()
        elif isinstance(answer, bytes):
            await self._trickle(writer, answer)
        else:
            status, content = answer
            sent = json.dumps(content).encode()
            writer.write(
                b"HTTP/1.1 %d OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(sent))
            )
            writer.write(sent)
            await writer.drain()

    async def _trickle(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
