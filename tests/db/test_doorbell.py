"""Waiting for Postgres leaves nothing behind, and nothing out."""

from __future__ import annotations

import asyncio
import gc
import os
from uuid import UUID

import psycopg
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.db.connection import Connection
from recollect.db.database import API_LOGIN, open_tenancy
from recollect.db.queries import Query
from recollect.db.tenancy import Caller, Tenancy
from tests.conftest import until

pytestmark = pytest.mark.anyio

PID = Query("pid", "Which process answers.", "select pg_backend_pid() as pid")
HANG_UP = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where usename = %s and datname = current_database()
"""


@pytest.fixture
async def user(services: Services) -> UUID:
    return (await services.access.create_user(NewUser(email="ring@example.com"))).id


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names alone


async def pid(tenancy: Tenancy, user: UUID) -> int:
    async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
        found: int = (await tx.one(PID, last=True))["pid"]
        return found


def idle_in(tenancy: Tenancy) -> Connection:
    return tenancy._api_pool._pool[0]


def is_watched(connection: Connection) -> bool:
    return connection._doorbell is not None and connection._doorbell._is_watched


async def test_closed_connections_leave_no_descriptor_behind(services: Services, user: UUID) -> None:
    before = descriptors()
    for _ in range(3):
        async with open_tenancy(services.database, 2, 1) as tenancy:
            await asyncio.gather(*(pid(tenancy, user) for _ in range(4)))
    assert descriptors() == before


async def test_a_closed_connection_is_not_watched_from_then_on(services: Services, user: UUID) -> None:
    async with open_tenancy(services.database, 1, 1) as tenancy:
        await pid(tenancy, user)
        connection = idle_in(tenancy)
        assert is_watched(connection)
        await connection.close()
        assert not is_watched(connection)


async def test_one_that_is_broken_off_is_not_watched_from_then_on(services: Services, user: UUID) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with open_tenancy(services.database, 1, 1) as tenancy:
        await pid(tenancy, user)
        connection = idle_in(tenancy)
        with pytest.raises(ZeroDivisionError):
            await connection._exchange(fail)
        assert not is_watched(connection)


async def test_who_is_hung_up_on_stops_listening_and_leaves_no_descriptor_behind(
    services: Services, user: UUID, database_url: str
) -> None:
    async with open_tenancy(services.database, 1, 1) as tenancy:
        first = await pid(tenancy, user)
        before = descriptors()
        assert is_watched(idle_in(tenancy))
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
            await other.execute(HANG_UP, [API_LOGIN])

        async def is_still() -> bool:
            return not is_watched(idle_in(tenancy))

        await until(is_still)
        assert await pid(tenancy, user) != first
        assert descriptors() == before


async def test_what_does_not_fit_into_one_write_arrives_whole(services: Services, user: UUID) -> None:
    length = Query("length", "How long a text is.", "select length(%(text)s) as length")
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        assert (await tx.one(length, {"text": "x" * 20_000_000}))["length"] == 20_000_000
