"""The model from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Run, run_command
from tests.conftest import SECRET, Person
from tests.llm.conftest import FACTS, Ask
from tests.support.model_server import KEY, Fails, ModelServer, Says

pytestmark = pytest.mark.anyio


@pytest.fixture
def protocol() -> str:
    return "anthropic"


@pytest.fixture
def recollect(home: Path, database_url: str, model: ModelServer, tmp_path: Path) -> Run:
    environment = {
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_DATABASE_URL": database_url,
        "RECOLLECT_SECRET_KEY": SECRET,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": model.url,
        "RECOLLECT_MODEL_PRICE": "1,5",
    }

    async def run(*arguments: str, **settings: str) -> Outcome:
        return await run_command({**environment, **settings}, tmp_path, *arguments)

    return run


async def test_the_model_is_checked_by_asking_it_something(recollect: Run, model: ModelServer) -> None:
    model.otherwise = lambda _: Says({"greeting": "Hello [bold]there[/bold]"})
    for_people, for_scripts = await asyncio.gather(
        recollect("model", "check"), recollect("model", "check", "--json")
    )
    assert (for_people.code, for_people.err) == (0, "")
    assert "anthropic/claude-haiku-5-5 answers" in for_people.out
    assert "Hello [bold]there[/bold]" in for_people.out
    assert for_scripts.json["greeting"].startswith("Hello")
    calls = (await recollect("model", "calls", "--json")).json
    assert [(call["purpose"], call["outcome"], call["cost_usd"]) for call in calls] == [
        ("model.check", "ok", 0.0002)
    ] * 2


async def test_a_check_that_fails_says_what_to_do(recollect: Run, model: ModelServer) -> None:
    wrong_key, none = await asyncio.gather(
        recollect("model", "check", ANTHROPIC_API_KEY="sk-another"),
        recollect("model", "check", ANTHROPIC_API_KEY=""),
    )
    assert wrong_key.sentence == "The model's server refused the key (401); look at ANTHROPIC_API_KEY."
    assert none.sentence.startswith("No model is configured; set ANTHROPIC_API_KEY")
    assert "sk-another" not in wrong_key.err


async def test_calls_and_status_are_everybodys_or_one_users(
    recollect: Run, model: ModelServer, ask: Ask, ana: Person, ben: Person
) -> None:
    model.will(Says(FACTS), Says(FACTS), Fails(404))
    await ask(ana.caller)
    await ask(ben.caller, purpose="rules.extract")
    with pytest.raises(Exception, match="404"):
        await ask(ben.caller)

    everything, of_ana, failed, cut, all_used, used, none = await asyncio.gather(
        recollect("model", "calls", "--json"),
        recollect("model", "calls", "--user", ana.email, "--json"),
        recollect("model", "calls", "--outcome", "failed", "--json"),
        recollect("model", "calls", "--limit", "1"),
        recollect("model", "status", "--json", RECOLLECT_MODEL_DAILY_TOKENS="5000"),
        recollect("model", "status", "--user", ana.email),
        recollect("model", "status", "--json", ANTHROPIC_API_KEY=""),
    )

    assert [call["user_id"] for call in everything.json] == [str(ben.id), str(ben.id), str(ana.id)]
    assert [call["purpose"] for call in of_ana.json] == ["memory.extract"]
    assert [call["outcome"] for call in failed.json] == ["failed"]
    assert "--limit" in cut.err
    assert (all_used.json["daily_tokens"], all_used.json["today"]["calls"]) == (5_000, 3)
    assert "anthropic/claude-haiku-5-5" in used.out
    assert (none.json["configured"], none.json["name"]) == (False, None)


async def test_doctor_names_the_model_and_asks_it_nothing(recollect: Run, model: ModelServer) -> None:
    fine, none, broken = await asyncio.gather(
        recollect("doctor", "--json"),
        recollect("doctor", "--json", ANTHROPIC_API_KEY=""),
        recollect("doctor", "--json", RECOLLECT_MODEL_URL="http://127.0.0.1:9/v1"),
    )
    found = [
        next(check for check in json.loads(each.out)["checks"] if check["name"] == "model")
        for each in (fine, none, broken)
    ]
    assert [check["status"] for check in found] == ["ok", "ok", "fail"]
    assert "anthropic/claude-haiku-5-5" in found[0]["detail"]
    assert "works without one" in found[1]["detail"]
    assert "RECOLLECT_MODEL" in found[2]["remedy"]
    assert model.asked == []
