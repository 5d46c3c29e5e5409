"""``supabase db push`` and ``recollect migrate`` do the same and accept what the other has done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from recollect.db import embedded, statements
from recollect.db.embedded.binaries import bin_dir
from recollect.db.migrate import ChangedMigration, discover, migrate
from tests.db.conftest import install_vector

REPOSITORY = Path(__file__).parents[2]
PASSWORD = "p@ss:w/ rd"

# Each is cut by the CLI itself in the test; what they have in common is a ";" where none ends.
HARD_TO_CUT = [
    "select 1;;\n ;select 2",
    "-- only a comment\n",
    "select 1; -- it's; after\nselect 2; /* last */",
    "select 'it''s;', \"a\"\";b\"; select 2;",
    "select E'\\';', e'\\\\'; select '\\'; select 2;",
    "select $$ ; $x$ ; $$, $x$ $$; $x$; select $1; select a$b$; select 2",
    "/* a; /* b; */ c; */ select 1; select 2;",
    "create rule r as on insert to a do also (insert into b select 1; insert into c select 2); select 3;",
    "create function f() returns int language sql begin atomic\n"
    "  select case when true then 1 end; select ';end;'; -- end;\nend; select 3;",
    "select 1;\r\nselect 2;\r\n",
    "do $$ begin -- it's $x$\n end $$;\n\n\n-- next\nselect 2;",
    "\ufeffselect 1;",
]


def cli() -> str | None:
    if named := os.environ.get("RECOLLECT_SUPABASE_CLI"):
        return named
    installed = REPOSITORY / "node_modules" / ".bin" / "supabase"
    return str(installed) if installed.exists() else shutil.which("supabase")


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.xdist_group("supabase-cli"),
    pytest.mark.skipif(
        cli() is None,
        reason="the Supabase CLI is not there: npm install, or name it in RECOLLECT_SUPABASE_CLI",
    ),
]


@dataclass(frozen=True)
class Server:
    postgres: embedded.EmbeddedPostgres
    major: int
    directory: Path

    def conninfo(self, dbname: str, user: str = "owner") -> str:
        return self.postgres.conninfo(user=user, password=PASSWORD, dbname=dbname)

    def supabase(self, *arguments: str, dbname: str, project: Path) -> str:
        # The CLI takes a socket's directory only as a parameter, beside a host that it then ignores.
        socket = quote(str(self.postgres.socket_dir), safe="")
        url = f"postgresql://owner:{quote(PASSWORD, safe='')}@localhost/{dbname}?host={socket}"
        ended = subprocess.run(
            [str(cli()), *arguments, f"--remote={url}", "--yes", "--workdir", str(project)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.directory),
                "DO_NOT_TRACK": "1",
                "SUPABASE_TELEMETRY_DISABLED": "1",
                "HTTPS_PROXY": "http://127.0.0.1:9",  # nothing is to leave this machine
                "HTTP_PROXY": "http://127.0.0.1:9",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def schema(self, dbname: str) -> list[str]:
        dumped = subprocess.run(
            [
                str(bin_dir(self.major, None) / "pg_dump"),
                "--schema-only",
                f"--dbname={self.conninfo(dbname, user='postgres')}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        # "\restrict" carries a word that is made up for each dump.
        return [line for line in dumped.stdout.splitlines() if "restrict " not in line]

    async def records(self, dbname: str) -> list[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(self.conninfo(dbname)) as conn:
            cursor = await conn.execute(
                "select * from supabase_migrations.schema_migrations order by version"
            )
            return await cursor.fetchall()


def project_of(directory: Path) -> Path:
    """The CLI writes beside the migrations, so it gets a copy."""
    shutil.copytree(REPOSITORY / "supabase" / "migrations", directory / "supabase" / "migrations")
    return directory


@pytest.fixture(scope="module", params=[16, 18], ids="postgres {}".format)
async def server(
    request: pytest.FixtureRequest,
    anyio_backend: str,
    open_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Server]:
    """Two databases of somebody who is no superuser: by_cli and by_us, each filled by that tool."""
    major: int = request.param
    home = open_directory / f"home-{major}"
    async with embedded.running(home, password=PASSWORD, major=major) as postgres:
        server = Server(postgres, major, tmp_path_factory.mktemp("cli"))
        async with await psycopg.AsyncConnection.connect(
            server.conninfo("recollect", user="postgres"), autocommit=True
        ) as conn:
            await conn.execute(
                f"create role owner login createrole createdb bypassrls password '{PASSWORD}'".encode()
            )
            for name in ("by_cli", "by_us", "by_repair"):
                await conn.execute(f"create database {name} owner owner".encode())
                await install_vector(server.conninfo(name, user="postgres"))
        server.supabase("db", "push", dbname="by_cli", project=project_of(server.directory / "project"))
        await migrate(server.conninfo("by_us"))
        yield server


def test_both_make_the_same_schema(server: Server) -> None:
    by_cli = server.schema("by_cli")
    assert by_cli == server.schema("by_us")
    assert any(line.startswith("CREATE POLICY") for line in by_cli)
    assert any(line.startswith("GRANT ") for line in by_cli)


async def test_both_record_the_same(server: Server) -> None:
    by_cli = await server.records("by_cli")
    assert by_cli == await server.records("by_us")
    assert [record[0] for record in by_cli] == [migration.version for migration in discover()]


async def test_each_finds_nothing_to_do_after_the_other(server: Server) -> None:
    before = await server.records("by_us")
    project = server.directory / "project"
    assert "up to date" in server.supabase("db", "push", dbname="by_us", project=project)
    assert await server.records("by_us") == before
    assert await migrate(server.conninfo("by_cli")) == []


async def test_a_changed_file_is_refused_also_if_the_cli_applied_it(server: Server, tmp_path: Path) -> None:
    directory = project_of(tmp_path) / "supabase" / "migrations"
    changed = directory / discover()[-1].file
    changed.write_text(changed.read_text() + "select 1;\n")
    with pytest.raises(ChangedMigration, match=changed.name):
        await migrate(server.conninfo("by_cli"), directory=directory)


async def test_statements_are_cut_where_the_cli_cuts_them(server: Server, tmp_path: Path) -> None:
    directory = tmp_path / "supabase" / "migrations"
    directory.mkdir(parents=True)
    versions = [str(20260101000000 + number) for number in range(len(HARD_TO_CUT))]
    for version, sql in zip(versions, HARD_TO_CUT, strict=True):
        (directory / f"{version}_hard.sql").write_bytes(sql.encode())
    # "repair" records files as applied without running them.
    repair = ("migration", "repair", *versions, "--status", "applied")
    server.supabase(*repair, dbname="by_repair", project=tmp_path)
    cut = [(m.version, statements.texts(m.sql), m.name) for m in discover(directory)]
    assert await server.records("by_repair") == cut
