"""Cursor's database and its export."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.rules.chats.conftest import Read, Write


def database(path: Path, values: dict[str, Any]) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [
            (key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()
        ]
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
        connection.commit()
    return path


COMPOSER = {
    "composerData:c1": {
        "name": "Routes",
        "createdAt": 1_772_000_000_000,
        "fullConversationHeadersOnly": [{"bubbleId": name} for name in ("b1", "b2", "b3", "b4", "gone")],
        "workspaceIdentifier": {"uri": {"fsPath": "/srv/shop"}},
    },
    "bubbleId:c1:b1": {"type": 1, "text": "list the routes", "createdAt": "2026-03-01T10:00:00Z"},
    "bubbleId:c1:b2": {"type": 2, "text": "Two."},
    "bubbleId:c1:b3": {
        "type": 2,
        "text": "",
        "toolFormerData": {
            "name": "run_terminal_cmd",
            "rawArgs": '{"command": "git push"}',
            "userDecision": "rejected",
        },
    },
    "bubbleId:c1:b4": {"type": 1, "text": "never push"},
    "bubbleId:other:b9": {"type": 1, "text": "of no chat"},
}


def test_a_database_has_the_turns_of_each_composer(read: Read, tmp_path: Path) -> None:
    (chat,) = read(database(tmp_path / "state.vscdb", COMPOSER)).chats
    assert (chat.format, chat.session, chat.title, chat.project) == ("cursor", "c1", "Routes", "/srv/shop")
    assert [(turn.role, turn.text) for turn in chat.turns] == [
        ("user", "list the routes"),
        ("assistant", "Two."),
        ("user", "never push"),
    ]
    assert chat.turns[-1].doing == "run_terminal_cmd git push (rejected)"


def test_older_versions_keep_the_conversation_in_one_value(read: Read, tmp_path: Path) -> None:
    bubble = {"type": 1, "text": "hello", "workspaceUris": ["file:///srv/my%20shop"]}
    (chat,) = read(database(tmp_path / "state.vscdb", {"composerData:c1": {"conversation": [bubble]}})).chats
    assert (chat.project, chat.turns[0].text) == ("/srv/my shop", "hello")


def test_a_database_is_only_read(read: Read, tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", COMPOSER)
    before = path.read_bytes()
    path.chmod(0o444)
    assert read(path).chats
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["state.vscdb"]


def test_broken_values_are_passed_over(read: Read, tmp_path: Path) -> None:
    broken = {
        "composerData:a": "{",
        "composerData:b": "[1]",
        "composerData:d": {"fullConversationHeadersOnly": 7},
    }
    found = read(database(tmp_path / "state.vscdb", {**broken, **COMPOSER}))
    assert [chat.session for chat in found.chats] == ["c1"]


def test_what_cursor_has_not_saved_yet_is_reported(read: Read, tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", COMPOSER)
    (tmp_path / "state.vscdb-wal").write_bytes(b"newer pages")
    found = read(path)
    assert len(found.chats) == 1
    assert "close Cursor" in found.reasons


def test_a_database_of_something_else_is_reported(read: Read, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE VIEW cursorDiskKV AS SELECT 1 AS key, 2 AS value")
        connection.commit()
    found = read(tmp_path / "other.db")
    assert "globalStorage/state.vscdb" in found.reasons


def test_a_damaged_database_is_reported(read: Read, tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", COMPOSER)
    path.write_bytes(path.read_bytes()[:2_000] + b"\xff" * 3_000)
    found = read(path)
    assert not found.chats
    assert "could not be read any further" in found.reasons


def test_an_export_has_speakers_between_rules(read: Read, write: Write) -> None:
    text = """# Routes
_Exported on 3/1/2026 at 10:00:00 GMT from Cursor (1.2.3)_

---

**User**

list the routes
**User** is a word here

---

**Cursor**

Two of them.

---

And a rule of my own.

---

**User**

never push
"""
    (chat,) = read(write("cursor_routes.md", text)).chats
    assert (chat.format, chat.title) == ("cursor-markdown", "Routes")
    assert [(turn.role, turn.text) for turn in chat.turns] == [
        ("user", "list the routes\n**User** is a word here"),
        ("assistant", "Two of them.\n\n---\n\nAnd a rule of my own."),
        ("user", "never push"),
    ]
