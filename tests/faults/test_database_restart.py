"""Postgres goes away under a serving server, and comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from recollect.access.models import NewKey, NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.tenancy import Caller
from recollect.kit.loops import stop
from recollect.settings import Settings
from tests.conftest import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="recollect-restart-"))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
async def own_services(own_home: Path) -> AsyncIterator[Services]:
    async with open_services(Settings(home=own_home, _env_file=None)) as services:
        assert services.database.embedded is not None
        # As whoever serves does: a keeper whose Postgres is killed again and again gives up.
        watching = asyncio.create_task(services.database.embedded.watch())
        yield services
        await stop(watching)


async def _key(services: Services) -> str:
    user = await services.access.create_user(NewUser(email="ana@example.com"))
    async with services.tenancy.acting_as(Caller.user(user.id)) as tx:
        return (await services.access.create_key(tx, NewKey(name="test"))).key


def _postmaster(services: Services) -> int:
    assert services.database.embedded is not None
    return int((services.database.embedded.data_dir / "postmaster.pid").read_text().split()[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_requests_are_served_or_told_to_try_again_and_nothing_acknowledged_is_lost(
    own_services: Services, number: int
) -> None:
    headers = {"Authorization": f"Bearer {await _key(own_services)}"}
    async with served(own_services) as address, httpx.AsyncClient(base_url=address, headers=headers) as http:
        memory = f"/api/user/{(await http.get('/api/auth/me')).json()['id']}/memory"
        acknowledged: list[str] = []
        refused: list[httpx.Response] = []
        enough = asyncio.Event()

        async def write(writer: int) -> None:
            for turn in range(100_000):
                if enough.is_set():
                    return
                key = f"{writer}-{turn}"
                answer = await http.post(memory, json={"key": key, "value": 1}, timeout=30)
                if answer.status_code == 200:
                    acknowledged.append(key)
                else:
                    refused.append(answer)

        async def until(count: int) -> None:
            while len(acknowledged) < count:
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            for writer in range(4):
                group.create_task(write(writer))
            for _ in range(2):
                await until(len(acknowledged) + 20)
                os.kill(_postmaster(own_services), number)
            await until(len(acknowledged) + 40)
            enough.set()

        assert {answer.status_code for answer in refused} <= {503}
        assert all("retry-after" in answer.headers for answer in refused)
        stored = {entry["key"] for entry in (await http.get(memory)).json()["data"]}
    assert set(acknowledged) <= stored
