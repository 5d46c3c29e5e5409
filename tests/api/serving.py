"""Servers beside the one that the fixtures start."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.kit.secret import ServerSecret
from recollect.server import UnusableAddress, listen
from recollect.settings import Settings
from tests.conftest import SECRET, served

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Below those that systems hand out.
_PORTS = iter(range(20_000 + _WORKER * 500, 20_500 + _WORKER * 500))


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
    """For a server that is yet to start: nobody is given one of these by the system in the meantime, and each
    worker has its own."""
    for port in _PORTS:
        with suppress(UnusableAddress), listen("127.0.0.1", port):
            return port
    raise AssertionError("no port is left")
