"""Transactions that know who they are for."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, ExecStatus

from recollect.access.models import NewUser
from recollect.bank.models import Append
from recollect.bootstrap import Services
from recollect.db import database as databases
from recollect.db.connection import Connection, _answers
from recollect.db.queries import Query
from recollect.db.tenancy import NOBODY, SERVICE, Caller, Tenancy, Transaction
from recollect.errors import NotAllowed, NotFound, NotSignedIn, Unavailable
from recollect.jobs.models import Job, Task
from tests.conftest import until, working

pytestmark = pytest.mark.anyio

WHO = Query("who", "Who Postgres takes us for.", "select current_user::text as role, auth.uid() as uid")


@pytest.fixture
async def user(services: Services) -> UUID:
    return (await services.access.create_user(NewUser(email=f"{uuid4().hex}@example.com"))).id


async def _who(tx: Transaction, *, last: bool = False) -> tuple[str, UUID | None]:
    row = await tx.one(WHO, last=last)
    return row["role"], row["uid"]


@pytest.mark.parametrize("last", [True, False])
async def test_role_and_claims_are_set_for_the_statement(services: Services, user: UUID, last: bool) -> None:
    tenancy = services.tenancy
    async with tenancy.acting_as(Caller.user(user), for_one_call=last) as tx:
        assert await _who(tx, last=last) == ("authenticated", user)
        assert tx.principal.user_id == user
    async with tenancy.acting_as(SERVICE, for_one_call=last) as tx:
        assert await _who(tx, last=last) == ("service_role", None)
    async with tenancy.acting_as(NOBODY, for_one_call=last) as tx:
        assert await _who(tx, last=last) == ("anon", None)


@pytest.mark.parametrize("last", [True, False])
async def test_neither_survives_the_transaction(services: Services, user: UUID, last: bool) -> None:
    database = services.database
    async with databases.open_tenancy(database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user), for_one_call=last) as tx:
            await _who(tx, last=last)
        async with tenancy._api_pool.connection() as connection:
            cursor = await connection.execute(
                "select current_user::text as role, current_setting('request.jwt.claims', true) as claims"
            )
            assert await cursor.fetchone() == {"role": databases.API_LOGIN, "claims": ""}


async def test_an_error_leaves_no_claims_for_the_next_caller(services: Services, user: UUID) -> None:
    broken = Query("broken", "Fails.", "select 1 / 0")
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with tenancy.acting_as(Caller.user(user)) as tx:
                await _who(tx)
                await tx.all(broken)
        async with tenancy.acting_as(NOBODY) as tx:
            assert await _who(tx, last=True) == ("anon", None)


async def test_a_cancelled_transaction_leaves_nothing(services: Services, user: UUID) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:

        async def dawdle() -> None:
            async with tenancy.acting_as(Caller.user(user)) as tx:
                await services.bank.append(tx, user, Append(key="k", item=1))
                await tx.all(Query("nap", "Sleeps.", "select pg_sleep(60)"))

        task = asyncio.create_task(dawdle())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with tenancy.acting_as(NOBODY) as tx:
            assert await _who(tx) == ("anon", None)
        async with tenancy.acting_as(Caller.user(user)) as tx:
            assert await services.bank.get_memory(tx, user) == []


async def test_an_exception_in_the_body_undoes_everything(services: Services, user: UUID) -> None:
    with pytest.raises(ZeroDivisionError):
        async with services.tenancy.acting_as(Caller.user(user)) as tx:
            await services.bank.set_memory_key(tx, user, "k", 1)
            raise ZeroDivisionError
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        assert await services.bank.get_memory(tx, user) == []


async def test_calls_can_be_put_together_in_one_transaction(services: Services, user: UUID) -> None:
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await services.bank.set_memory_key(tx, user, "a", 1)
        await services.bank.set_memory_key(tx, user, "b", 2)
        assert len(await services.bank.get_memory(tx, user)) == 2


async def test_a_transaction_for_one_call_takes_no_second(services: Services, user: UUID) -> None:
    async with services.tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
        await _who(tx, last=True)
        with pytest.raises(RuntimeError):
            await _who(tx)


async def test_a_refused_caller_changes_nothing(services: Services, user: UUID) -> None:
    stranger = Caller.by_key(b"made up")
    for caller, error in (
        (stranger, NotSignedIn),
        (Caller.user(uuid4()), NotSignedIn),
        (Caller.user(user).needing("nonsense"), NotAllowed),
        (Caller.user(user).about(uuid4()), NotFound),
    ):
        with pytest.raises(error):
            async with services.tenancy.acting_as(caller) as tx:
                await services.bank.set_memory_key(tx, user, "k", 1)
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        assert await services.bank.get_memory(tx, user) == []


async def test_one_write_is_one_round_trip(
    services: Services, user: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips: list[str] = []

    def counted(name: str) -> Any:
        waiting = getattr(Connection, name)

        async def wait(self: Connection, *args: Any, **options: Any) -> Any:
            trips.append(name)
            return await waiting(self, *args, **options)

        return wait

    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
            await services.bank.set_memory_key(tx, user, "k", 0)  # both statements get prepared
        for name in ("wait", "_answered"):
            monkeypatch.setattr(Connection, name, counted(name))
        async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
            await services.bank.set_memory_key(tx, user, "k", 1)
    assert trips == ["_answered"]


async def test_a_statement_that_is_given_up_leaves_its_connection_usable(
    services: Services, user: UUID
) -> None:
    pid = Query("pid", "Which session this is.", "select pg_backend_pid() as pid")
    sleep = Query("sleep", "Longer than anybody waits.", "select pg_sleep(60)")
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user)) as tx:
            before = await tx.one(pid)
        for for_one_call in (True, False):

            async def linger(for_one_call: bool = for_one_call) -> None:
                async with tenancy.acting_as(Caller.user(user), for_one_call=for_one_call) as tx:
                    await tx.one(sleep, last=True)

            lingering = asyncio.create_task(linger())
            await until(lambda: _is_asleep(services))
            lingering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lingering
            async with tenancy.acting_as(Caller.user(user)) as tx:
                assert await tx.one(pid) == before
                assert await _who(tx) == ("authenticated", user)


async def _is_asleep(services: Services) -> bool:
    asleep = (
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    )
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        row = await (await connection.execute(asleep)).fetchone()
    return row == (1,)


async def test_what_cannot_be_sent_is_refused_and_the_connection_goes_on(
    services: Services, user: UUID
) -> None:
    echo = Query("echo", "What was said.", "select %(said)s::text as said")
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        for unsendable in (object(), "half\x00"):
            with pytest.raises(psycopg.Error):
                async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
                    await tx.one(echo, {"said": unsendable}, last=True)
        # More than any buffer between us and Postgres holds, there and back.
        long = "word " * 4_000_000
        async with tenancy.acting_as(Caller.user(user), for_one_call=True) as tx:
            assert (await tx.one(echo, {"said": long}, last=True))["said"] == long


async def test_a_refused_first_use_does_not_spoil_the_statement(services: Services, user: UUID) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        for caller in (Caller.by_key(b"made up"), Caller.user(user).about(uuid4())):
            with pytest.raises((NotSignedIn, NotFound)):
                async with tenancy.acting_as(caller) as tx:
                    await _who(tx)
        for _ in range(3):
            async with tenancy.acting_as(Caller.user(user)) as tx:
                assert await _who(tx) == ("authenticated", user)
    assert not Connection.sessions_change_hands


async def test_refused_callers_leave_nothing_behind_in_the_session(services: Services, user: UUID) -> None:
    prepared = Query(
        "prepared", "What the session keeps.", "select count(*) as kept from pg_prepared_statements"
    )
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        for _ in range(30):
            with pytest.raises(NotSignedIn):
                async with tenancy.acting_as(Caller.by_session(b"garbage")) as tx:
                    await _who(tx)
        async with tenancy.acting_as(Caller.user(user)) as tx:
            await _who(tx)
            assert (await tx.one(prepared))["kept"] <= 4


async def test_a_migration_under_a_running_server_is_survived(
    services: Services, user: UUID, database_url: str
) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        for change in ("", "alter table user_memory alter column namespace type varchar(300)", ""):
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
                await other.execute((change or "select 1").encode())
            for last in (True, False):
                async with tenancy.acting_as(Caller.user(user), for_one_call=last) as tx:
                    assert await services.bank.get_memory(tx, user) == []


async def test_a_statement_is_read_by_the_names_that_it_comes_with(services: Services, user: UUID) -> None:
    pair = Query("pair", "Two columns.", "select 1 as a, 2 as b")
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user)) as tx:
            assert await tx.one(pair) == {"a": 1, "b": 2}
        # As a pooler does that prepares statements in each session that it finds, here after a migration.
        async with tenancy._api_pool.connection() as connection:
            name = connection._statements[pair]
            await connection.execute(b"deallocate " + name)
            await connection.execute(b"prepare " + name + b" as select 3 as c, 1 as a, 2 as b")
        async with tenancy.acting_as(Caller.user(user)) as tx:
            assert await tx.one(pair) == {"c": 3, "a": 1, "b": 2}


async def test_who_is_cancelled_after_a_migration_leaves_no_name_without_its_statement(
    services: Services, user: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = Connection.execute

    async def cancelled(self: Connection, query: Any, *args: Any, **options: Any) -> Any:
        done = await execute(self, query, *args, **options)
        if query == "deallocate all":
            raise asyncio.CancelledError
        return done

    async with databases.open_tenancy(services.database, 1, 1) as tenancy:

        async def read() -> None:
            async with tenancy.acting_as(Caller.user(user)) as tx:
                await services.bank.get_memory(tx, user)

        await read()
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
            await other.execute("alter table user_memory alter column namespace type varchar(300)")
        monkeypatch.setattr(Connection, "execute", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await read()
        monkeypatch.undo()
        await read()
    assert not Connection.sessions_change_hands


async def test_a_fault_of_ours_while_sending_leaves_no_connection_in_between(services: Services) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        with pytest.raises(ZeroDivisionError):
            async with tenancy._api_pool.connection() as connection:
                await connection._exchange(lambda _: 1 // 0)  # type: ignore[arg-type]
        async with tenancy._api_pool.connection() as connection:
            await connection.execute("select 1")


class _Lost:
    """A connection to Postgres that ends after some results."""

    def __init__(self, *results: ExecStatus) -> None:
        self._results = [SimpleNamespace(status=status) for status in results]

    @property
    def status(self) -> ConnStatus:
        return ConnStatus.OK if self._results else ConnStatus.BAD

    def get_result(self) -> SimpleNamespace:
        return self._results.pop(0)

    def __getattr__(self, name: str) -> Any:
        return lambda: 0


def test_some_answers_of_a_lost_connection_are_none() -> None:
    begun_and_opened: Any = _Lost(ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
    with pytest.raises(psycopg.OperationalError, match="is lost"):
        next(_answers(begun_and_opened))


async def test_an_exhausted_pool_says_so(services: Services, user: UUID) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        tenancy._api_pool.timeout = 0.2
        async with tenancy.acting_as(Caller.user(user)) as tx:
            await _who(tx)
            with pytest.raises(Unavailable) as refused:
                async with tenancy.acting_as(Caller.user(user)) as second:
                    await _who(second)
    assert "Retry-After" in refused.value.headers


async def test_a_connection_that_postgres_hung_up_on_is_replaced(
    services: Services, user: UUID, database_url: str
) -> None:
    async with databases.open_tenancy(services.database, 1, 1) as tenancy:
        async with tenancy.acting_as(Caller.user(user)) as tx:
            await _who(tx)
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
            await other.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s"
                " and datname = current_database()",
                (databases.API_LOGIN,),
            )
        async with tenancy.acting_as(Caller.user(user)) as tx:
            assert await _who(tx) == ("authenticated", user)


PGBOUNCER = """
[databases]
{dbname} = host={host} port={port} dbname={dbname} user={user} password={password}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""


