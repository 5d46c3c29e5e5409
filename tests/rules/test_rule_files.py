"""What a project's own files tell: those of the folder of a chat and above it, within its repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.rules.rule_files import texts_of


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder somebody works in, with a repository and a plain folder beside it."""
    for folder, rule in {
        ".": "outside",
        "here": "here",
        "repo": "root",
        "repo/a/b": "nested",
        "plain/a": "plain",
    }.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "AGENTS.md").write_text(rule)
    (tmp_path / "repo" / ".git").mkdir()
    return tmp_path / "here"


def test_a_folder_of_a_repository_is_read_up_to_its_root(here: Path) -> None:
    assert texts_of(str(here.parent / "repo/a/b"), otherwise=here) == ["nested", "root"]


def test_a_folder_of_no_repository_is_read_alone(here: Path) -> None:
    assert texts_of(str(here.parent / "plain/a"), otherwise=here) == ["plain"]


@pytest.mark.parametrize(
    "project", [None, "", "shop", "/no/such/folder", "C:\\shop", "nul\0", "/" + "x" * 5_000]
)
def test_what_is_no_folder_here_is_told_by_the_current_one(here: Path, project: str | None) -> None:
    assert texts_of(project, otherwise=here) == ["here"]
