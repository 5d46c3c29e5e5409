"""Servers beside the one that the fixtures start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.conftest import SECRET

from recollect.app import create_app
from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.kit.secret import ServerSecret
from recollect.server import Server, listen
from recollect.settings import Settings


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Services, str]]:
    """Services with these settings, and where they are served."""
    secret = ServerSecret(SECRET.encode())
    async with (
        databases.locate(settings, secret) as database,
        build_services(settings, secret, database) as services,
    ):
        with listen("127.0.0.1", 0) as listener:
            started = asyncio.Event()
            server = Server(create_app(services), started.set)
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await started.wait()
                yield services, f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = server.force_exit = True
                await running


def free_port() -> int:
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
        return port
