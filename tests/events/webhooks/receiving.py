"""A receiver of webhooks: a real HTTP server on loopback that answers as it is told to, well or badly."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    def verified(self, secret: str) -> Any:
        """The payload, if the library of the receivers finds it well signed."""
        return Webhook(secret).verify(self.body, self.headers)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


def status(code: int, body: bytes = b"", *headers: str) -> Answer:
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", *headers]

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    return answer


OK = status(200, b"thanks")


@dataclass
class Receiver:
    """``answers`` are given in turn, the last of them for ever."""

    port: int = 0
    host: str = "127.0.0.1"
    scheme: str = "http"
    answers: list[Answer] = field(default_factory=lambda: [OK])
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/hooks"

    async def until(self, count: int) -> list[Received]:
        async with asyncio.timeout(30), self.news:
            await self.news.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            request, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            async with self.news:
                self.received.append(Received(request.split(" ")[1], headers, body))
                self.news.notify_all()
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def receiving(
    *answers: Answer, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver(host=host, scheme="https" if tls else "http")
    if answers:
        receiver.answers = list(answers)
    server = await asyncio.start_server(receiver.serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        # Whoever never answers goes on after its test, but holds no socket.
        for writer in receiver.open:
            writer.transport.abort()
