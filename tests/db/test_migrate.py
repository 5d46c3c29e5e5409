"""Migrations are applied once, in order, whole or not at all, and recorded as the CLI does."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from recollect.db import migrate as m
from recollect.db import statements
from recollect.db.turns import require_postgres_16
from recollect.errors import Misconfigured, Unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("scratch-postgres")]

SLEEP_IF_TOLD = """
create table half (id int);
select pg_sleep(seconds) from slow;
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write migrations with versions 2026010100000<n>."""

    def write(*sqls: str, first: int = 0) -> Path:
        for number, sql in enumerate(sqls, first):
            (tmp_path / f"{20260101000000 + number}_step_{number}.sql").write_text(sql)
        return tmp_path

    return write


async def ask(conninfo: str, query: str, *parameters: object) -> list[TupleRow]:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
        cursor = await conn.execute(query.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []


async def tables(conninfo: str) -> set[str]:
    rows = await ask(conninfo, "select relname from pg_stat_user_tables where schemaname = 'public'")
    return {name for (name,) in rows}


async def records(conninfo: str) -> list[TupleRow]:
    if not await ask(conninfo, "select 1 from pg_namespace where nspname = 'supabase_migrations'"):
        return []
    return await ask(
        conninfo,
        "select version, name, statements from supabase_migrations.schema_migrations order by 1",
    )


async def state(conninfo: str, directory: Path | None = None) -> m.Status:
    async with await psycopg.AsyncConnection.connect(conninfo) as conn:
        return await m.status(conn, directory)


async def until_sleeping(superuser: str) -> int:
    for _ in range(200):
        rows = await ask(
            superuser,
            "select pid from pg_stat_activity where wait_event = 'PgSleep' and usename = 'owner'",
        )
        if rows:
            return int(rows[0][0])
        await asyncio.sleep(0.02)
    raise AssertionError("no migration went to sleep")


async def test_all_are_applied_in_order_and_recorded_and_then_there_is_nothing_to_do(
    owner: str,
) -> None:
    seen: list[m.Migration] = []
    before = await state(owner)
    applied = await m.migrate(owner, on_applied=seen.append)

    assert applied == seen == m.discover() == list(before.pending)
    assert await records(owner) == [
        (migration.version, migration.name, statements.texts(migration.sql)) for migration in m.discover()
    ]
    assert await m.migrate(owner, on_applied=seen.append) == []
    assert seen == applied
    assert await state(owner) == m.Status(
        applied=tuple(migration.version for migration in applied),
        pending=(),
        changed=(),
        unknown=(),
    )


@pytest.mark.parametrize("setting", ["default_transaction_isolation=serializable", "statement_timeout=100ms"])
async def test_many_at_once_apply_each_migration_once_whatever_the_role_has_set(
    owner: str, write: Write, setting: str
) -> None:
    directory = write(
        "create table one (); select pg_sleep(0.2);", "create table two (); select pg_sleep(0.2);"
    )
    set_up = make_conninfo(owner, options=f"-c {setting}")
    runs = await asyncio.gather(*(m.migrate(set_up, directory=directory) for _ in range(4)))
    applied = [migration.version for run in runs for migration in run]
    assert sorted(applied) == ["20260101000000", "20260101000001"]


async def test_whoever_waits_too_long_for_another_is_told_so(
    owner: str, superuser: str, write: Write
) -> None:
    directory = write("create table slow as select 1 as seconds;", SLEEP_IF_TOLD)
    first = asyncio.create_task(m.migrate(owner, directory=directory))
    await until_sleeping(superuser)
    with pytest.raises(Unavailable, match="Another process has been busy"):
        await m.migrate(owner, directory=directory, patience=m.Patience(turn=0.2))
    assert len(await first) == 2


async def test_a_failing_migration_leaves_nothing_of_itself_and_earlier_ones_stay(
    owner: str, write: Write
) -> None:
    failing = """\
        create table bad ();
        -- about the next
        select 1,
               nonsense;
        """
    directory = write("create table good ();", textwrap.dedent(failing))
    with pytest.raises(m.MigrationFailed) as failure:
        await m.migrate(owner, directory=directory)
    assert failure.value.detail == (
        '20260101000001_step_1.sql, line 4: column "nonsense" does not exist. Nothing of this file was kept.'
    )
    assert await tables(owner) == {"good"}
    assert [version for version, *_ in await records(owner)] == ["20260101000000"]

    write("create table bad ();", first=1)
    await m.migrate(owner, directory=directory)
    assert await tables(owner) == {"good", "bad"}


@pytest.mark.parametrize(
    ("sql", "place", "said"),
    [
        ("select 1;\n\n-- why\nselect 1 / 0;", ", line 4", "division by zero"),
        ("do $$\nbegin\n perform 1 / 0;\nend $$;", ", line 1", "line 3 at PERFORM"),
        (
            "create table p (id int primary key);\n"
            "create table c (p int references p deferrable initially deferred);\n"
            "insert into c values (1);",
            "",
            "violates foreign key constraint",
        ),
    ],
)
async def test_a_failure_names_the_file_the_line_and_what_postgres_said(
    owner: str, write: Write, sql: str, place: str, said: str
) -> None:
    with pytest.raises(m.MigrationFailed) as failure:
        await m.migrate(owner, directory=write(sql))
    assert failure.value.detail.startswith(f"20260101000000_step_0.sql{place}: ")
    assert said in failure.value.detail
    assert await records(owner) == []


async def test_a_migration_may_not_end_its_own_transaction(owner: str, write: Write) -> None:
    directory = write("create table a ();\n-- done\ncommit;\ncreate table b ();")
    with pytest.raises(m.MigrationFailed, match=r'step_0\.sql, line 3: "commit"'):
        await m.migrate(owner, directory=directory)
    assert await tables(owner) == set()


async def test_a_setting_made_in_one_migration_does_not_reach_the_next(owner: str, write: Write) -> None:
    directory = write("create schema elsewhere; set search_path = elsewhere;", "create table here ();")
    await m.migrate(owner, directory=directory)
    assert await tables(owner) == {"here"}


async def test_a_connection_that_is_cut_leaves_nothing_and_a_second_run_works(
    owner: str, superuser: str, write: Write
) -> None:
    await ask(owner, "create table slow as select 30 as seconds")
    directory = write(SLEEP_IF_TOLD)
    run = asyncio.create_task(m.migrate(owner, directory=directory))
    await ask(superuser, "select pg_terminate_backend(%s)", await until_sleeping(superuser))
    with pytest.raises(Unavailable, match=r"step_0\.sql.*connection.*again"):
        await run
    assert await tables(owner) == {"slow"}
    assert await records(owner) == []

    await ask(owner, "update slow set seconds = 0")
    assert len(await m.migrate(owner, directory=directory)) == 1


async def test_a_process_that_is_killed_leaves_nothing_and_a_second_run_works(
    owner: str, superuser: str, write: Write
) -> None:
    await ask(owner, "create table slow as select 1 as seconds")
    directory = write(SLEEP_IF_TOLD)
    program = (
        "import asyncio, pathlib, sys; from recollect.db.migrate import migrate;"
        "asyncio.run(migrate(sys.argv[1], directory=pathlib.Path(sys.argv[2])))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, owner, str(directory))
    try:
        await until_sleeping(superuser)
    finally:
        process.kill()
        await process.wait()
    assert await tables(owner) == {"slow"}
    assert len(await m.migrate(owner, directory=directory)) == 1


async def test_a_lock_that_is_held_gives_a_clear_error_and_no_half_state(owner: str, write: Write) -> None:
    await ask(owner, "create table busy ()")
    directory = write("create table other (); alter table busy add column more int;")
    async with await psycopg.AsyncConnection.connect(owner) as holder:
        await holder.execute("lock table busy")
        impatient = m.Patience(turn=60, lock=0.1, attempts=2, pause=0.05)
        with pytest.raises(Unavailable, match=r"step_0\.sql: another session was in the way 2 tim"):
            async with asyncio.timeout(10):
                await m.migrate(owner, directory=directory, patience=impatient)
        assert await tables(owner) == {"busy"}
        assert await records(owner) == []

        patient = m.Patience(lock=0.1, attempts=50, pause=0.05)
        waiting = asyncio.create_task(m.migrate(owner, directory=directory, patience=patient))
        await asyncio.sleep(0.3)
        await holder.rollback()
        assert len(await waiting) == 1
    assert await tables(owner) == {"busy", "other"}


async def test_a_file_changed_after_it_was_applied_is_refused(owner: str, write: Write) -> None:
    directory = write("create table a (id int);")
    await m.migrate(owner, directory=directory)
    write("create table a (id bigint);", "create table b ();")
    with pytest.raises(m.ChangedMigration, match=r"20260101000000_step_0\.sql.*new migration"):
        await m.migrate(owner, directory=directory)
    assert await tables(owner) == {"a"}
    assert [found.name for found in (await state(owner, directory)).changed] == ["step_0"]


@pytest.mark.parametrize(
    "recorded",
    [
        None,
        [],
        ["create table a ();\n-- second\nselect ';';\n"],
        ["create table a ()", "-- second\nselect ';'"],
    ],
    ids=["nothing", "no statements", "whole file", "statements"],
)
async def test_other_ways_to_record_the_same_file_are_no_change(
    owner: str, write: Write, recorded: Any
) -> None:
    directory = write("create table first ();")
    await m.migrate(owner, directory=directory)
    await ask(
        owner,
        "insert into supabase_migrations.schema_migrations values ('20260101000001', %s, 'step_1')",
        recorded,
    )
    write("create table a ();\r\n-- second\r\nselect ';';\r\n", first=1)
    assert await m.migrate(owner, directory=directory) == []


async def test_versions_of_the_project_itself_are_left_alone(owner: str, write: Write) -> None:
    directory = write("create table a ();")
    await m.migrate(owner, directory=directory)
    foreign = ("20200101000000", ["create table theirs ()"], "theirs")
    await ask(owner, "insert into supabase_migrations.schema_migrations values (%s, %s, %s)", *foreign)
    write("create table b ();", first=1)
    assert [done.name for done in await m.migrate(owner, directory=directory)] == ["step_1"]
    assert (await state(owner, directory)).unknown == ("20200101000000",)
    assert (await records(owner))[0] == ("20200101000000", "theirs", foreign[1])


async def test_a_migration_that_was_merged_late_is_applied_all_the_same(owner: str, write: Write) -> None:
    directory = write("create table b ();", first=1)
    await m.migrate(owner, directory=directory)
    write("create table a ();")
    assert [done.name for done in await m.migrate(owner, directory=directory)] == ["step_0"]


@pytest.mark.parametrize(
    "name", ["1_short.sql", "20260101000000.sql", "20260101000000_Upper.sql", "README.md"]
)
def test_a_misnamed_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(Misconfigured, match="not named like a migration"):
        m.discover(tmp_path)


def test_two_files_with_one_version_are_refused_and_so_is_having_none(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no migrations in"):
        m.discover(tmp_path)
    (tmp_path / "20260101000000_a.sql").touch()
    (tmp_path / "20260101000000_b.sql").touch()
    with pytest.raises(Misconfigured, match="same version"):
        m.discover(tmp_path)
    with pytest.raises(Misconfigured, match="no directory"):
        m.discover(tmp_path / "nowhere")


async def test_an_address_that_is_wrong_is_explained_without_its_password(owner: str) -> None:
    with pytest.raises(Misconfigured) as refusal:
        await m.migrate("postgresql://me:hunter2@host:notaport/x?y")
    assert "hunter2" not in refusal.value.detail
    assert refusal.value.__cause__ is None
    with pytest.raises(Unavailable, match="password authentication failed"):
        await m.migrate(make_conninfo(owner, password="wrong"))


def test_postgres_15_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"needs Postgres 16 or newer.*version 15\."):
        require_postgres_16(150004)
    require_postgres_16(160000)
