"""Memories brought over from mem0 by the command line: from a file, and from an account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.bootstrap import Services
from recollect.engine.models import Memory, Where
from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

TEA = {
    "id": "0d1c6c5e-0f2a-4a2e-9b59-0f8b1d2f7f01",
    "memory": "Kim likes tea.",
    "user_id": "kim",
    "agent_id": None,
    "app_id": "shop",
    "session_id": "r1",
    "hash": "x",
    "metadata": {"source": "mail"},
    "categories": ["food"],
    "created_at": "2025-03-01T10:00:00.123456-08:00",
    "updated_at": "2025-03-02T10:00:00-08:00",
    "expiration_date": "2099-03-01",
}
# As the library tells them: other names, no metadata, a moment without a zone.
CAKE = {
    "id": "b",
    "memory": "Lee likes cake.",
    "user_id": "lee",
    "metadata": None,
    "created_at": "2025-03-01",
}


async def memories(services: Services, person: Person, where: Where | None = None) -> list[Memory]:
    async with services.tenancy.acting_as(person.caller) as tx:
        return await services.engine.list(tx, where or Where())


def written(folder: Path, content: Any) -> str:
    path = folder / "export.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


async def test_a_memory_arrives_whole(
    recollect: Run, services: Services, ana: Person, tmp_path: Path
) -> None:
    file = written(tmp_path, [TEA])
    outcome = await recollect("import", "mem0", "--user", ana.email, "--file", file, "--json")
    assert outcome.json == {"found": 1, "added": 1, "known": 0, "failed": []}
    [memory] = await memories(services, ana)
    assert (memory.text, memory.user, memory.app, memory.run) == ("Kim likes tea.", "kim", "shop", "r1")
    assert memory.metadata == {"source": "mail", "mem0_id": TEA["id"]}
    assert memory.categories == ["food"]
    assert memory.occurred_at is not None
    assert memory.occurred_at.isoformat() == "2025-03-01T18:00:00.123456+00:00"
    assert memory.expires_at is not None
    assert memory.expires_at.isoformat() == "2099-03-02T00:00:00+00:00"


@pytest.mark.parametrize(
    "content",
    [
        [TEA, CAKE],
        {"count": 2, "next": None, "results": [TEA, CAKE]},
        {"results": {"memories": [TEA, CAKE]}},
        f"{json.dumps(TEA)}\n\n{json.dumps(CAKE)}\n",
    ],
    ids=["list", "page", "nested", "lines"],
)
async def test_each_shape_of_an_export_is_read_and_again_adds_nothing(
    recollect: Run, services: Services, ana: Person, tmp_path: Path, content: Any
) -> None:
    command = ("import", "mem0", "--user", ana.email, "--file", written(tmp_path, content), "--json")
    assert (await recollect(*command, "--dry-run")).json["added"] == 2
    assert await memories(services, ana) == []
    assert (await recollect(*command)).json["added"] == 2
    # What has been changed since is the same memory still.
    [changed, _] = await memories(services, ana)
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.engine.update(tx, changed.id, text="Changed.")
    assert (await recollect(*command)).json == {"found": 2, "added": 0, "known": 2, "failed": []}
    assert len(await memories(services, ana)) == 2


async def test_what_cannot_be_brought_over_is_told_and_the_rest_is(
    recollect: Run, services: Services, ana: Person, tmp_path: Path
) -> None:
    bad = [
        {"id": "nobody", "memory": "Who?"},
        {"id": "empty", "memory": "", "user_id": "kim"},
        {"id": "long", "memory": "x" * 50_001, "user_id": "kim"},
        {"id": "when", "memory": "x", "user_id": "kim", "created_at": "soon"},
        "not a memory",
    ]
    file = written(tmp_path, [bad[0], TEA, *bad[1:]])
    outcome = await recollect("import", "mem0", "--user", ana.email, "--file", file, "--json")
    assert outcome.code == 1
    told = json.loads(outcome.out)
    assert (told["found"], told["added"]) == (6, 1)
    problems = {failure["mem0_id"]: failure["problem"] for failure in told["failed"]}
    assert problems.keys() == {"nobody", "empty", "long", "when", None}
    assert "whom it is about" in problems["nobody"]
    assert "50,000" in problems["long"]
    assert len(await memories(services, ana)) == 1

    in_words = await recollect("import", "mem0", "--user", ana.email, "--file", file)
    assert "0 added, 1 were here already, 6 in all." in in_words.out
    assert "5 could not be brought over." in in_words.err


async def test_an_account_is_brought_over_page_by_page(
    recollect: Run, services: Services, address: str, ana: Person, ben: Person
) -> None:
    for number in range(103):
        body = {
            "messages": [{"role": "user", "content": f"Fact {number}."}],
            **({"user_id": "kim"} if number % 2 else {"agent_id": "bot"}),
            "metadata": {"n": number},
            "infer": False,
        }
        headers = {"Authorization": f"Token {ana.key}"}
        assert (await ana.http.post("/v3/memories/add/", json=body, headers=headers)).is_success
    command = ("import", "mem0", "--user", ben.email, "--host", address, "--json")
    first = await recollect(*command, "--api-key", ana.key)
    assert first.json == {"found": 103, "added": 103, "known": 0, "failed": []}
    again = await recollect(*command, MEM0_API_KEY=ana.key)
    assert again.json["known"] == 103
    async with services.tenancy.acting_as(ben.caller) as tx:
        found = await services.engine.list(tx, Where(), limit=1_000)
    assert {memory.metadata["n"] for memory in found} == set(range(103))
    assert {(memory.user, memory.agent) for memory in found} == {("kim", None), (None, "bot")}


async def test_a_workspace_can_be_given_by_its_members(
    recollect: Run, services: Services, ana: Person, ben: Person, tmp_path: Path
) -> None:
    made = (await ana.http.post("/api/workspaces", json={"name": "Team"})).json()
    file = written(tmp_path, [TEA])
    into = ("import", "mem0", "--file", file, "--workspace", made["id"])
    assert "no such" in (await recollect(*into, "--user", ben.email)).sentence
    assert (await recollect(*into, "--user", ana.email, "--json")).json["added"] == 1
    assert await memories(services, ana) == []
    [memory] = await memories(services, ana, Where(workspace=made["id"]))
    assert str(memory.workspace) == made["id"]


async def test_where_they_come_from_has_to_be_said(
    recollect: Run, address: str, ana: Person, tmp_path: Path
) -> None:
    command = ("import", "mem0", "--user", ana.email)
    assert "--file, or --api-key" in (await recollect(*command)).sentence
    assert "cannot be read" in (await recollect(*command, "--file", str(tmp_path / "none"))).sentence
    broken = written(tmp_path, "{")
    assert "neither JSON" in (await recollect(*command, "--file", broken)).sentence
    refused = await recollect(*command, "--host", address, "--api-key", "m0-wrong")
    assert "does not accept" in refused.sentence
    away = await recollect(*command, "--host", "http://127.0.0.1:9", "--api-key", "m0")
    assert "does not answer" in away.sentence
