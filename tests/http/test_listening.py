"""What the server's socket hands on to those that it accepts."""

from __future__ import annotations

import asyncio
import socket

import pytest

from recollect.server import listen

pytestmark = pytest.mark.anyio


async def test_an_answer_is_sent_at_once_and_not_when_the_client_has_confirmed_its_head() -> None:
    at_once: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        at_once.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen("127.0.0.1", 0)
    async with await asyncio.start_server(answer, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.close()
        assert await at_once
