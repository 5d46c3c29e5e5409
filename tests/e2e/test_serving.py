"""The whole product as a person starts it: one command, one process tree, real signals."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.api.serving import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="recollect-e2e-"))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder)


class Server:
    def __init__(self, process: asyncio.subprocess.Process, address: str, greeting: str) -> None:
        self.process = process
        self.address = address
        self.greeting = greeting

    @property
    def link(self) -> str:
        found = re.search(r"(http://\S+/sign-in\?token=\S+)", self.greeting)
        assert found
        return found.group(1)

    async def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 30)


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    return kept | {"RECOLLECT_HOME": str(home)}


@asynccontextmanager
async def _serving(home: Path) -> AsyncIterator[Server]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "recollect", "serve", "--port", str(port),
        env=_environment(home), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        greeting = (await asyncio.wait_for(process.stdout.readuntil(b"Ctrl-C"), 60)).decode()
        yield Server(process, f"http://127.0.0.1:{port}", greeting)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _recollect(home: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "recollect", *arguments, env=_environment(home), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return output.decode()


async def _key(home: Path, email: str) -> str:
    found = re.search(
        r"rk_[0-9a-f]+_[\w-]+", await _recollect(home, "key", "create", "--user", email, "--json")
    )
    assert found
    return found.group()


def _postgres_of(home: Path) -> list[int]:
    """Every process that has the home's data directory as its working directory or argument."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        parts = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if any(str(home) in part for part in parts) and "recollect serve" not in " ".join(parts):
            found.append(process.pid)
    return found


async def _gone(home: Path) -> bool:
    for _ in range(200):
        if not _postgres_of(home):
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_everything_and_the_next_start_has_the_data(own_home: Path, number: int) -> None:
    async with _serving(own_home) as server:
        await _recollect(own_home, "user", "create", "ana@example.com", "--json")
        headers = {"Authorization": f"Bearer {await _key(own_home, 'ana@example.com')}"}
        async with httpx.AsyncClient(base_url=server.address, headers=headers) as client:
            me = (await client.get("/api/auth/me")).json()
            assert me["email"] == "ana@example.com"
            stored = await client.post(f"/api/user/{me['id']}/memory", json={"key": "k", "value": 1})
            assert stored.status_code == 200
        assert await server.stop(number) == 0
    assert _postgres_of(own_home) == []

    async with _serving(own_home) as server, httpx.AsyncClient(base_url=server.address) as client:
        answer = await client.get(f"/api/user/{me['id']}/memory", headers=headers)
        assert [entry["value"] for entry in answer.json()["data"]] == [1]
        await server.stop(signal.SIGINT)


async def test_after_kill_9_nothing_runs_on_and_nothing_acknowledged_is_lost(own_home: Path) -> None:
    async with _serving(own_home) as server:
        await _recollect(own_home, "user", "create", "ana@example.com")
        headers = {"Authorization": f"Bearer {await _key(own_home, 'ana@example.com')}"}
        acknowledged = 0
        async with httpx.AsyncClient(base_url=server.address, headers=headers) as client:
            memory = f"/api/user/{(await client.get('/api/auth/me')).json()['id']}/memory"

            async def write() -> None:
                nonlocal acknowledged
                while True:
                    body = {"key": f"k{acknowledged:06}", "value": acknowledged}
                    if (await client.post(memory, json=body)).status_code == 200:
                        acknowledged += 1

            writing = asyncio.create_task(write())
            while acknowledged < 20:
                await asyncio.sleep(0.02)
            server.process.kill()
            with pytest.raises(httpx.TransportError):
                await writing
            await server.process.wait()
    assert await _gone(own_home)

    async with _serving(own_home) as server, httpx.AsyncClient(base_url=server.address) as client:
        entries = (await client.get(memory, headers=headers)).json()["data"]
        assert [entry["value"] for entry in entries][:acknowledged] == list(range(acknowledged))
        await server.stop(signal.SIGINT)


async def test_the_greetings_link_signs_the_first_admin_in_once(own_home: Path) -> None:
    async with _serving(own_home) as server:
        token = server.link.partition("token=")[2]
        async with httpx.AsyncClient(base_url=server.address) as browser:
            page = await browser.get(server.link)
            assert "Sign in" in page.text
            assert "recollect_session" not in browser.cookies
            signed_in = await browser.post("/sign-in", data={"token": token})
            assert signed_in.status_code == 303
            me = (await browser.get("/api/auth/me")).json()
            assert (me["email"], me["is_admin"]) == ("admin@localhost", True)
            assert "Nothing here yet" in (await browser.get("/")).text
        async with httpx.AsyncClient(base_url=server.address) as other:
            assert (await other.post("/sign-in", data={"token": token})).status_code == 401
        await server.stop(signal.SIGINT)


async def test_a_second_server_on_the_port_says_so_and_leaves_the_first_alone(own_home: Path) -> None:
    async with _serving(own_home) as server:
        port = server.address.rpartition(":")[2]
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "recollect", "serve", "--port", port,
            env=_environment(own_home), stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, complaint = await asyncio.wait_for(second.communicate(), 60)
        assert second.returncode == 1
        assert b"--port" in complaint
        assert b"Traceback" not in complaint
        async with httpx.AsyncClient(base_url=server.address) as client:
            assert (await client.get("/ready")).status_code == 200
        await server.stop(signal.SIGINT)
