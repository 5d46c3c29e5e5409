"""What the tests of the embedded server share."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from recollect.db.embedded import EmbeddedPostgres, keeper
from recollect.db.embedded.places import arrange

PASSWORD = "correct horse"
IMPORTS = os.pathsep.join([str(Path(keeper.__file__).parents[3]), *sys.path])

# A user in a process of its own: says "ready", and leaves at a line or the end of its input.
USER = f"""
import asyncio, sys
from pathlib import Path
from recollect.db.embedded import running

async def main():
    async with running(Path(sys.argv[1]), password={PASSWORD!r}):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


def remove(home: Path) -> None:
    """What a home made outside of itself; that a server is left running is a failure."""
    if not home.exists():
        return
    places = arrange(home, 18)
    left = postmasters(places.data_dir)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for path in {places.base, places.socket_dir}:
        if not path.is_relative_to(home):
            shutil.rmtree(path, ignore_errors=True)
    assert left == []


def postmasters(data_dir: Path) -> list[int]:
    listing = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    wanted = f"/postgres -D {data_dir} "
    return [int(line.split()[0]) for line in listing.splitlines() if wanted in f"{line} "]


def postmaster_of(server: EmbeddedPostgres) -> int:
    return int((server.data_dir / "postmaster.pid").read_text().splitlines()[0])


def uid_of(pid: int) -> int:
    ps = ["ps", "-o", "uid=", "-p", str(pid)]
    return int(subprocess.run(ps, capture_output=True, check=True).stdout)


def has_tcp_socket(pid: int) -> bool:
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    targets = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    ours = {target.removeprefix("socket:[").rstrip("]") for target in targets}
    listed = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return any(line.split()[9] in ours for line in listed.splitlines())


def make_dir(path: Path, mode: int) -> Path:
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    return path


@asynccontextmanager
async def connected(
    server: EmbeddedPostgres, password: str = PASSWORD
) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    conninfo = server.conninfo(user=server.superuser, password=password, dbname="recollect")
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        yield connection


async def value(server: EmbeddedPostgres, query: str) -> object:
    async with connected(server) as connection:
        row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]


@asynccontextmanager
async def other_process(
    home: Path, python: str = sys.executable, user: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        python,
        "-c",
        USER,
        str(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": IMPORTS},
        cwd="/",
        user=user,
    )
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        yield process
    finally:
        await asyncio.wait_for(process.communicate(b"leave\n"), 60)
