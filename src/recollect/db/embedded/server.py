"""Using the embedded Postgres: start it if need be, be counted as a user, leave again."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import structlog
from psycopg import sql
from psycopg.conninfo import make_conninfo

from recollect.db.embedded import cluster, keeper
from recollect.db.embedded.binaries import bin_dir
from recollect.db.embedded.failures import DidNotStart, did_not_start, explained
from recollect.db.embedded.locks import Lock
from recollect.db.embedded.places import Places, arrange

START_PATIENCE = 120.0
STOP_PATIENCE = 120.0
POLL = 0.02
WATCH_EVERY = 0.5
DATABASE = "recollect"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class EmbeddedPostgres:
    data_dir: Path
    socket_dir: Path
    superuser: str = "postgres"
    _places: Places | None = field(default=None, repr=False, compare=False)

    def conninfo(self, *, user: str, password: str, dbname: str) -> str:
        return make_conninfo(
            host=str(self.socket_dir),
            port=keeper.PORT,
            user=user,
            password=password,
            dbname=dbname,
        )

    async def watch(self) -> None:
        """Until cancelled: start a new keeper whenever the present one has died."""
        if self._places is None:
            raise RuntimeError("Only what running() gave can be watched.")
        pause = WATCH_EVERY
        while True:
            await asyncio.sleep(pause)
            try:
                started = await asyncio.to_thread(start_unless_kept, self._places)
            except DidNotStart as error:
                started = None
                log.warning("embedded_postgres_keeper_not_started", reason=error.detail)
            else:
                if started is None:
                    pause = WATCH_EVERY
                    continue
                log.warning("embedded_postgres_keeper_replaced", pid=started.pid)
            pause = min(pause * 2, 30.0)


@asynccontextmanager
async def running(home: Path, *, password: str, major: int = 18) -> AsyncIterator[EmbeddedPostgres]:
    """Have Postgres running for this home; the last one out waits until it has stopped."""
    with explained("Preparing the embedded Postgres", home):
        places = await asyncio.to_thread(arrange, home, major)
        users = Lock(places.users_lock)
    server = EmbeddedPostgres(places.data_dir, places.socket_dir, _places=places)
    try:
        await _become_user(users, places)
        await _until_ready(server, places, password)
        yield server
    finally:
        users.close()
        await _until_stopped_or_shared(places)


async def _become_user(users: Lock, places: Places) -> None:
    deadline = time.monotonic() + START_PATIENCE
    while not users.try_shared():
        if time.monotonic() > deadline:
            raise did_not_start("is stopping and did not finish in time", places.log)
        await asyncio.sleep(POLL)


async def _until_ready(server: EmbeddedPostgres, places: Places, password: str) -> None:
    deadline = time.monotonic() + START_PATIENCE
    our_keeper: subprocess.Popen[bytes] | None = None
    refusal = "no connection was possible"
    while time.monotonic() < deadline:
        if our_keeper is not None and not _kept(places) and await asyncio.to_thread(our_keeper.wait) != 0:
            raise did_not_start("ended each time it was started", places.log)
        started = await asyncio.to_thread(start_unless_kept, places, password)
        our_keeper = started or our_keeper
        if _announced(places):
            try:
                await _connect_once(server, password)
            except psycopg.OperationalError as error:
                refusal = str(error)
            else:
                return
            if "password authentication failed" in refusal:
                raise DidNotStart(
                    f"The Postgres in {places.data_dir} was created with another password: "
                    "restore that password, or choose another home directory."
                )
            if "starting up" in refusal:
                # It is recovering after a crash, which takes as long as it takes.
                deadline = time.monotonic() + START_PATIENCE
        await asyncio.sleep(POLL)
    raise did_not_start(f"did not accept connections in time ({refusal})", places.log)


async def _connect_once(server: EmbeddedPostgres, password: str) -> None:
    try:
        connection = await _connect(server, password, DATABASE)
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise
        await _create_database(server, password)
    else:
        await connection.close()


async def _create_database(server: EmbeddedPostgres, password: str) -> None:
    async with await _connect(server, password, "postgres") as connection:
        try:
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
            # Another process starting at the same time was first.
            return


async def _connect(
    server: EmbeddedPostgres, password: str, dbname: str
) -> psycopg.AsyncConnection[tuple[object, ...]]:
    conninfo = server.conninfo(user=server.superuser, password=password, dbname=dbname)
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True, connect_timeout=10)


def start_unless_kept(places: Places, password: str | None = None) -> subprocess.Popen[bytes] | None:
    """Start a keeper if there is none; with a password, create the cluster if there is none.

    From the check to the keeper's end one lock is held, first by us and then by the keeper, so
    that of several processes starting at once one does the work.
    """
    with explained("Starting the embedded Postgres", places.base), Lock(places.keeper_lock) as lock:
        if not lock.try_exclusive():
            return None
        keeper.announce(lock.fileno(), "")
        programs = bin_dir(places.major, places.account)
        if password is not None:
            cluster.create_unless_there(places, programs, lock, "postgres", password)
        process = keeper.start(
            keeper.Orders(
                keeper_lock=lock.fileno(),
                users_lock=str(places.users_lock),
                postgres=str(programs / "postgres"),
                data_dir=str(places.data_dir),
                socket_dir=str(places.socket_dir),
                log=str(places.log),
                uid=None if places.account is None else places.account.uid,
                gid=None if places.account is None else places.account.gid,
            )
        )
    # It may end long after we have left; somebody has to take note, or it stays a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def _kept(places: Places) -> bool:
    with Lock(places.keeper_lock) as lock:
        return not lock.try_shared()


def _announced(places: Places) -> bool:
    """Whether the keeper has a postmaster of its own, not one that it found and will end."""
    return places.keeper_lock.read_text().strip() != ""


async def _until_stopped_or_shared(places: Places) -> None:
    deadline = time.monotonic() + STOP_PATIENCE
    # Not in a thread: a program that is ending may have none to give, and nobody holds these locks for long.
    while _stopping(places):
        if time.monotonic() > deadline:
            log.warning("embedded_postgres_still_stopping", log=str(places.log))
            return
        await asyncio.sleep(POLL)


def _stopping(places: Places) -> bool:
    """Whether there is still a keeper, but no user."""
    if not _kept(places):
        return False
    with Lock(places.leaving_lock) as turn, Lock(places.users_lock) as users:
        turn.wait_exclusive()
        return users.try_exclusive() or not users.try_shared()
