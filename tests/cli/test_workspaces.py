"""Workspaces from the command line, with the rights of the user named and no others."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def test_a_workspace_is_made_shared_and_left(recollect: Run, ana: Person, ben: Person) -> None:
    as_ana, as_ben = ("--user", ana.email), ("--user", ben.email)
    made = (await recollect("workspace", "create", "Team", *as_ana, "--json")).json
    added = (await recollect("workspace", "add", made["id"], ben.email, *as_ana, "--json")).json
    assert (added["user_id"], added["role"]) == (str(ben.id), "member")
    raised = await recollect("workspace", "role", made["id"], ben.email, "--role", "admin", *as_ana, "--json")
    assert raised.json["role"] == "admin"
    assert (await recollect("workspace", "rename", made["id"], "Crew", *as_ben)).code == 0
    people = (await recollect("workspace", "members", made["id"], *as_ben, "--json")).json
    assert [one["email"] for one in people] == [ana.email, ben.email]

    assert (await recollect("workspace", "remove", made["id"], ben.email, *as_ben)).code == 0

    mine, theirs = [(await recollect("workspace", "list", *user, "--json")).json for user in (as_ana, as_ben)]
    assert [one["name"] for one in mine] == ["Personal", "Crew"]
    assert [one["name"] for one in theirs] == ["Personal"]


async def test_what_is_not_theirs_and_what_makes_no_sense_is_refused(
    recollect: Run, ana: Person, ben: Person
) -> None:
    place = (await ana.http.post("/api/workspaces", json={"name": "Team"})).json()["id"]
    as_ben = ("--user", ben.email)
    missing = await recollect("workspace", "rename", str(uuid4()), "Mine", *as_ben)
    refused = await recollect("workspace", "rename", place, "Mine", *as_ben)
    assert refused.sentence == missing.sentence
    nonsense = await recollect("workspace", "add", place, ben.email, "--role", "god", "--user", ana.email)
    assert nonsense.sentence.startswith("role: ")
    last = await recollect("workspace", "remove", place, ana.email, "--user", ana.email)
    assert "last owner" in last.sentence
