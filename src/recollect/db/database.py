"""Which Postgres this is, and how the server's own logins reach it."""

from __future__ import annotations

import re
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncClientCursor, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from recollect.db import embedded
from recollect.db.connection import Connection
from recollect.db.embedded import EmbeddedPostgres
from recollect.db.migrate import Login
from recollect.db.tenancy import Pool, Tenancy
from recollect.errors import Misconfigured
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings

API_LOGIN = "recollect_api"
WORKER_LOGIN = "recollect_worker"
DATABASE_NAME = "recollect"
SERVICE_POOL_SIZE = 4
POOL_TIMEOUT_SECONDS = 5


@dataclass(frozen=True)
class Database:
    """One Postgres. ``admin`` owns the schema and migrates; the two logins do the work."""

    admin: str
    api: str
    worker: str
    logins: tuple[Login, Login]
    embedded: EmbeddedPostgres | None


@asynccontextmanager
async def locate(settings: Settings, secret: ServerSecret) -> AsyncIterator[Database]:
    """The database named in the settings, or else the embedded one, running."""
    api_password = secret.password_for(API_LOGIN)
    worker_password = secret.password_for(WORKER_LOGIN)
    users = ("anon", "authenticated")
    logins = (
        Login(
            API_LOGIN,
            api_password,
            member_of=users,
            statement_timeout="15s",
            deployment=secret.fingerprint,
        ),
        Login(
            WORKER_LOGIN,
            worker_password,
            member_of=(*users, "service_role"),
            inherits=("recollect_gate", "recollect_queue"),
            statement_timeout="300s",
            # The queue's library names its tables without their schema.
            search_path=("public", "extensions", "jobs"),
            deployment=secret.fingerprint,
        ),
    )
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        yield Database(
            admin=url,
            api=_as_login(url, API_LOGIN, api_password),
            worker=_as_login(url, WORKER_LOGIN, worker_password),
            logins=logins,
            embedded=None,
        )
        return
    owner_password = secret.password_for("postgres")
    async with embedded.running(settings.home, password=owner_password) as server:

        def conninfo(user: str, password: str) -> str:
            return server.conninfo(user=user, password=password, dbname=DATABASE_NAME)

        yield Database(
            admin=conninfo(server.superuser, owner_password),
            api=conninfo(API_LOGIN, api_password),
            worker=conninfo(WORKER_LOGIN, worker_password),
            logins=logins,
            embedded=server,
        )


@asynccontextmanager
async def open_tenancy(database: Database, pool_size: int, worker_concurrency: int) -> AsyncIterator[Tenancy]:
    async with (
        _pool(database.api, pool_size) as api_pool,
        # One for each job at work, and some for the service's own calls.
        _pool(database.worker, worker_concurrency + SERVICE_POOL_SIZE) as service_pool,
    ):
        yield Tenancy(api_pool, service_pool)


class _WarmFirst(AsyncConnectionPool[Connection]):
    """Gives out the connection that was given back last: its Postgres process has at hand what it just used.
    Taken in turn, all have to fetch it again each time; so a search takes a tenth longer."""

    async def _get_ready_connection(self, timeout: float | None) -> Connection | None:  # noqa: ASYNC109 - theirs
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)


def _pool(conninfo: str, size: int) -> Pool:
    return _WarmFirst(
        conninfo,
        connection_class=Connection,
        min_size=1,
        max_size=size,
        max_waiting=size * 50,
        timeout=POOL_TIMEOUT_SECONDS,
        reconnect_timeout=60,
        check=_check_if_suspicious,
        open=False,
        kwargs={
            "autocommit": True,
            "row_factory": dict_row,
            "cursor_factory": AsyncClientCursor,
            "client_encoding": "utf8",
        },
    )


async def _check_if_suspicious(connection: Connection) -> None:
    # An idle connection has nothing to say. If it does, Postgres has hung up: ask, and the pool
    # replaces it. A question each time would cost every request a round trip.
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if waiting.poll(0):
        await AsyncConnectionPool.check_connection(connection)


def _as_login(url: str, login: str, password: str) -> str:
    parts = _parse(url)
    # Supabase's pooler tells projects apart by what follows the dot: postgres.<project>.
    _, dot, project = str(parts.get("user", "")).partition(".")
    return make_conninfo(**{**parts, "user": f"{login}{dot}{project}", "password": password})


def _parse(url: str) -> dict[str, Any]:
    # Pieces of a password that was not encoded are taken for host, port or options, and then quoted in
    # errors. So such an address is refused before anybody tries it.
    secret = re.match(r"\w+://[^:@/?#]*:(.*)@", url, re.DOTALL)
    if secret and re.search(r"[@:/?#\s]", secret[1]):
        raise Misconfigured(
            "In RECOLLECT_DATABASE_URL, write @ : / ? # within the password as %40 %3A %2F %3F %23."
        )
    try:
        return conninfo_to_dict(url)
    except ProgrammingError:
        # Not chained: psycopg quotes the address, password and all.
        raise Misconfigured(
            "RECOLLECT_DATABASE_URL is not a Postgres address such as "
            "postgresql://user:password@host:5432/database."
        ) from None
