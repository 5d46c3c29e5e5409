"""The embedded Postgres starts, is shared, is closed to others, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from recollect.db.embedded import DidNotStart, EmbeddedPostgres, keeper, running
from recollect.db.embedded.failures import explained
from recollect.db.embedded.places import arrange, socket_dir_for
from recollect.errors import Misconfigured
from tests.db.embedding import (
    IMPORTS,
    PASSWORD,
    USER,
    connected,
    has_tcp_socket,
    other_process,
    postmaster_of,
    postmasters,
    remove,
    uid_of,
    value,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    remove(home)


async def test_the_first_start_creates_and_the_second_finds_what_was_stored(home: Path) -> None:
    async with running(home, password=PASSWORD) as server, connected(server) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 'here' AS what")
    assert postmasters(server.data_dir) == []
    assert not (server.data_dir / "postmaster.pid").exists()
    async with running(home, password=PASSWORD) as server:
        assert await value(server, "SELECT what FROM kept") == "here"


async def test_two_processes_share_one_server_until_the_last_has_left(home: Path) -> None:
    async with running(home, password=PASSWORD) as server:
        first = postmaster_of(server)
        async with other_process(home) as process:
            assert postmasters(server.data_dir) == [first]
            before = time.monotonic()
            async with running(home, password=PASSWORD):
                pass
            assert time.monotonic() - before < 2, "not the last to leave, yet it waited"
            assert postmasters(server.data_dir) == [first]
        assert process.returncode == 0
        assert postmasters(server.data_dir) == [first]
    assert postmasters(server.data_dir) == []


async def test_it_outlives_the_process_that_started_it(home: Path) -> None:
    async with other_process(home) as starter, running(home, password=PASSWORD) as server:
        first = postmaster_of(server)
        await starter.communicate(b"leave\n")
        assert await value(server, "SELECT 1") == 1
        assert postmasters(server.data_dir) == [first]
    assert postmasters(server.data_dir) == []


class TestWhatIsRunning:
    @pytest.fixture(scope="class")
    async def server(self, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedPostgres]:
        home = tmp_path_factory.mktemp("embedded") / "home"
        async with running(home, password=PASSWORD) as server:
            yield server
        remove(home)

    async def test_a_wrong_password_is_refused(self, server: EmbeddedPostgres) -> None:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            async with connected(server, password="guess"):
                pass

    async def test_a_wrong_password_is_explained(self, server: EmbeddedPostgres) -> None:
        assert server._places is not None
        with pytest.raises(DidNotStart, match="created with another password"):
            async with running(server._places.log.parent, password="guess"):
                pass

    async def test_nothing_but_passwords_on_the_socket_lets_anyone_in(self, server: EmbeddedPostgres) -> None:
        rules = (server.data_dir / "pg_hba.conf").read_text().splitlines()
        assert [rule for rule in rules if rule and not rule.startswith("#")] == [
            "local all all scram-sha-256"
        ]

    async def test_it_listens_on_no_network(self, server: EmbeddedPostgres) -> None:
        assert await value(server, "SHOW listen_addresses") == ""
        assert not has_tcp_socket(postmaster_of(server))

    @pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "data_checksums"])
    async def test_it_is_durable(self, server: EmbeddedPostgres, setting: str) -> None:
        assert await value(server, f"SHOW {setting}") == "on"

    async def test_text_is_unicode(self, server: EmbeddedPostgres) -> None:
        assert await value(server, "SHOW server_encoding") == "UTF8"
        assert await value(server, "SELECT lower('É')") == "é"

    async def test_it_does_not_run_as_root(self, server: EmbeddedPostgres) -> None:
        assert uid_of(postmaster_of(server)) == server.data_dir.stat().st_uid != 0

    async def test_others_can_enter_neither_data_nor_sockets(self, server: EmbeddedPostgres) -> None:
        for path in (server.data_dir, server.socket_dir):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700

    async def test_what_users_store_does_not_reach_the_log(self, server: EmbeddedPostgres) -> None:
        async with connected(server) as connection:
            await connection.execute("CREATE TEMP TABLE t (secret text PRIMARY KEY)")
            await connection.execute("INSERT INTO t VALUES ('hunter2')")
            with pytest.raises(psycopg.errors.UniqueViolation):
                await connection.execute("INSERT INTO t VALUES ('hunter2')")
            with pytest.raises(psycopg.errors.InvalidTextRepresentation):
                await connection.execute("SELECT %s::text::int", ["hunter2"])
        assert server._places is not None
        log = server._places.log.read_text()
        assert "hunter2" not in log
        assert "ready to accept connections" in log


async def test_an_interrupted_initdb_is_done_again(home: Path) -> None:
    base = arrange(home, 18).base
    kill_during_initdb(home, base)
    assert not (base / "postgres-18").exists()
    async with running(home, password=PASSWORD) as server:
        assert await value(server, "SELECT 1") == 1
    assert list(base.glob(".postgres-18.new-*")) == [], "a half-made cluster or a password"


def kill_during_initdb(home: Path, base: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", USER, str(home)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": IMPORTS},
        stdin=subprocess.PIPE,
    )
    while not list(base.glob(".postgres-18.new-*/base")):
        time.sleep(0.01)
    starter.kill()
    starter.communicate()


@pytest.fixture
def bystander(home: Path) -> Iterator[int]:
    """A live process of the user that Postgres runs as."""
    account = arrange(home, 18).account
    sleeper = subprocess.Popen(["sleep", "60"], user=None if account is None else account.uid)
    yield sleeper.pid
    assert sleeper.poll() is None, "it had nothing to do with us, and was ended"
    sleeper.kill()
    sleeper.wait()


@pytest.mark.parametrize("names", ["a dead process", "a bystander", "nothing"])
async def test_leftovers_of_a_crash_do_not_stop_a_start(home: Path, bystander: int, names: str) -> None:
    async with running(home, password=PASSWORD) as server:
        dead = postmaster_of(server)
        pid_file = (server.data_dir / "postmaster.pid").read_text().splitlines()
    pid_file[0] = str({"a dead process": dead, "a bystander": bystander}.get(names, ""))
    text = "" if names == "nothing" else "\n".join(pid_file) + "\n"
    for path in (
        server.data_dir / "postmaster.pid",
        server.socket_dir / ".s.PGSQL.5432.lock",
        server.socket_dir / ".s.PGSQL.5432",
    ):
        path.write_text(text)
        path.chmod(0o600)
        shutil.chown(path, server.data_dir.stat().st_uid)
    async with running(home, password=PASSWORD) as server:
        assert await value(server, "SELECT 1") == 1


async def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    async with running(home, password=PASSWORD) as server:
        pass
    with (server.data_dir / "postgresql.conf").open("a") as conf:
        conf.write("no_such_setting = 1\n")
    with pytest.raises(DidNotStart, match="no_such_setting") as caught:
        async with running(home, password=PASSWORD):
            pass
    assert str(home / "postgres.log") in caught.value.detail


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "free some space"), (errno.EACCES, "write access"), (errno.EROFS, "another")],
)
def test_a_refusal_by_the_system_comes_with_advice(number: int, advice: str) -> None:
    with pytest.raises(Misconfigured, match=advice), explained("Starting", Path("/home")):
        raise OSError(number, os.strerror(number))


async def test_the_log_is_bounded(home: Path) -> None:
    log = arrange(home, 18).log
    log.write_bytes(b"old\n" * (keeper.LARGEST_LOG // 4 + 1))
    async with running(home, password=PASSWORD):
        pass
    assert log.stat().st_size < 100_000
    assert log.with_name("postgres.log.1").read_bytes().startswith(b"old\n")


async def test_each_major_has_a_cluster_of_its_own(home: Path) -> None:
    async with (
        running(home, password=PASSWORD) as newer,
        running(home, password=PASSWORD, major=16) as older,
    ):
        versions = [await value(each, "SHOW server_version_num") for each in (newer, older)]
    assert [str(version)[:2] for version in versions] == ["18", "16"]
    assert newer.data_dir != older.data_dir
    if older.socket_dir.parent == Path("/tmp"):
        shutil.rmtree(older.socket_dir)


async def test_a_long_home_gets_a_short_socket_path(tmp_path: Path) -> None:
    short = socket_dir_for(tmp_path / ("x" * 100), 18, None)
    try:
        assert len(str(short)) < 60
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
        short.chmod(0o777)
        with pytest.raises(Misconfigured, match="cannot be trusted"):
            socket_dir_for(tmp_path / ("x" * 100), 18, None)
        short.rmdir()
        short.symlink_to(tmp_path)
        with pytest.raises(Misconfigured, match="cannot be trusted"):
            socket_dir_for(tmp_path / ("x" * 100), 18, None)
    finally:
        short.rmdir() if not short.is_symlink() else short.unlink()


def test_a_forked_child_does_not_keep_a_lock(tmp_path: Path) -> None:
    script = """
import os, sys, time
from pathlib import Path
from recollect.db.embedded.locks import Lock
lock = Lock(Path(sys.argv[1]))
assert lock.try_exclusive()
ready, report = os.pipe()
child = os.fork()
if child == 0:
    os.write(report, b".")
    time.sleep(30)
    os._exit(0)
os.read(ready, 1)
lock.close()
free = Lock(Path(sys.argv[1])).try_exclusive()
os.kill(child, 9)
sys.exit(0 if free else 1)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.lock")], check=True)