@asynccontextmanager
async def pgbouncer(conninfo: str) -> AsyncIterator[str]:
    """Where a real pgbouncer, with three sessions to hand round, leads to the same database."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed (Debian: apt install pgbouncer)")
    target = conninfo_to_dict(conninfo)
    sockets = Path(str(target["host"]))
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        configuration = Path(folder) / "pgbouncer.ini"
        configuration.write_text(PGBOUNCER.format(**target, folder=folder))
        # Like Postgres it refuses to be root: it runs as whoever may enter Postgres's socket directory.
        owner = sockets.stat().st_uid
        if os.geteuid() == 0:
            os.chown(folder, owner, -1)
            os.chown(configuration, owner, -1)
        process = subprocess.Popen(
            [program, "-q", configuration], user=owner, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            while not (Path(folder) / ".s.PGSQL.6432").exists():
                assert process.poll() is None, "pgbouncer did not start"
                await asyncio.sleep(0.02)
            yield make_conninfo(conninfo, host=folder, port=6432)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
async def behind_pgbouncer(services: Services) -> AsyncIterator[Tenancy]:
    async with pgbouncer(services.database.api) as bounced:
        database = replace(services.database, api=bounced, worker=bounced)
        async with databases.open_tenancy(database, 4, 1) as tenancy:
            yield tenancy


async def test_jobs_are_done_behind_pgbouncer_too(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    async def note(job: Job) -> None:
        done.append(job.arguments["n"])

    services.jobs.offer(Task("note", note))
    async with services.tenancy.acting_as(SERVICE) as tx:
        for number in range(100):
            await services.jobs.enqueue(tx, "note", {"n": number})
    monkeypatch.setattr(Connection, "sessions_change_hands", False)
    async with pgbouncer(services.database.worker) as bounced:
        database = replace(services.database, worker=bounced)
        async with (
            databases.open_tenancy(database, 4, 4) as tenancy,
            working(replace(services, database=database, tenancy=tenancy), concurrency=4),
        ):
            await until(lambda: len(done) >= 100)
    assert sorted(done) == list(range(100))


async def test_callers_stay_apart_behind_pgbouncer_in_transaction_mode(
    services: Services, behind_pgbouncer: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [
        (await services.access.create_user(NewUser(email=f"{number}@example.com"))).id for number in range(4)
    ]

    async def work(user: UUID) -> None:
        for number in range(20):
            async with behind_pgbouncer.acting_as(Caller.user(user)) as tx:
                assert await _who(tx) == ("authenticated", user)
                await services.bank.append(tx, user, Append(key="k", item=number, keep=1000))
            async with behind_pgbouncer.acting_as(NOBODY) as tx:
                assert await _who(tx, last=True) == ("anon", None)

    monkeypatch.setattr(Connection, "sessions_change_hands", False)
    await asyncio.gather(*map(work, users))
    assert Connection.sessions_change_hands
    for user in users:
        async with services.tenancy.acting_as(Caller.user(user)) as tx:
            entry = await services.bank.get_memory_key(tx, user, "k")
        assert entry.value == list(range(20))
