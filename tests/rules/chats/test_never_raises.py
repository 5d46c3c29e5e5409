"""Whatever is done to a file, reading it ends without an exception, and what comes out can be stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Chat, Skipped

CODEX = {"type": "event_msg", "timestamp": "t", "payload": {"type": "user_message", "message": "hi"}}
BLOCKS = [{"type": "text", "text": "hi"}, {"type": "tool_use", "name": "Edit", "input": {"file_path": "a"}}]
ENTRY = {
    "type": "assistant",
    "sessionId": "s",
    "uuid": "u",
    "message": {"role": "assistant", "content": BLOCKS},
}
QUEUE = {"type": "queue-operation", "sessionId": "s", "operation": "enqueue", "content": "hi"}
NODE = {
    "parent": None,
    "message": {"author": {"role": "user"}, "content": {"parts": ["hi"]}, "create_time": 1.5},
}
SAMPLES: dict[str, Any] = {
    "claude-code": [
        ENTRY,
        QUEUE,
        {**ENTRY, "type": "user", "uuid": "v", "parentUuid": "u", "origin": {"kind": "human"}},
    ],
    "codex": [
        {"type": "session_meta", "payload": {"id": "1", "source": "cli"}},
        CODEX,
        {**CODEX, "type": "response_item"},
    ],
    "chatgpt": {"mapping": {"a": NODE, "b": {**NODE, "parent": "a"}}, "current_node": "b", "title": "t"},
    "claude-ai": {
        "chat_messages": [{"uuid": "1", "sender": "human", "text": "hi", "content": BLOCKS}],
        "uuid": "c",
    },
    "messages": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "tool_calls": [{"function": {}}]},
        ]
    },
}
SPECSTORY = (
    "_**User (2026-03-01 10:00Z)**_\n\nhi\n\n---\n\n"
    '_**Agent**_\n\n<tool-use data-tool-name="x">\n</tool-use>\n'
)
AIDER = "# aider chat started at 2026-03-01 10:00:00\n\n#### hi  \n\nhello\n\n> Commit abc x\n"
CURSOR = "_Exported on 1 at 2 from Cursor (3)_\n\n---\n\n**User**\n\nhi\n\n---\n\n**Cursor**\n\nhello\n"

strange = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.none() | st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(
        st.sampled_from(["type", "text", "content", "id", "role"]),
        st.none() | st.text(max_size=5),
        max_size=3,
    ),
)


def read(path: Path) -> list[Chat]:
    skipped: list[Skipped] = []
    chats = list(read_chats([path], report=skipped.append, progress=lambda *_: None))
    for text in [chat.session + str(chat.title) + chat.turns[0].text for chat in chats]:
        assert "\0" not in text
        text.encode()
    assert chats or skipped
    return chats


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container inside a value, with each of its keys."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@pytest.mark.parametrize("name", SAMPLES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_value_of_another_type_anywhere(name: str, tmp_path: Path, data: st.DataObject) -> None:
    value = json.loads(json.dumps(SAMPLES[name]))
    into, key = data.draw(st.sampled_from(places(value)))
    into[key] = data.draw(strange)
    text = "\n".join(json.dumps(line) for line in value) if isinstance(value, list) else json.dumps([value])
    path = tmp_path / "sample"
    path.write_text(text)
    read(path)


@pytest.mark.parametrize("name", [*SAMPLES, "specstory", "aider", "cursor"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_bytes_that_are_cut_out_put_in_or_changed(name: str, tmp_path: Path, data: st.DataObject) -> None:
    if name in SAMPLES:
        sample = SAMPLES[name]
        text = (
            "\n".join(json.dumps(line) for line in sample)
            if isinstance(sample, list)
            else json.dumps([sample])
        )
    else:
        text = {"specstory": SPECSTORY, "aider": AIDER, "cursor": CURSOR}[name]
    whole = text.encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 30)))
    path = tmp_path / "sample"
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=30)) + whole[end:])
    read(path)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_is_a_chat_before_it_is_changed(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    text = (
        "\n".join(json.dumps(line) for line in sample) if isinstance(sample, list) else json.dumps([sample])
    )
    (tmp_path / "sample").write_text(text)
    (chat,) = read(tmp_path / "sample")
    assert chat.format == name
