"""Webhooks from the command line, with the rights of the user named and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_command
from tests.conftest import SECRET, Person
from tests.events.webhooks.conftest import Turns, hook, personal
from tests.events.webhooks.receiving import Receiver, status

pytestmark = pytest.mark.anyio


@pytest.fixture
def recollect(home: Path, database_url: str, tmp_path: Path) -> Run:
    environment = {
        "RECOLLECT_HOME": str(home),
        "RECOLLECT_DATABASE_URL": database_url,
        "RECOLLECT_SECRET_KEY": SECRET,
        "RECOLLECT_WEBHOOKS_ALLOW_PRIVATE": "true",
    }

    async def run(*arguments: str, **settings: str) -> object:
        return await run_command({**environment, **settings}, tmp_path, "webhooks", *arguments)

    return run  # type: ignore[return-value]  # as the other commands have it, without their input


async def test_a_webhook_is_added_tested_replayed_and_removed(
    recollect: Run, turns: Turns, ana: Person, receiver: Receiver
) -> None:
    place = (await personal(ana)).rpartition("/")[2]
    as_ana = ("--user", ana.email)
    added = (await recollect("add", place, receiver.url, "--type", "bank.*", *as_ana, "--json")).json
    assert added["types"] == ["bank.*"]
    [listed] = (await recollect("list", place, *as_ana, "--json")).json
    assert listed == {name: value for name, value in added.items() if name != "secret"}

    receiver.answers = [status(410)]
    assert (await recollect("test", place, added["id"], *as_ana)).code == 0
    await turns.relay()
    await turns.run("webhooks.deliver", {"endpoint": added["id"]})
    receiver.received[0].verified(added["secret"])
    [failed] = (
        await recollect("deliveries", place, added["id"], "--state", "failed", *as_ana, "--json")
    ).json
    assert (failed["type"], failed["last_status"]) == ("webhook.test", 410)

    refused = await recollect("replay", place, added["id"], *as_ana)
    assert refused.sentence == "The webhook is disabled; enable it first."
    assert (await recollect("enable", place, added["id"], *as_ana, "--json")).json["is_enabled"]
    assert (await recollect("replay", place, added["id"], *as_ana, "--json")).json == {"replayed": 1}
    one = ("--delivery", failed["id"])
    assert (await recollect("replay", place, added["id"], *one, *as_ana, "--json")).json == {"replayed": 1}

    assert (await recollect("remove", place, added["id"], *as_ana)).code == 0
    assert (await recollect("list", place, *as_ana, "--json")).json == []


async def test_what_is_not_theirs_and_what_makes_no_sense_is_refused(
    recollect: Run, ana: Person, ben: Person, receiver: Receiver
) -> None:
    made = await hook(ana, receiver.url)
    place = made.workspace.rpartition("/")[2]
    as_ben = ("--user", ben.email)
    assert "not yours" in (await recollect("list", place, *as_ben)).sentence
    assert "no such webhook" in (await recollect("remove", place, str(made.id), *as_ben)).sentence
    as_ana = ("--user", ana.email)
    wrong = await recollect("add", place, receiver.url, "--type", "nonsense", *as_ana)
    assert wrong.sentence.startswith("types.0: ")
    private = await recollect(
        "add", place, "https://127.0.0.1/", *as_ana, RECOLLECT_WEBHOOKS_ALLOW_PRIVATE="false"
    )
    assert "public address" in private.sentence
    lost = await recollect("deliveries", place, str(made.id), "--state", "lost", *as_ana)
    assert lost.sentence == "state: pending, delivered or failed."
