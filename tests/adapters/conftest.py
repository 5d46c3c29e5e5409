"""Real Celery workers and senders, each a process of its own, on a real Redis."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from recollect.settings import Settings
from tests.architecture.sizes import ROOT
from tests.conftest import SECRET, until
from tests.redis.server import RedisServer, running_redis

OTHER_APPLICATION = """
import os
from celery import Celery
other = Celery("other", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
"""


@dataclass
class CeleryWorker:
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def children(self) -> list[psutil.Process]:
        found: list[psutil.Process] = psutil.Process(self.process.pid).children()
        return found

    def kill(self) -> None:
        """All of it at once, as a power cut would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Site:
    """A machine with Celery on it, and settings that lead to Recollect."""

    folder: Path
    redis: RedisServer
    environment: dict[str, str]

    @asynccontextmanager
    async def worker(
        self, *options: str, app: str = "recollect.adapters.celery"
    ) -> AsyncIterator[CeleryWorker]:
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "--concurrency", "2"]
        log_file = self.folder / "celery.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--loglevel", "INFO", "--without-gossip", "--without-mingle", *options],
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )
        worker = CeleryWorker(process, log_file)
        try:
            await until(lambda: " ready." in worker.log or process.poll() is not None)
            assert process.poll() is None, worker.log
            yield worker
            if process.poll() is None:
                process.terminate()
                assert await asyncio.to_thread(process.wait, 20) == 0, worker.log
        finally:
            worker.kill()

    async def run(self, code: str) -> str:
        """What a program on this machine prints."""
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "error", "-c", code],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def send(self, code: str) -> str:
        """What another Celery application prints."""
        return await self.run(OTHER_APPLICATION + code)


@pytest.fixture
async def site(tmp_path: Path, settings: Settings) -> AsyncIterator[Site]:
    assert settings.database_url is not None
    async with running_redis() as redis:
        environment = {
            "PATH": os.environ["PATH"],
            # Its own sources, also where another checkout is installed.
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "REDIS_URL": redis.url,
            "RECOLLECT_HOME": str(settings.home),
            "RECOLLECT_SECRET_KEY": SECRET,
            "RECOLLECT_DATABASE_URL": settings.database_url.get_secret_value(),
        }
        yield Site(tmp_path, redis, environment)


class BlockedQueue:
    """Nobody can queue a job while it is held; those who try wait."""

    def __init__(self, connection: psycopg.Connection[tuple[int]]) -> None:
        self._connection = connection

    def waiting(self) -> int:
        row = self._connection.execute(
            "select count(*)::int from pg_locks where relation = 'jobs.runs'::regclass and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
        assert row is not None
        return row[0]

    def release(self) -> None:
        self._connection.rollback()


@contextmanager
def blocked_queue(database_url: str) -> Iterator[BlockedQueue]:
    with psycopg.connect(database_url) as connection:
        connection.execute("lock table jobs.runs in share mode")
        yield BlockedQueue(connection)
