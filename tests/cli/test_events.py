"""Events from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from recollect.bootstrap import Services
from tests.cli.conftest import CODE, Run
from tests.conftest import Person, working

pytestmark = pytest.mark.anyio


async def change(person: Person, key: str) -> None:
    answer = await person.http.post(person.memory, json={"key": key, "value": 1})
    assert answer.status_code == 200, answer.text


@asynccontextmanager
async def tailing(
    environment: dict[str, str], cwd: Path, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recollect", "events", "tail", *arguments),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": CODE, "HOME": str(cwd), **environment},
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await asyncio.wait_for(stream.readline(), 30)).decode()


async def interrupted(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    process.send_signal(signal.SIGINT)
    return await asyncio.wait_for(process.communicate(), 30)


async def test_the_last_events_are_listed_for_a_user_or_all_of_them(
    recollect: Run, services: Services, ana: Person, ben: Person
) -> None:
    for person, key in ((ana, "a"), (ben, "b"), (ana, "c\x1b[2J"), (ana, "d")):
        await change(person, key)
    await services.relay.relay()
    as_ana = ("--user", ana.email)

    mine, everything, last, of_type, people = await asyncio.gather(
        recollect("events", "list", *as_ana, "--json"),
        recollect("events", "list", "--json"),
        recollect("events", "list", *as_ana, "--limit", "1", "--json"),
        recollect("events", "list", "--types", "memory.*, user.updated", "--json"),
        recollect("events", "list", *as_ana),
    )

    assert [each["data"]["key"] for each in mine.json] == ["a", "c\x1b[2J", "d"]
    assert [each["data"]["key"] for each in everything.json] == ["a", "b", "c\x1b[2J", "d"]
    assert [each["data"]["key"] for each in last.json] == ["d"]
    assert of_type.json == []
    assert (people.out.count("bank.changed"), "\x1b" in people.out) == (3, False)
    after = str(mine.json[1]["position"])
    rest = await recollect("events", "list", *as_ana, "--after", after, "--json")
    assert [each["data"]["key"] for each in rest.json] == ["d"]


async def test_what_happens_is_followed_until_ctrl_c_which_ends_it_quietly(
    environment: dict[str, str], tmp_path: Path, services: Services, ana: Person, ben: Person
) -> None:
    wanted = ("--user", ana.email, "--types", "bank.*", "--json")
    async with working(services), tailing(environment, tmp_path, *wanted) as process:
        assert "Ctrl-C" in await line_of(process.stderr)
        await change(ben, "bens")
        await ana.http.patch("/api/profile", json={"full_name": "Ana"})
        for key in ("first", "second"):
            await change(ana, key)
            heard = json.loads(await line_of(process.stdout))
            assert (heard["type"], heard["data"]["key"]) == ("bank.changed", key)
        rest = await interrupted(process)

    assert (process.returncode, rest) == (130, (b"", b""))


async def test_from_a_position_on_everything_is_told_inert_one_line_each(
    environment: dict[str, str], tmp_path: Path, services: Services, ana: Person, ben: Person
) -> None:
    await change(ana, "a\x1b[2J[red]")
    await change(ben, "b")
    async with working(services), tailing(environment, tmp_path, "--after", "0") as process:
        first, second = await line_of(process.stdout), await line_of(process.stdout)
        await interrupted(process)

    assert f"bank.changed      bank/{ana.id}/default/a\N{REPLACEMENT CHARACTER}[2J[red]" in first
    assert f"bank/{ben.id}/default/b" in second
    assert '"action": "created"' in second


async def test_nonsense_is_refused_in_a_sentence(recollect: Run) -> None:
    unknown, nobody = await asyncio.gather(
        recollect("events", "tail", "--types", "bank.*,no.such"),
        recollect("events", "tail", "--user", "nobody@example.com"),
    )
    assert unknown.sentence.startswith("types: no.such is unknown; there are *, access.*, bank.*")
    assert nobody.sentence == "There is no user with that e-mail address."
