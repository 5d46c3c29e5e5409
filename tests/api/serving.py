"""Servers beside the one that the fixtures start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.kit.secret import ServerSecret
from recollect.server import listen
from recollect.settings import Settings
from tests.conftest import SECRET, served


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Services, str]]:
    """Services with these settings, and where they are served."""
    secret = ServerSecret(SECRET.encode())
    async with (
        databases.locate(settings, secret) as database,
        build_services(settings, secret, database) as services,
        served(services) as address,
    ):
        yield services, address


def free_port() -> int:
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
        return port
