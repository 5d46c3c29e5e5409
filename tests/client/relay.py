"""A server between client and server that loses answers, or gives answers of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Relay:
    upstream: str
    address: str = ""
    lost_answers: int = 0
    """How many requests reach the server without their answer reaching the client."""
    own_answers: list[bytes] = field(default_factory=list)
    """Given instead of the server's, one for each request."""
    is_silent: bool = False
    """Reads, and says nothing until the client hangs up."""
    requests: list[bytes] = field(default_factory=list)

    @property
    def idempotency_keys(self) -> list[str]:
        found = (re.search(rb"idempotency-key: (\S+)", request, re.IGNORECASE) for request in self.requests)
        return [match[1].decode() for match in found if match]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _message(reader)
        self.requests.append(request)
        if self.is_silent:
            await reader.read()
        elif self.own_answers:
            writer.write(self.own_answers.pop(0))
        else:
            answer = await self._passed_on(request)
            if self.lost_answers:
                self.lost_answers -= 1
            else:
                writer.write(answer)
        await writer.drain()
        writer.close()

    async def _passed_on(self, request: bytes) -> bytes:
        to = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(to.hostname, to.port)
        writer.write(request)
        answer = await _message(reader)
        writer.close()
        return answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "connection: close", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def relaying(upstream: str) -> AsyncIterator[Relay]:
    relay = Relay(upstream)
    server = await asyncio.start_server(relay.handle, "127.0.0.1", 0)
    relay.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay
