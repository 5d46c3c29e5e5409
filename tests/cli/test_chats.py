"""Chats on the command line: files of any format in, what is kept out."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from recollect.bootstrap import Services
from recollect.rules.histories.importing import Import
from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio

TOKEN = "ghp_" + "k7Jq2mXw9bRt4vZs8nLd3pYc6hFg1aUe5oTi"


def claude_code(folder: Path, *said: str, session: str | None = None, name: str | None = None) -> Path:
    """A session of Claude Code, as it writes them."""
    session = session or str(uuid4())
    lines = [
        {
            "type": "user" if number % 2 == 0 else "assistant",
            "uuid": f"{number}-{text}",
            "sessionId": session,
            "cwd": "/shop",
            "timestamp": f"2026-03-01T12:{number:02}:00.000Z",
            "message": {"role": "user" if number % 2 == 0 else "assistant", "content": text},
        }
        for number, text in enumerate(said)
    ]
    path = folder / f"{name or session}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "projects"
    folder.mkdir()
    return folder


async def imported(recollect: Run, *arguments: str) -> Any:
    return (await recollect("import", "chats", *arguments, "--json")).json


async def test_on_a_new_machine_it_simply_works(recollect: Run, files: Path) -> None:
    claude_code(files, "Add a cart.", "Done.", "Always write a test first.")

    outcome = await recollect("import", "chats", str(files))

    assert outcome.code == 0, outcome.err
    assert "admin@localhost" in outcome.err
    assert "claude-code" in outcome.out
    [agreement] = [line for line in outcome.out.splitlines() if "you agree" in line]
    assert "chats consent --no" in agreement
    [chat] = (await recollect("chats", "list", "--json")).json
    shown = (await recollect("chats", "show", chat["id"], "--json")).json
    assert [turn["text"] for turn in shown["turns"]][2] == "Always write a test first."
    [said] = (await recollect("chats", "consent", "--json")).json
    assert (said["granted"], said["how"], said["workspace_id"]) == (True, "command line", None)


async def test_what_it_did_is_told_to_scripts(recollect: Run, ana: Person, files: Path) -> None:
    claude_code(files, f"Push with {TOKEN}.", "Done.")
    (files / "broken.jsonl").write_text("no chat\n")

    told = await imported(recollect, str(files), "--user", ana.email)

    assert {name: told[name] for name in ("chats", "turns", "known_turns", "consent", "user")} == {
        "chats": 1,
        "turns": 2,
        "known_turns": 0,
        "consent": True,
        "user": ana.email,
    }
    assert sum(told["masked"].values()) == 1
    [skipped] = told["skipped"]
    assert skipped["source"].endswith("broken.jsonl")
    assert skipped["reason"]
    assert skipped["line"] is None


async def test_again_it_adds_what_is_new(recollect: Run, ana: Person, files: Path) -> None:
    path = claude_code(files, "Add a cart.", "Done.")
    await imported(recollect, str(path))
    again = await imported(recollect, str(path))
    assert (again["chats"], again["turns"], again["known_turns"]) == (0, 0, 2)

    claude_code(files, "Add a cart.", "Done.", "And a till.", session=path.stem)
    grown = await imported(recollect, str(path))
    assert (grown["chats"], grown["turns"], grown["known_turns"]) == (1, 1, 2)

    claude_code(files, "Add a cart.", "Done.", "And a till.", "Done too.", "Test it.", name=str(uuid4()))
    resumed = await imported(recollect, str(files))
    assert (resumed["chats"], resumed["turns"]) == (1, 2)


async def test_a_dry_run_counts_and_adds_nothing(recollect: Run, ana: Person, files: Path) -> None:
    claude_code(files, "Add a cart.", "Done.")
    with zipfile.ZipFile(files / "copy.zip", "w") as archive:
        archive.writestr("chat.json", json.dumps([{"role": "user", "content": f"Use {TOKEN}."}]))

    told = await imported(recollect, str(files), "--dry-run")

    assert (told["chats"], told["turns"], told["consent"]) == (2, 3, False)
    assert sum(told["masked"].values()) == 1
    assert sorted(told["formats"]) == ["claude-code", "messages"]
    assert (await recollect("chats", "list", "--json")).json == []
    assert (await imported(recollect, str(files)))["turns"] == 3


async def test_one_can_import_without_agreeing(recollect: Run, ana: Person, files: Path) -> None:
    claude_code(files, "Add a cart.")
    outcome = await recollect("import", "chats", str(files), "--no-consent")
    assert "chats consent --yes" in outcome.out
    [refusal] = (await recollect("chats", "consent", "--json")).json
    assert refusal["granted"] is False
    [said] = (await recollect("chats", "consent", "--yes", "--json")).json
    assert said["granted"] is True


async def test_who_has_agreed_takes_that_back_before_importing_without(
    recollect: Run, ana: Person, files: Path
) -> None:
    claude_code(files, "Add a cart.")
    await recollect("chats", "consent", "--yes")
    refused = await recollect("import", "chats", str(files), "--no-consent")
    assert "chats consent --no" in refused.sentence
    assert (await recollect("chats", "list", "--json")).json == []

    await recollect("chats", "consent", "--no")
    assert (await imported(recollect, str(files), "--no-consent"))["consent"] is False


async def test_where_nothing_is_found_it_says_so_and_fails(recollect: Run, ana: Person, files: Path) -> None:
    outcome = await recollect("import", "chats", str(files / "nowhere"))
    assert outcome.code == 1
    assert "No chats were found." in outcome.out
    assert "no such file" in outcome.err
    assert (await recollect("chats", "consent", "--json")).json == []


async def test_among_several_users_one_is_to_be_named(
    recollect: Run, ana: Person, ben: Person, files: Path
) -> None:
    claude_code(files, "Add a cart.")
    assert "--user" in (await recollect("import", "chats", str(files))).sentence
    told = await imported(recollect, str(files), "--user", ben.email)
    assert told["user"] == ben.email
    assert (await recollect("chats", "list", "--user", ana.email, "--json")).json == []


async def test_chats_can_belong_to_a_workspace(recollect: Run, ana: Person, ben: Person, files: Path) -> None:
    claude_code(files, "Add a cart.")
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    refused = await recollect("import", "chats", str(files), "--user", ben.email, "--workspace", shop)
    assert refused.code == 1
    await imported(recollect, str(files), "--user", ana.email, "--workspace", shop)

    here = await recollect("chats", "list", "--user", ana.email, "--workspace", shop, "--json")
    assert [each["workspace_id"] for each in here.json] == [shop]
    said = await recollect("chats", "consent", "--user", ana.email, "--json")
    assert [each["workspace_id"] for each in said.json] == [shop]
    relied = await recollect(
        "chats",
        "consent",
        "--user",
        ana.email,
        "--workspace",
        shop,
        "--rely-on",
        "workspace",
        "--no",
        "--json",
    )
    assert [each["granted"] for each in relied.json] == [False]
    settings = await ana.http.get(f"/api/workspaces/{shop}/rules/settings")
    assert settings.json() == {"consent": "workspace"}


async def test_a_chat_is_deleted_after_asking(recollect: Run, ana: Person, files: Path) -> None:
    claude_code(files, "Add a cart.")
    await imported(recollect, str(files))
    [chat] = (await recollect("chats", "list", "--json")).json
    assert (await recollect("chats", "delete", chat["id"], stdin="n\n")).code == 1
    assert len((await recollect("chats", "list", "--json")).json) == 1
    assert (await recollect("chats", "delete", chat["id"], "--yes", "--json")).json == {"deleted": 1}
    assert "no such chat" in (await recollect("chats", "show", chat["id"])).sentence


async def test_to_import_again_is_not_to_agree_after_having_said_no(recollect: Run, files: Path) -> None:
    claude_code(files, "Always write a test first.", "Done.")
    await recollect("import", "chats", str(files))
    await recollect("chats", "consent", "--no")

    again = await recollect("import", "chats", str(files))

    assert "chats consent --yes" in again.out
    assert not (await imported(recollect, str(files)))["consent"]
    assert (await imported(recollect, str(files), "--consent"))["consent"]


async def test_the_way_back_names_the_place_and_the_user(
    recollect: Run, ana: Person, ben: Person, files: Path
) -> None:
    claude_code(files, "Add a cart.")
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    place = ("--workspace", shop, "--user", ana.email)
    agreeing = f"chats consent --yes --workspace {shop} --user {ana.email}`"
    taking_back = f"chats consent --no --workspace {shop} --user {ana.email}"

    without = await recollect("import", "chats", str(files), *place, "--no-consent")
    agreed = await recollect("import", "chats", str(files), *place, "--consent")
    refused = await recollect("import", "chats", str(files), *place, "--no-consent")

    assert agreeing in without.out
    assert f"{taking_back}`" in agreed.out
    assert f"{taking_back}." in refused.sentence


async def test_who_imported_without_agreeing_does_not_agree_by_importing_more(
    recollect: Run, ana: Person, files: Path
) -> None:
    claude_code(files, "Add a cart.", name="first")
    await recollect("import", "chats", str(files), "--no-consent")
    claude_code(files, "Add a till.", name="second")

    again = await imported(recollect, str(files))
    [said] = (await recollect("chats", "consent", "--json")).json

    assert (again["turns"], again["consent"], said["granted"]) == (1, False, False)
    assert (await imported(recollect, str(files), "--consent"))["consent"]


async def test_it_says_once_that_to_import_is_to_agree(recollect: Run, ana: Person, files: Path) -> None:
    claude_code(files, "Add a cart.", name="first")
    first = await recollect("import", "chats", str(files))
    claude_code(files, "Add a till.", name="second")
    second = await recollect("import", "chats", str(files))

    assert "you agree" in first.out
    assert "agree" not in second.out


async def test_what_was_here_already_is_no_reason_to_agree(
    recollect: Run, ana: Person, services: Services, files: Path
) -> None:
    claude_code(files, "Add a cart.")
    await Import(services.histories, services.tenancy, ana.id).run([str(files)], lambda *_: None)
    again = await recollect("import", "chats", str(files))

    assert "before you agree" in again.out
    assert (await recollect("chats", "consent", "--json")).json == []


async def test_whose_agreement_a_workspace_takes_is_told(recollect: Run, ana: Person) -> None:
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]

    before = await recollect("chats", "consent", "--workspace", shop)
    after = await recollect("chats", "consent", "--workspace", shop, "--rely-on", "workspace")

    assert "relies on author" in before.out
    assert "relies on workspace" in after.out


async def test_for_whom_commands_act_can_be_said_once(
    recollect: Run, ana: Person, ben: Person, files: Path
) -> None:
    claude_code(files, "Add a cart.")
    refused = await recollect("chats", "list")
    unknown = await recollect("chats", "list", RECOLLECT_USER="nobody@example.com")
    told = await recollect("import", "chats", str(files), "--json", RECOLLECT_USER=ben.email)
    anas = await recollect("chats", "list", "--user", ana.email, "--json", RECOLLECT_USER=ben.email)

    assert "RECOLLECT_USER" in refused.sentence
    assert "nobody@example.com, whom RECOLLECT_USER names" in unknown.sentence
    assert told.json["user"] == ben.email
    assert anas.json == []
