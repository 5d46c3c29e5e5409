"""What README and docs say of the command line is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from recollect.cli.app import app
from tests.architecture.sizes import ROOT
from tests.cli.conftest import Run
from tests.cli.test_rules import BRANCH, TABS, transcript

pytestmark = pytest.mark.anyio


def test_the_table_names_every_command() -> None:
    rows = dict(
        re.findall(r"^\| `recollect (\w+)` \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    )
    whole = typer.main.get_command(app)
    commands = getattr(whole, "commands")  # noqa: B009 - typer has its own class for groups

    assert rows.keys() == commands.keys()
    for name, command in commands.items():
        named = set(re.findall(r"`([a-z0-9-]+)`", rows[name]))
        assert set(getattr(command, "commands", ())) <= named, name


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("README.md", "## Rules that your assistants should have known"),
        ("docs/rules.md", "# Rules from chats"),
    ],
)
async def test_rules_are_found_by_doing_what_is_written(
    recollect: Run, tmp_path: Path, page: str, heading: str
) -> None:
    section = (ROOT / page).read_text().partition(f"{heading}\n")[2]
    block = section.partition("```")[2].partition("```")[0].splitlines()[1:]
    projects = tmp_path / ".claude" / "projects"
    projects.mkdir(parents=True)
    transcript(projects, TABS, BRANCH)
    # As README's first steps leave it: the first admin, and a user.
    await recollect("user", "create", "admin@localhost")
    await recollect("user", "create", "ana@example.com")

    settings: dict[str, str] = {}
    for line in block:
        [first, *rest] = shlex.split(line.replace("~", str(tmp_path)), comments=True)
        if first == "export":
            name, value = rest[0].split("=", 1)
            settings[name] = value
        else:
            known = (await recollect("rules", "list", "--json", **settings)).json
            told = await recollect(
                *(known[0]["id"] if each.startswith("ID") else each for each in rest), **settings
            )
            assert told.code == 0, (line, told.err)

    assert (await recollect("rules", "list", "--json", "--user", "ana@example.com")).json
