"""Cursor's database and its export."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect.rules.chats.cursor_markdown import is_export
from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Skipped
from recollect.rules.chats.sameness import places
from tests.rules.chats.conftest import Read, Write


def database(path: Path, values: dict[str, Any], table: str = "cursorDiskKV") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [
            (key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()
        ]
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        connection.commit()
    return path


def workspace(path: Path, **values: Any) -> Path:
    """A database of one workspace, as versions before 2025 wrote it."""
    keys = {
        "tabs": "workbench.panel.aichat.view.aichat.chatdata",
        "allComposers": "composer.composerData",
        "prompts": "aiService.prompts",
    }
    return database(path, {keys[name]: {name: value} for name, value in values.items()}, "ItemTable")


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


def test_a_time_is_when_something_was_sent_and_not_how_long_the_program_ran(
    read: Read, tmp_path: Path
) -> None:
    timing = {"clientStartTime": 78_249.7, "clientRpcSendTime": 1_772_000_060_000}
    bubbles = [
        {"type": 1, "text": "list the routes"},
        {"type": 2, "text": "Two.", "timingInfo": timing},
        {"type": 1, "text": "never push"},
        {"type": 2, "text": "Agreed.", "timingInfo": {"clientStartTime": 99_000.5}},
    ]
    composer = {"createdAt": 1_772_000_000_000, "conversation": bubbles}
    (chat,) = read(database(tmp_path / "state.vscdb", {"composerData:c1": composer})).chats
    sent = datetime.fromtimestamp(1_772_000_060, UTC)
    assert [turn.at for turn in chat.turns] == [sent, sent, None, None]


def test_a_step_without_a_tool_is_nothing_that_was_done(read: Read, tmp_path: Path) -> None:
    bubbles = [
        {"type": 2, "text": "", "toolFormerData": {"additionalData": {}}},
        {"type": 2, "text": "", "toolFormerData": {"name": "read_file", "rawArgs": '{"path": "a.py"}'}},
        {"type": 1, "text": "go on"},
    ]
    composer = {"conversation": bubbles}
    (chat,) = read(database(tmp_path / "state.vscdb", {"composerData:c1": composer})).chats
    assert chat.turns[0].doing == "read_file a.py"


def test_a_workspace_has_the_turns_of_its_tabs(read: Read, tmp_path: Path) -> None:
    (tmp_path / "workspace.json").write_text('{"folder": "file:///srv/my%20shop"}')
    tab = {
        "tabId": "t1",
        "chatTitle": "Routes\n\nThere are two of them.",
        "lastSendTime": 1_772_000_060_000,
        "bubbles": [
            {"type": "user", "text": "list the routes"},
            {"type": "ai", "text": "Two."},
            {"type": "user", "text": "never push"},
            {"type": "ai", "text": "Agreed."},
            {"type": "user", "text": "and nev"},
        ],
    }
    (chat,) = read(workspace(tmp_path / "state.vscdb", tabs=[tab])).chats
    assert (chat.session, chat.title, chat.project) == ("t1", "Routes", "/srv/my shop")
    # What stands in the field to type into was never said.
    assert [turn.text for turn in chat.turns] == ["list the routes", "Two.", "never push", "Agreed."]
    # It is the time of the last that was sent, which is another with the next: no turn can be told by it.
    assert {turn.at for turn in chat.turns} == {None}
    assert chat.started_at == datetime.fromtimestamp(1_772_000_060, UTC)


def test_the_first_versions_had_the_words_of_a_tab_under_other_names(read: Read, tmp_path: Path) -> None:
    bubbles = [
        {"type": "user", "delegate": {"a": "list the routes"}},
        {"type": "ai", "rawText": "Two."},
        {"type": "user", "delegate": {"a": ""}, "rawText": "never push"},
        {"type": "ai", "rawText": "Agreed."},
    ]
    tabs = [{"tabId": "t1", "bubbles": bubbles}]
    (chat,) = read(workspace(tmp_path / "state.vscdb", tabs=tabs)).chats
    assert [turn.text for turn in chat.turns] == ["list the routes", "Two.", "never push", "Agreed."]


def test_an_answer_that_was_applied_is_not_heard_a_second_time(read: Read, tmp_path: Path) -> None:
    asked, answered = "list the routes", "Two."
    tab = {
        "tabId": "t1",
        "bubbles": [{"type": "user", "text": asked}, {"type": "ai", "text": answered}],
    }
    copy = [{"type": 1, "text": asked}, {"type": 2, "text": answered}]
    composers = [
        {"composerId": "c1", "conversation": copy},
        {"composerId": "c2", "conversation": [*copy, {"type": 1, "text": "never push"}]},
        {"composerId": "c3", "conversation": [copy[0], {"type": 2, "text": "Three."}]},
    ]
    found = read(workspace(tmp_path / "state.vscdb", tabs=[tab], allComposers=composers))
    assert [(chat.session, [turn.text for turn in chat.turns]) for chat in found.chats] == [
        ("t1", [asked, answered]),
        ("c2", ["never push"]),
        ("c3", [asked, "Three."]),
    ]


def test_a_workspace_whose_chats_have_moved_says_where_they_are(read: Read, tmp_path: Path) -> None:
    path = workspace(tmp_path / "state.vscdb", allComposers=[{"composerId": "c1"}], prompts=["list"])
    assert "are in Cursor's globalStorage/state.vscdb" in read(path).reasons


def test_a_database_of_another_editor_is_reported(read: Read, tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", {"workbench.panel.chat": {}}, "ItemTable")
    assert "no chats of Cursor" in read(path).reasons


def test_chats_that_are_too_large_are_reported(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.rules.chats.cursor.LONGEST_LINE", 100)
    found = read(workspace(tmp_path / "state.vscdb", tabs=[{"bubbles": ["x" * 200]}]))
    assert "was left out" in found.reasons


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


def test_a_long_text_is_reported_wherever_its_first_nul_is(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.rules.chats.cursor.LONGEST_LINE", 1_000)
    found = read(database(tmp_path / "state.vscdb", {**COMPOSER, "composerData:a": "\0" + "x" * 2_000}))
    assert "composerData:a" in found.reasons
    assert [chat.session for chat in found.chats] == ["c1"]


def test_a_value_of_very_many_objects_is_reported(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.rules.chats.sources.MOST_PARTS", 100)
    many: dict[str, Any] = {"composerData:a": {"conversation": [{}] * 200}}
    found = read(database(tmp_path / "state.vscdb", {**many, **COMPOSER}))
    assert "composerData:a" in found.reasons
    assert [chat.session for chat in found.chats] == ["c1"]


def test_a_text_that_is_no_utf_8_hides_no_other(read: Read, tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", COMPOSER)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO cursorDiskKV VALUES ('composerData:a', CAST(x'7bff7d' AS TEXT))")
        connection.commit()
    assert [chat.session for chat in read(path).chats] == ["c1"]


def test_half_a_character_in_the_name_of_a_bubble_is_passed_over(read: Read, tmp_path: Path) -> None:
    odd = {"composerData:a": {"fullConversationHeadersOnly": [{"bubbleId": "\ud800"}]}}
    found = read(database(tmp_path / "state.vscdb", {**odd, **COMPOSER}))
    assert [chat.session for chat in found.chats] == ["c1"]


def test_a_bubble_that_is_named_twice_was_said_once(read: Read, tmp_path: Path) -> None:
    twice = {
        "composerData:a": {"fullConversationHeadersOnly": [{"bubbleId": "b"}, {"bubbleId": "b"}]},
        "bubbleId:a:b": {"type": 1, "text": "hi"},
    }
    (chat,) = read(database(tmp_path / "state.vscdb", twice)).chats
    assert [turn.text for turn in chat.turns] == ["hi"]


def test_keys_that_come_again_are_not_followed_round_and_round(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT, value BLOB)")
        value = json.dumps({"conversation": [{"type": 1, "text": "hi"}]})
        connection.executemany("INSERT INTO cursorDiskKV VALUES ('composerData:a', ?)", [(value,)] * 3)
        connection.commit()
    found = read(path)
    assert len(found.chats) == 1
    assert "out of order" in found.reasons


def test_a_database_that_takes_for_ever_is_given_up(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.rules.chats.cursor._STEP", 10)
    monkeypatch.setattr("recollect.rules.chats.cursor._MOST_STEPS", 3)
    found = read(database(tmp_path / "state.vscdb", COMPOSER))
    assert "could not be read any further" in found.reasons


@pytest.mark.parametrize("kind", ["VIRTUAL TABLE", "/**/ virtual table"])
def test_a_virtual_table_is_not_asked(read: Read, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.vscdb"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE cursorDiskKV USING fts5(key, value, content='endless', content_rowid='key')"
        )
        connection.execute(
            "CREATE VIEW endless AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n)"
            " SELECT key, key AS value FROM n"
        )
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'VIRTUAL TABLE', ?) WHERE name = 'cursorDiskKV'",
            (kind,),
        )
        connection.commit()
    assert "no chats of Cursor" in read(path).reasons


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


@pytest.mark.parametrize(
    "line",
    [
        "_Exported on 29.5.2025 at 19:54:50 MESZ from Cursor (0.50.7)_",
        "_Exported on 2025. 7. 15. at 20시 41분 30초 GMT+9 from Cursor (1.2.4)_",
        "_Exported on 2026/2/28 at GMT+8 10:28:33 from Cursor (2.4.27)_",
        "_Exported on 6/2/2026 at 00:27:23 GMT+8 from Cursor (2.7.0-pre.183.patch.0)_",
    ],
)
def test_an_export_is_known_wherever_it_was_made(read: Read, write: Write, line: str) -> None:
    (chat,) = read(write("a.md", f"# Routes\n\n{line}\n\n---\n\n**User**\n\nlist them\n")).chats
    assert (chat.title, chat.turns[0].text) == ("Routes", "list them")


def test_a_very_long_line_begins_no_export() -> None:
    assert not is_export("_Exported on 1 from Cursor (" + "x" * 300 + ")_")
    # The pattern alone would take minutes.
    assert not is_export("_Exported on 1" + " from Cursor (" * 50_000)


def test_an_export_of_another_program_has_no_rule_before_the_first_speaker(read: Read, write: Write) -> None:
    text = """# Routes
