"""Exports of ChatGPT and Claude.ai, and arrays of messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.rules.chats.sameness import places
from tests.rules.chats.conftest import Read, Write


def node(parent: str | None, role: str, text: Any, **more: Any) -> dict[str, Any]:
    parts = text if isinstance(text, list) else [text]
    message = {
        "author": {"role": role},
        "content": {"content_type": "text", "parts": parts},
        "create_time": 1_772_000_000.5,
        **more,
    }
    return {"parent": parent, "children": [], "message": message}


def conversation(mapping: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "title": "Routes",
        "create_time": 1_772_000_000.5,
        "mapping": mapping,
        "conversation_id": "c1",
        **more,
    }


TREE = {
    "root": {"parent": None, "message": None},
    "hidden": node("root", "user", "instructions", metadata={"is_visually_hidden_from_conversation": True}),
    "u1": node("hidden", "user", "list the routes"),
    "a1": node("u1", "assistant", "One."),
    "a2": node("u1", "assistant", "Two."),
    "tool": node("a2", "assistant", "print(1)", recipient="python"),
    "out": node("tool", "tool", "1"),
    "u2": node(
        "out", "user", ["look at this", {"content_type": "image_asset_pointer"}, {"text": "never push"}]
    ),
    "u3": node("a1", "user", "of another branch"),
}


def test_chatgpt_has_the_branch_of_the_current_node(read: Read, write: Write) -> None:
    (chat,) = read(write("conversations.json", json.dumps([conversation(TREE, current_node="u2")]))).chats
    assert (chat.format, chat.session, chat.title) == ("chatgpt", "c1", "Routes")
    assert [(turn.role, turn.text, turn.number) for turn in chat.turns] == [
        ("user", "list the routes", 0),
        ("assistant", "Two.", 1),
        ("user", "look at this\nnever push", 2),
    ]
    assert chat.turns[-1].doing == "python"
    assert chat.turns[0].at == chat.started_at


def test_chatgpt_without_a_current_node_ends_with_the_newest(read: Read, write: Write) -> None:
    newest = {**TREE, "u4": node("a1", "user", "newest", create_time=1_772_000_009)}
    assert read(write("conversations.json", json.dumps([conversation(newest)]))).said == [
        "list the routes",
        "newest",
    ]


def test_a_tree_that_is_a_circle_ends(read: Read, write: Write) -> None:
    circle = {"a": node("b", "user", "one"), "b": node("a", "user", "two")}
    assert read(write("c.json", json.dumps([conversation(circle, current_node="a")]))).said == ["two", "one"]


def test_each_conversation_is_a_chat(read: Read, write: Write) -> None:
    several = [
        conversation({"u": node(None, "user", f"chat {number}")}, current_node="u") for number in range(3)
    ]
    found = read(write("conversations.json", json.dumps(several, indent=2)))
    assert found.said == ["chat 0", "chat 1", "chat 2"]


def test_an_export_that_breaks_off_is_read_to_there(read: Read, write: Write) -> None:
    several = [
        conversation({"u": node(None, "user", f"chat {number}")}, current_node="u") for number in range(3)
    ]
    found = read(write("conversations.json", json.dumps(several)[:-150]))
    assert found.said == ["chat 0", "chat 1"]
    assert "breaks off, after 2 conversations" in found.reasons


def test_a_conversation_that_is_too_large_is_left_out_and_the_next_read(read: Read, write: Write) -> None:
    large = conversation(
        {f"u{number}": node(None, "user", "x" * 400_000) for number in range(90)}, current_node="u1"
    )
    small = conversation({"u": node(None, "user", "small")}, current_node="u")
    found = read(write("conversations.json", json.dumps([large, small])))
    assert found.said == ["small"]
    assert "Conversation 1 is larger than 32 MB" in found.reasons


def test_what_is_nested_very_deeply_does_no_harm(read: Read, write: Write) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    small = json.dumps(conversation({"u": node(None, "user", "small")}, current_node="u"))
    found = read(write("conversations.json", f'[{{"mapping": {deep}}}, {small}]'))
    assert found.said == ["small"]


def message(name: str, sender: str, text: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    given = {
        "uuid": name,
        "sender": sender,
        "text": text,
        "created_at": "2026-03-01T10:00:00.123456Z",
        **more,
    }
    return given if parent is None else {**given, "parent_message_uuid": parent}


def claude(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"uuid": "c1", "name": "Routes", "account": {"uuid": "me"}, "chat_messages": messages, **more}


def test_claude_ai_has_its_messages(read: Read, write: Write) -> None:
    blocks = [
        {"type": "text", "text": "Two."},
        {"type": "tool_use", "name": "search", "input": {"query": "routes"}},
    ]
    messages = [
        message("1", "human", "list the routes"),
        message("2", "assistant", "Two. This block is not supported.", content=blocks),
        message("3", "human", "never push"),
    ]
    (chat,) = read(write("conversations.json", json.dumps([claude(messages)]))).chats
    assert (chat.format, chat.session, chat.author, chat.title) == ("claude-ai", "c1", "me", "Routes")
    assert [turn.text for turn in chat.turns] == ["list the routes", "Two.", "never push"]
    assert chat.turns[-1].doing == "search routes"


def test_claude_ai_has_the_branch_that_stands(read: Read, write: Write) -> None:
    messages = [
        message("1", "human", "list the routes", "0"),
        message("2", "assistant", "One.", "1"),
        message("3", "assistant", "Two.", "1"),
        message("4", "human", "go on", "3"),
    ]
    (chat,) = read(write("conversations.json", json.dumps([claude(messages)]))).chats
    assert [turn.text for turn in chat.turns] == ["list the routes", "Two.", "go on"]


def test_chats_without_a_name_of_their_own_are_told_apart_and_known_again(read: Read, write: Write) -> None:
    def messages(said: str) -> str:
        return json.dumps([{"role": "user", "content": said}])

    paths = [write(f"{folder}/chat.json", messages(f"Write {folder}.")) for folder in "ab"]
    nameless = [
        {**claude([]), "uuid": None, "chat_messages": [{"sender": "human", "text": text}]} for text in "cd"
    ]
    paths.append(write("conversations.json", json.dumps(nameless)))
    sessions = [chat.session for chat in read(*paths).chats]
    assert len(set(sessions)) == 4
    grown = write(
        "elsewhere/chat.json", messages("Write a.")[:-1] + ', {"role": "user", "content": "Go on."}]'
    )
    assert [chat.session for chat in read(grown).chats] == sessions[:1]


OPENAI = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "list the routes", "name": "ana"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "run", "arguments": '{"command": "git push"}'}}],
    },
    {"role": "tool", "content": "pushed"},
    {"role": "user", "content": [{"type": "text", "text": "never push"}]},
]
ANTHROPIC = [
    {"role": "user", "content": "list the routes"},
    {"role": "assistant", "content": [{"type": "tool_use", "name": "run", "input": {"command": "git push"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "pushed"}]},
    {"role": "user", "content": [{"type": "text", "text": "never push"}]},
]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("shape", ["array", "indented", "object", "lines", "line of an object"])
def test_messages_are_read_in_every_shape(read: Read, write: Write, messages: list[Any], shape: str) -> None:
    text = {
        "array": json.dumps(messages),
        "indented": "[\n" + ",\n".join(json.dumps(each) for each in messages) + "\n]",
        "object": json.dumps({"id": "c1", "messages": messages}, indent=2),
        "lines": "\n".join(json.dumps(each) for each in messages),
        "line of an object": json.dumps({"id": "c1", "messages": messages}) + "\n",
    }[shape]
    (chat,) = read(write("chat.json", text)).chats
    assert chat.format == "messages"
    assert [turn.text for turn in chat.turns] == ["list the routes", "never push"]
    assert chat.turns[-1].doing == "run git push"
    assert chat.author == ("ana" if messages is OPENAI else None)


def asking(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_what_stands_before_a_fault_is_read(read: Read, write: Write) -> None:
    whole = ",".join(json.dumps(asking(f"never {number}")) for number in range(30))
    found = read(write("all.json", f"[{whole}, oops]"))
    assert len(found.said) == 30
    assert "after 30 conversations" in found.reasons


def test_lines_are_read_however_long_the_first_is(read: Read, write: Write) -> None:
    path = write(
        "all.jsonl",
        [asking("a" * 60_000 + " b" * 150_000), asking("never push"), asking("ok")],
    )
    assert read(path).said[1:] == ["never push", "ok"]


def test_lines_are_read_though_the_first_is_broken(read: Read, write: Write) -> None:
    lines = '{"role": "user", "content": "cut o\n' + '{"role": "user", "content": "never push"}\n'
    assert read(write("all.jsonl", lines)).said == ["never push"]


def test_a_copy_under_another_name_says_nothing_again(read: Read, write: Write) -> None:
    said = [{"role": "user", "content": "never push"}, {"role": "assistant", "content": "Agreed."}]
    copies = (
        write("one.json", json.dumps(said)),
        write("two.json", json.dumps({"messages": said})),
        write("other.json", json.dumps([said[0], {"role": "assistant", "content": "Why?"}])),
    )
    one, two, other = ([*places(*read(path).chats)] for path in copies)
    assert one == two
    assert one[0] != other[0]
