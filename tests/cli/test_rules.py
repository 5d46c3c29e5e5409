"""Rules on the command line: extracted, listed, decided; what a project's own files say left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

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
