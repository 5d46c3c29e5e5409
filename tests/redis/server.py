"""A real Redis on loopback, that can be killed, frozen and started again on the same port."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NotConnected

from recollect.redis import link
from tests.api.serving import free_port

BINARY = shutil.which("redis-server") or shutil.which("valkey-server")
PASSWORD = "the-password-of-redis"
DEADLINE = 30


class RedisServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self._port}/0"

    async def start(self) -> None:
        assert BINARY is not None
        options = {
            "bind": "127.0.0.1",
            "port": str(self._port),
            "dir": str(self._folder),
            "requirepass": PASSWORD,
            "save": "",
            "appendonly": "no",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.DEVNULL)
        async with asyncio.timeout(DEADLINE), self.client() as client:
            while True:
                assert self._process.poll() is None, "redis-server ended at once"
                try:
                    await client.ping()
                except NotConnected:
                    await asyncio.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        """As a crash would; it comes back empty."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Connections stay, answers do not come, and nothing is forgotten."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        return Redis.from_url(self.url, protocol=2)


@asynccontextmanager
async def running_redis() -> AsyncIterator[RedisServer]:
    if BINARY is None:
        pytest.skip("there is no redis-server here; on Debian: apt install redis-server")
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="recollect-redis-") as folder,
    ):
        # A Redis on a busy machine is not away.
        patch.setattr(link, "STEP_SECONDS", 2.0)
        patch.setattr(link, "CALL_SECONDS", 4.0)
        server = RedisServer(Path(folder))
        try:
            await server.start()
            yield server
        finally:
            server.kill()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)
