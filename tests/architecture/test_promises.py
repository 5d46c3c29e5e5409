"""Promises of the project about itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pydantic import AliasChoices

from recollect.settings import Settings
from tests.architecture.sizes import ROOT

SOURCE = ROOT / "src" / "recollect"


def _names_of(field_name: str) -> set[str]:
    alias = Settings.model_fields[field_name].validation_alias
    if isinstance(alias, AliasChoices):
        return {str(choice) for choice in alias.choices}
    return {alias} if isinstance(alias, str) else {f"RECOLLECT_{field_name.upper()}"}


def test_every_setting_is_in_the_example_and_nothing_else_is() -> None:
    example = (ROOT / ".env.example").read_text()
    documented = set(re.findall(r"^#?\s?([A-Z][A-Z0-9_]+)=", example, re.MULTILINE))
    known: set[str] = set()
    for name in Settings.model_fields:
        names = _names_of(name)
        assert names & documented, f"{name} is not in .env.example"
        known |= names
    assert documented <= known


def test_the_environment_is_read_in_settings_alone() -> None:
    readers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    }
    # The keeper reads no setting: it passes a clean environment on to Postgres.
    assert readers == {"settings.py", "db/embedded/keeper.py"}


def test_nobody_commits_but_tenancy() -> None:
    """Migrations and the embedded server's set-up have connections of their own."""
    excused = {"db/tenancy.py", "db/migrate.py", "db/logins.py", "db/turns.py"}
    committers = [
        name
        for path in SOURCE.rglob("*.py")
        if (name := str(path.relative_to(SOURCE))) not in excused
        and re.search(r"\.(commit|rollback)\(|\.transaction\(\)", path.read_text())
    ]
    assert committers == []


def test_sql_is_in_files() -> None:
    pattern = re.compile(r"[\"'](select|insert into|update|delete from) .*", re.IGNORECASE)
    excused = {"db/migrate.py", "db/logins.py", "db/turns.py", "db/health.py", "db/statements.py"}
    # It reads another program's SQLite file, in a dialect of its own.
    excused.add("rules/chats/cursor.py")
    found = [
        f"{name}: {match.group()[:60]}"
        for path in SOURCE.rglob("*.py")
        if (name := str(path.relative_to(SOURCE))) not in excused
        for match in pattern.finditer(path.read_text())
    ]
    assert found == []


def test_migrations_are_in_order_and_dated() -> None:
    names = [path.name for path in sorted((ROOT / "supabase" / "migrations").iterdir())]
    assert names
    assert all(re.fullmatch(r"20\d{12}_[a-z0-9_]+\.sql", name) for name in names)


def test_every_decision_fits_on_a_page() -> None:
    for path in (ROOT / "docs" / "decisions").glob("*.md"):
        assert len(path.read_text().splitlines()) <= 60, path.name


def _documentation() -> list[Path]:
    return [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_links_in_the_documentation_lead_somewhere() -> None:
    for path in _documentation():
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
