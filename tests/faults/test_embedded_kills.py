"""Whatever is killed with -9: no server is orphaned and no acknowledged row is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from recollect.db.embedded import EmbeddedPostgres, keeper, running
from recollect.db.embedded.accounts import run_as
from recollect.db.embedded.binaries import bin_dir
from recollect.db.embedded.places import Places, arrange

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"
IMPORTS = os.pathsep.join([str(Path(keeper.__file__).parents[3]), *sys.path])

# Says "ready" and then, for each row once it is committed, the row's number.
USER = """
import asyncio, sys, psycopg
from pathlib import Path
from recollect.db.embedded import running

async def main(home, write):
    async with running(Path(home), password="correct horse") as server:
        print("ready", flush=True)
        if not write:
            await asyncio.to_thread(sys.stdin.readline)
            return
        conninfo = server.conninfo(user="postgres", password="correct horse", dbname="recollect")
        connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        await connection.execute("CREATE TABLE kept (number int)")
        for number in range(1_000_000):
            await connection.execute("INSERT INTO kept VALUES (%s)", [number])
            print(number, flush=True)

asyncio.run(main(sys.argv[1], "write" in sys.argv))
"""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    places = arrange(tmp_path / "home", 18)
    yield places
    left = server_processes(places)
    for pid in left:
        kill(pid)
    for path in {places.base, places.socket_dir}:
        if not path.is_relative_to(tmp_path):
            shutil.rmtree(path, ignore_errors=True)
    assert left == []


def home_of(places: Places) -> Path:
    return places.log.parent


def server_processes(places: Places) -> list[int]:
    """Every process of this cluster; where there is no /proc, its postmaster only."""
    if Path("/proc/self/cwd").exists():
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "cwd").readlink() == places.data_dir:
                    found.append(int(entry.name))
        return found
    listing = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    wanted = f"/postgres -D {places.data_dir} "
    return [int(line.split()[0]) for line in listing.splitlines() if wanted in line]


def postmasters(places: Places) -> list[int]:
    return [pid for pid in server_processes(places) if keeper.is_postmaster(pid, places.data_dir)]


def keeper_and_postmaster(places: Places) -> tuple[int, int]:
    keeper_pid, postmaster_pid = places.keeper_lock.read_text().split()
    return int(keeper_pid), int(postmaster_pid)


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def eventually(happened: Callable[[], bool], within: float = 10) -> None:
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


async def start_process(program: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": IMPORTS},
    )


@asynccontextmanager
async def user_process(places: Places, *mode: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await start_process(USER, str(home_of(places)), *mode)
    try:
        assert await line_of(process) == "ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


@asynccontextmanager
async def connected(
    server: EmbeddedPostgres,
) -> AsyncIterator[psycopg.AsyncConnection[tuple[int]]]:
    conninfo = server.conninfo(user="postgres", password=PASSWORD, dbname="recollect")
    connection = await psycopg.AsyncConnection[tuple[int]].connect(conninfo, autocommit=True)
    async with connection:
        yield connection


async def rows(server: EmbeddedPostgres, within: float = 15) -> set[int]:
    """What is stored; asked again while the server is coming back."""
    deadline = time.monotonic() + within
    while True:
        try:
            async with connected(server) as connection:
                found = await (await connection.execute("SELECT number FROM kept")).fetchall()
                return {number for (number,) in found}
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def insert_until(server: EmbeddedPostgres, lost: asyncio.Event) -> set[int]:
    acknowledged: set[int] = set()
    with suppress(psycopg.OperationalError):
        async with connected(server) as connection:
            await connection.execute("CREATE TABLE kept (number int)")
            for number in range(1_000_000):
                await connection.execute("INSERT INTO kept VALUES (%s)", [number])
                acknowledged.add(number)
                if number == 50:
                    lost.set()
    return acknowledged


async def test_a_killed_user_leaves_no_server(places: Places) -> None:
    async with user_process(places) as process:
        keeper_pid, postmaster = keeper_and_postmaster(places)
        assert postmaster in server_processes(places)
        process.kill()
        await eventually(lambda: not server_processes(places))
        await eventually(lambda: not is_alive(keeper_pid))


async def test_a_killed_user_does_not_stop_the_others(places: Places) -> None:
    async with running(home_of(places), password=PASSWORD) as server, connected(server) as open_one:
        async with user_process(places) as process:
            process.kill()
        await asyncio.sleep(0.5)
        await open_one.execute("SELECT 1")


async def test_a_killed_keeper_and_user_leave_no_server(places: Places) -> None:
    if sys.platform != "linux":
        pytest.skip("elsewhere the next start ends the orphan")
    async with user_process(places) as process:
        keeper_pid, _ = keeper_and_postmaster(places)
        kill(keeper_pid, process.pid)
        await eventually(lambda: not server_processes(places))


async def test_a_killed_keeper_is_replaced(places: Places) -> None:
    async with running(home_of(places), password=PASSWORD) as server:
        watching = asyncio.create_task(server.watch())
        lost = asyncio.Event()
        inserting = asyncio.create_task(insert_until(server, lost))
        await lost.wait()
        before = keeper_and_postmaster(places)
        kill(before[0])
        acknowledged = await inserting
        assert acknowledged <= await rows(server)
        await eventually(lambda: places.keeper_lock.read_text().strip() != "")
        assert set(keeper_and_postmaster(places)).isdisjoint(before)
        watching.cancel()
    assert server_processes(places) == []


async def test_an_orphaned_postmaster_is_ended_by_the_next_keeper(places: Places) -> None:
    async with running(home_of(places), password=PASSWORD):
        pass
    orphan = start_without_keeper(places)
    try:
        await eventually((places.socket_dir / ".s.PGSQL.5432").exists)
        async with running(home_of(places), password=PASSWORD):
            assert await asyncio.to_thread(orphan.wait, 10) == 0, "a fast shutdown"
            assert keeper_and_postmaster(places)[1] != orphan.pid
    finally:
        orphan.kill()
        orphan.wait()


def start_without_keeper(places: Places) -> subprocess.Popen[bytes]:
    """As a keeper's death leaves it where there is no parent-death signal."""
    orders = keeper.Orders(
        keeper_lock=-1,
        users_lock="",
        postgres=str(bin_dir(places.major, places.account) / "postgres"),
        data_dir=str(places.data_dir),
        socket_dir=str(places.socket_dir),
        log="",
        uid=None,
        gid=None,
    )
    return subprocess.Popen(
        keeper.postgres_command(orders),
        cwd="/",
        stderr=subprocess.DEVNULL,
        **run_as(places.account),
    )