_Exported on 01/07/2026 at 19:14:15 GMT+8 from Cursor via WayLog_


**Cursor**

Looking.

---


**User**

never push
"""
    (chat,) = read(write("a.md", text)).chats
    assert [(turn.role, turn.text) for turn in chat.turns] == [
        ("assistant", "Looking."),
        ("user", "never push"),
    ]


def test_exports_in_one_file_are_chats_of_their_own_and_notes_are_nobodys(read: Read, write: Write) -> None:
    notes = "# What I learnt\n\n---\n\n**User**\n\nis a heading here\n\n" + "A note.\n\n" * 30
    export = (
        "# {0}\n_Exported on 3/1/2026 at 10:00:00 GMT from Cursor (2.4.27)_\n\n---\n\n**User**\n\n{1}\n\n"
    )
    answer = "---\n\n**Cursor**\n\nTwo.\n\n---\n\n"
    text = notes + export.format("Routes", "list them") + answer + export.format("Pushing", "never push")
    found = read(write("both.md", text))
    assert [(chat.session.split()[0], chat.title) for chat in found.chats] == [
        ("both", "Routes"),
        ("both-2", "Pushing"),
    ]
    assert [[turn.text for turn in chat.turns] for chat in found.chats] == [
        ["list them", "Two."],
        ["never push"],
    ]


def test_a_database_is_read_on_by_whichever_thread(tmp_path: Path) -> None:
    bubble = {"type": 1, "text": "hello"}
    values = {f"composerData:c{number}": {"conversation": [bubble]} for number in range(3)}
    skipped: list[Skipped] = []
    path = database(tmp_path / "state.vscdb", values)
    chats = read_chats([path], report=skipped.append, progress=lambda *_: None)
    read = []
    for _ in values:
        with ThreadPoolExecutor(1) as another:
            read.append(another.submit(next, chats).result().session)
    assert (read, skipped) == (["c0", "c1", "c2"], [])


def test_a_question_is_the_same_before_and_after_it_was_answered(read: Read, tmp_path: Path) -> None:
    question = {"type": 1, "text": "never push"}
    answer = {"type": 2, "text": "Agreed.", "timingInfo": {"clientRpcSendTime": 1_772_000_060_000}}
    begun = [{"type": 1, "text": "list the routes"}, {"type": 2, "text": "Two."}, question]
    before, after = (
        database(tmp_path / f"{nth}.vscdb", {"composerData:c1": {"conversation": bubbles}})
        for nth, bubbles in enumerate((begun, [*begun, answer]))
    )
    ((asked,), (answered,)) = (read(path).chats for path in (before, after))
    assert answered.turns[2].at is not None
    assert [*places(answered)][:3] == [*places(asked)]
