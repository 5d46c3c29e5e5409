"""Rules on the command line: extracted, listed, decided; what a project's own files say left out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import CODE, Run
from tests.conftest import Person, until
from tests.support.model_server import Hangs, ModelServer

pytestmark = pytest.mark.anyio

TABS = "From now on always indent with tabs, never with spaces."
BRANCH = "Never push to the main branch directly, always open a pull request."


def transcript(folder: Path, *said: str, session: str = "s1", held_in: str = "/shop") -> Path:
    """A session of Claude Code in which the user says these things."""
    lines, parent = [], None
    for number, text in enumerate(part for each in said for part in (each, "Done.")):
        role = "assistant" if number % 2 else "user"
        lines.append(
            {
                "type": role,
                "uuid": f"u{number}",
                "parentUuid": parent,
                "sessionId": session,
                "cwd": held_in,
                "timestamp": f"2026-03-01T12:{number:02}:00Z",
                "message": {"role": role, "content": text},
            }
        )
        parent = f"u{number}"
    path = folder / f"{session}.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


async def test_on_a_new_machine_import_and_extract_show_rules_with_quotes(
    recollect: Run, tmp_path: Path
) -> None:
    path = transcript(tmp_path, TABS, "Thanks. What is next?", BRANCH)
    imported = await recollect("import", "chats", str(path), "--json")
    planned = await recollect("rules", "extract", "--dry-run", "--json")
    extracted = await recollect("rules", "extract", "--json")
    shown = await recollect("rules", "extract", "--all")
    again = await recollect("rules", "extract")

    assert imported.json["turns"] == 6
    assert (planned.json["turns"], planned.json["candidates"], planned.json["tokens_sent"]) == (6, 2, 0)
    found = {rule["category"]: rule for rule in extracted.json["rules"]}
    assert found.keys() == {"code-style", "git-workflow"}
    [evidence] = found["code-style"]["evidence"]
    assert evidence.keys() == {"quote", "source", "session", "turn"}
    assert evidence["quote"] in TABS
    assert (evidence["source"], evidence["session"], evidence["turn"]) == (str(path), "s1", 0)
    assert found["code-style"]["scope"] == {"reach": "project", "project": "/shop"}
    assert extracted.json["run"]["origin"] == "command line"
    assert "indent with tabs" in shown.out
    assert "Nothing is new" in again.err


async def test_a_rule_is_approved_or_rejected_and_handed_out(recollect: Run, tmp_path: Path) -> None:
    await recollect("import", "chats", str(transcript(tmp_path, TABS, BRANCH)))
    found = {
        rule["category"]: rule["id"] for rule in (await recollect("rules", "extract", "--json")).json["rules"]
    }
    tabs, branch = found["code-style"], found["git-workflow"]

    approved = await recollect("rules", "approve", branch, "--json")
    rejected = await recollect("rules", "reject", tabs, "--reason", "We use spaces.")
    handed_out = await recollect("rules", "approved", "--json")
    listed = await recollect("rules", "list", "--status", "rejected", "--json")
    runs = await recollect("rules", "runs", "--json")
    shown = await recollect("rules", "show", branch, "--json")

    assert approved.json["status"] == "approved"
    assert rejected.out.startswith("rejected: ")
    assert [rule["id"] for rule in handed_out.json] == [branch]
    assert [(rule["id"], rule["rejection_reason"]) for rule in listed.json] == [(tabs, "We use spaces.")]
    assert [(run["state"], run["proposed"]) for run in runs.json] == [("done", 2)]
    assert shown.json["usage_count"] == 1


async def test_what_the_project_tells_its_tools_is_not_proposed(recollect: Run, tmp_path: Path) -> None:
    tabs = "From now on always indent with tabs."
    await recollect("import", "chats", str(transcript(tmp_path, tabs, BRANCH)))
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text(
        "# Git\n- Never push to the main branch directly, open a pull request.\n"
    )
    (project / ".editorconfig").write_text("[*]\nindent_style = tab\n")

    extracted = await recollect("rules", "extract", "--project-dir", str(project), "--json")

    assert extracted.json["rules"] == []
    assert extracted.json["run"]["turns"] == 4


async def test_a_prompt_is_added_changed_and_its_earlier_text_kept(recollect: Run, tmp_path: Path) -> None:
    await recollect("user", "create", "ana@example.com")
    text = tmp_path / "prompt.txt"
    text.write_text("Find rules.")

    added = await recollect("rules", "prompts", "add", "ours", "--file", str(text), "--json")
    changed = await recollect(
        "rules", "prompts", "change", added.json["id"], "--file", "-", "--json", stdin="Find good rules."
    )
    versions = await recollect("rules", "prompts", "versions", added.json["id"], "--json")
    listed = await recollect("rules", "prompts", "list", "--json")
    shown = await recollect("rules", "prompts", "show", added.json["id"])

    assert (changed.json["version"], shown.out.strip()) == (2, "Find good rules.")
    assert [version["prompt_text"] for version in versions.json] == ["Find rules."]
    assert {prompt["name"] for prompt in listed.json} == {"default", "ours"}


async def test_what_a_chats_own_project_says_is_left_out_there_and_nowhere_else(
    recollect: Run, tmp_path: Path
) -> None:
    shop, bank = tmp_path / "shop", tmp_path / "bank"
    (shop / ".git").mkdir(parents=True)
    (shop / "src").mkdir()
    bank.mkdir()
    (shop / "AGENTS.md").write_text("- Always indent with tabs, never with spaces.\n")
    (bank / "AGENTS.md").write_text("- Never push to the main branch directly.\n")
    chats = tmp_path / "chats"
    chats.mkdir()
    transcript(chats, TABS, BRANCH, held_in=str(shop / "src"))
    await recollect("import", "chats", str(chats))

    in_shop = await recollect("rules", "extract", "--json")
    transcript(chats, "Always indent with tabs, never with spaces!", session="s2", held_in=str(bank))
    await recollect("import", "chats", str(chats))
    in_both = await recollect("rules", "extract", "--json")

    assert [rule["category"] for rule in in_shop.json["rules"]] == ["git-workflow"]
    assert [rule["category"] for rule in in_both.json["rules"]] == ["code-style"]


async def found_in(recollect: Run, folder: Path, *said: str) -> dict[str, str]:
    """The ids of the rules that these words are taken for, by category."""
    await recollect("import", "chats", str(transcript(folder, *said)))
    extracted = await recollect("rules", "extract", "--json")
    return {rule["category"]: rule["id"] for rule in extracted.json["rules"]}


async def test_what_was_found_is_shown_with_the_ids_to_decide_by(recollect: Run, tmp_path: Path) -> None:
    await recollect("import", "chats", str(transcript(tmp_path, TABS, BRANCH)))
    shown = await recollect("rules", "extract")
    listed = await recollect("rules", "list", "--json")

    assert {rule["id"] for rule in listed.json} == {line.split()[0] for line in shown.out.splitlines()[1:]}
    assert "recollect rules approve ID..." in shown.err


async def test_several_rules_are_decided_together_or_not_at_all(recollect: Run, tmp_path: Path) -> None:
    ids = [*(await found_in(recollect, tmp_path, TABS, BRANCH)).values()]
    unknown = str(uuid4())

    refused = await recollect("rules", "approve", ids[0], unknown, ids[1])
    before = await recollect("rules", "list", "--json")
    approved = await recollect("rules", "approve", *ids, "--json")
    rejected = await recollect("rules", "reject", *ids, "--reason", "No longer.")

    assert unknown in refused.sentence
    assert {rule["status"] for rule in before.json} == {"pending"}
    assert [(rule["id"], rule["status"]) for rule in approved.json] == [(each, "approved") for each in ids]
    assert [line.split(":")[0] for line in rejected.out.splitlines()] == ["rejected", "rejected"]


async def test_a_rule_is_archived_or_sent_back_with_notes(recollect: Run, tmp_path: Path) -> None:
    found = await found_in(recollect, tmp_path, TABS, BRANCH)

    archived = await recollect("rules", "archive", found["code-style"], "--json")
    revised = await recollect("rules", "revise", found["git-workflow"], "--notes", "Which branch?", "--json")

    assert archived.json["status"] == "archived"
    assert (revised.json["status"], revised.json["revision_notes"]) == ("needs_revision", "Which branch?")


async def test_a_rule_is_shown_with_each_quote_on_a_line(recollect: Run, tmp_path: Path) -> None:
    found = await found_in(recollect, tmp_path, TABS, BRANCH)

    shown = await recollect("rules", "show", found["git-workflow"])

    [line] = [line for line in shown.out.splitlines() if line.startswith("evidence")]
    assert "Never push to the main branch directly" in line
    assert line.endswith("(session s1, turn 2)")
    assert "{" not in shown.out


async def test_rules_are_listed_the_surest_of_a_run_first_and_more_are_hinted_at(
    recollect: Run, tmp_path: Path
) -> None:
    await found_in(recollect, tmp_path, TABS, BRANCH, "Please use snake_case for names.")

    listed = await recollect("rules", "list", "--json")
    first = await recollect("rules", "list", "--limit", "1")
    every = await recollect("rules", "list", "--limit", str(len(listed.json)))

    sure = [rule["confidence"] for rule in listed.json]
    assert len(sure) > 1
    assert sure == sorted(sure, reverse=True)
    assert "more than 1" in first.err
    assert len(first.out.splitlines()) == 2
    assert every.err == ""


@pytest.mark.parametrize(
    "command",
    [
        ("rules", "list"),
        ("rules", "approved"),
        ("rules", "runs"),
        ("rules", "prompts", "list"),
        ("rules", "extract", "--dry-run"),
        ("chats", "list"),
    ],
    ids=" ".join,
)
async def test_a_workspace_that_one_is_not_in_is_refused(
    recollect: Run, ana: Person, ben: Person, command: tuple[str, ...]
) -> None:
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    refusal = "There is no such workspace, or you are not in it."

    unknown = await recollect(*command, "--workspace", str(uuid4()), "--user", ana.email)
    anothers = await recollect(*command, "--workspace", shop, "--user", ben.email)
    await recollect("chats", "consent", "--yes", "--workspace", shop, "--user", ana.email)
    own = await recollect(*command, "--workspace", shop, "--user", ana.email)

    assert (unknown.sentence, anothers.sentence) == (refusal, refusal)
    assert own.code == 0, own.err


@pytest.mark.parametrize("command", ["list", "approved"])
async def test_a_category_that_there_is_none_of_is_refused(recollect: Run, command: str) -> None:
    refused = await recollect("rules", command, "--category", "style")

    assert "There is no category style" in refused.sentence
    assert "code-style" in refused.sentence


async def test_for_people_a_run_is_told_in_short(recollect: Run, tmp_path: Path) -> None:
    await found_in(recollect, tmp_path, TABS)

    runs = await recollect("rules", "runs")
    whole = await recollect("rules", "runs", "--json")

    heading = runs.out.splitlines()[0]
    assert " ".join(heading.split()) == "started at state origin turns proposed repeated tokens sent error"
    assert whole.json[0]["made_by"] == "rules"


async def test_an_extraction_that_is_terminated_is_recorded_as_stopped_and_the_next_one_works(
    recollect: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    await recollect("import", "chats", str(transcript(tmp_path, TABS)))
    async with ModelServer().running() as server:
        server.otherwise = lambda _: Hangs()
        asking = {f"RECOLLECT_{name.upper()}": value for name, value in server.as_openai().items()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "recollect", "rules", "extract"),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": CODE,
                "HOME": str(tmp_path),
                **environment,
                **asking,
            },
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        await until(lambda: server.asked)
        process.terminate()
        _, told = await asyncio.wait_for(process.communicate(), 30)
    runs = await recollect("rules", "runs", "--json")
    again = await recollect("rules", "extract", "--json")

    assert process.returncode == 130
    assert b"Traceback" not in told
    assert [(run["state"], run["error"]) for run in runs.json] == [("failed", "The extraction was stopped.")]
    assert again.json["run"]["state"] == "done"


async def test_a_prompt_is_shown_with_its_lines_and_for_whom_it_is(recollect: Run, ana: Person) -> None:
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    add = ("rules", "prompts", "add")

    for_all = await recollect(*add, "ours", "--file", "-", stdin="Find rules.\nAll of them.\n")
    for_one = await recollect(*add, "shop", "--file", "-", "--workspace", shop, stdin="Find rules.")

    lines = [line.strip() for line in for_all.out.splitlines()]
    assert "All of them." in lines
    assert "\N{REPLACEMENT CHARACTER}" not in for_all.out
    assert "for everybody" in for_all.err
    assert for_one.err == ""


@pytest.mark.parametrize("text", ["", " \n\t\n"])
async def test_a_prompt_without_words_is_refused(recollect: Run, ana: Person, text: str) -> None:
    added = await recollect("rules", "prompts", "add", "ours", "--file", "-", stdin=text)
    [default] = (await recollect("rules", "prompts", "list", "--json")).json
    changed = await recollect("rules", "prompts", "change", default["id"], "--file", "-", stdin=text)

    assert added.sentence == changed.sentence == "A prompt has to say something."


async def test_that_a_prompt_does_nothing_without_a_model_is_said(recollect: Run, tmp_path: Path) -> None:
    await recollect("import", "chats", str(transcript(tmp_path, TABS)))
    [chat] = (await recollect("chats", "list", "--json")).json
    [default] = (await recollect("rules", "prompts", "list", "--json")).json

    tried = await recollect("rules", "prompts", "try", default["id"], chat["id"])

    assert "tried (1 rules" in tried.out
    assert "has no effect without a model" in tried.err