async def test_a_killed_postmaster_is_started_again(places: Places) -> None:
    async with running(home_of(places), password=PASSWORD) as server:
        lost = asyncio.Event()
        inserting = asyncio.create_task(insert_until(server, lost))
        await lost.wait()
        keeper_pid, postmaster = keeper_and_postmaster(places)
        kill(postmaster)
        acknowledged = await inserting
        assert acknowledged <= await rows(server)
        assert keeper_and_postmaster(places)[0] == keeper_pid
    assert server_processes(places) == []


async def test_killing_everything_at_once_loses_no_acknowledged_row(places: Places) -> None:
    acknowledged: set[int] = set()
    async with user_process(places, "write") as process:
        while len(acknowledged) < 100:
            acknowledged.add(int(await line_of(process)))
        keeper_pid, postmaster = keeper_and_postmaster(places)
        kill(keeper_pid, process.pid, postmaster, *server_processes(places))
        said, _ = await process.communicate()
        acknowledged |= {int(number) for number in said.decode().split("\n")[:-1]}
    async with running(home_of(places), password=PASSWORD) as server:
        assert acknowledged <= await rows(server)


async def test_ten_processes_on_a_new_home_get_one_server(places: Places) -> None:
    users = [await start_process(USER, str(home_of(places))) for _ in range(10)]
    assert [await line_of(user) for user in users] == ["ready"] * 10
    _, postmaster = keeper_and_postmaster(places)
    assert postmasters(places) == [postmaster]
    await asyncio.gather(*(user.communicate(b"leave\n") for user in users))
    assert [user.returncode for user in users] == [0] * 10
    assert server_processes(places) == []


async def test_whoever_comes_as_the_last_one_leaves_can_stay(places: Places) -> None:
    for later in (0, 0.01, 0.02, 0.04, 0.08):
        leaving = AsyncExitStack()
        await leaving.enter_async_context(running(home_of(places), password=PASSWORD))
        await asyncio.gather(leaving.aclose(), stay_a_while(places, later))
        assert server_processes(places) == []


async def stay_a_while(places: Places, later: float) -> None:
    await asyncio.sleep(later)
    async with running(home_of(places), password=PASSWORD) as server, connected(server) as open_one:
        for _ in range(15):
            await open_one.execute("SELECT 1")
            await asyncio.sleep(0.02)
