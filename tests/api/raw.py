"""Requests byte by byte, for what no HTTP library would send."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx


@dataclass(frozen=True)
class RawAnswer:
    """As much of httpx.Response as the tests ask for."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


async def exchange(address: str, sent: bytes, *, then_close: bool = False) -> RawAnswer:
    """Send these bytes and read one answer; whatever else the server may wait for never comes."""
    target = urlsplit(address)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        writer.write(sent)
        if then_close:
            writer.write_eof()
        async with asyncio.timeout(30):
            return await _read(reader)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> RawAnswer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RawAnswer(int(head[0].split()[1]), headers, body)


def request(method: str, target: str | bytes, *headers: str, body: bytes = b"") -> bytes:
    encoded = target.encode() if isinstance(target, str) else target
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", *headers))
    return method.encode() + b" " + encoded + b" HTTP/1.1\r\n" + lines.encode("latin-1") + b"\r\n" + body


def assert_problem(
    answer: httpx.Response | RawAnswer, status: int, code: str | None = None
) -> dict[str, Any]:
    """The answer is this problem, in the one form that all problems have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert {"code", "detail", "status", "title", "type"} <= problem.keys()
    assert problem["status"] == status
    assert problem["type"] == f"urn:recollect:problem:{problem['code']}"
    assert problem["detail"]
    if code is not None:
        assert problem["code"] == code
    return problem
