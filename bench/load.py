"""A small HTTP/1.1 load generator: keep-alive connections, each asking again when it is answered."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import cast


@dataclass
class Outcome:
    answered: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.answered / self.seconds


class _Asking(asyncio.Protocol):
    def __init__(self, request: bytes, outcome: Outcome) -> None:
        self._request = request
        self._outcome = outcome
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's in type, only in behaviour.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._received = b""
        if head.startswith(b"HTTP/1.1 200"):
            self._outcome.answered += 1
        else:
            self._outcome.failed += 1
        if self._transport is not None:
            self._transport.write(self._request)

    def stop(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def load(
    port: int, path: str, key: str, *, connections: int, seconds: float, body: bytes | None = None
) -> Outcome:
    """GET, or with a body POST."""
    head = f"{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
    if body is None:
        request = f"GET {head}\r\n".encode()
    else:
        described = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        request = f"POST {head}{described}".encode() + body
    outcome = Outcome()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    protocols = [
        (await loop.create_connection(lambda: _Asking(request, outcome), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    outcome.seconds = time.perf_counter() - started
    for protocol in protocols:
        protocol.stop()
    return outcome
