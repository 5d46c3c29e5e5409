"""Codex's rollouts: each turn once, though it stands there twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard

from recollect.rules.chats.sameness import places
from tests.rules.chats.conftest import Read, Write


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload}


META = line("session_meta", id="thread-1", timestamp="2026-03-01T09:59:00Z", cwd="/srv/shop", source="cli")


def event(kind: str, **more: Any) -> dict[str, Any]:
    return line("event_msg", type=kind, **more)


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return line("response_item", type="message", role=role, content=[{"type": kind, "text": text}])


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return line("response_item", type="function_call", name=name, arguments=json.dumps(arguments))


def said_twice(role: str, text: str) -> list[dict[str, Any]]:
    return [item(role, text), event("user_message" if role == "user" else "agent_message", message=text)]


def test_a_turn_that_stands_there_twice_is_one(read: Read, write: Write) -> None:
    steps = [
        META,
        item("user", "# AGENTS.md instructions for /srv/shop\n\nBe brief."),
        item("user", "<environment_context><cwd>/srv/shop</cwd></environment_context>"),
        *said_twice("user", "list the routes"),
        *said_twice("assistant", "There are two."),
        *said_twice("user", "go on"),
        *said_twice("assistant", "Done."),
        *said_twice("user", "go on"),
    ]
    (chat,) = read(write("rollout-1.jsonl", steps)).chats
    assert (chat.format, chat.session, chat.project) == ("codex", "thread-1", "/srv/shop")
    assert [(turn.role, turn.text, turn.number) for turn in chat.turns] == [
        ("user", "list the routes", 0),
        ("assistant", "There are two.", 1),
        ("user", "go on", 2),
        ("assistant", "Done.", 3),
        ("user", "go on", 4),
    ]


def test_without_events_the_items_are_the_turns(read: Read, write: Write) -> None:
    steps = [META, item("user", "list the routes"), item("assistant", "Two."), item("developer", "be safe")]
    (chat,) = read(write("rollout-1.jsonl", steps)).chats
    assert [turn.text for turn in chat.turns] == ["list the routes", "Two."]


def test_items_of_completed_turns_are_events_too(read: Read, write: Write) -> None:
    completed = {"type": "UserMessage", "id": "1", "content": [{"type": "text", "text": "list the routes"}]}
    steps = [META, item("user", "list the routes"), event("item_completed", item=completed)]
    assert read(write("rollout-1.jsonl", steps)).said == ["list the routes"]


def test_the_first_version_wrote_items_without_a_wrapping(read: Read, write: Write) -> None:
    steps = [
        {"id": "old-1", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix the test"}]},
    ]
    (chat,) = read(write("rollout-1.jsonl", steps)).chats
    assert (chat.session, chat.turns[0].text) == ("old-1", "fix the test")


def test_a_users_turn_tells_what_was_run_and_patched(read: Read, write: Write) -> None:
    patch = line(
        "response_item",
        type="custom_tool_call",
        name="apply_patch",
        input="*** Begin Patch\n*** Update File: a.py\n",
    )
    steps = [
        META,
        event("user_message", message="go"),
        call("shell", command=["bash", "-lc", "git push"]),
        line("response_item", type="function_call_output", output="done"),
        patch,
        event("user_message", message="never push"),
    ]
    (chat,) = read(write("rollout-1.jsonl", steps)).chats
    assert chat.turns[-1].doing == "shell git push; apply_patch a.py"


def test_an_editors_context_is_cut_off(read: Read, write: Write) -> None:
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nrename it"
    assert read(write("rollout-1.jsonl", [META, event("user_message", message=text)])).said == ["rename it"]


def test_turns_that_were_rolled_back_are_left_out(read: Read, write: Write) -> None:
    steps = [
        META,
        event("user_message", message="one"),
        event("agent_message", message="1"),
        event("user_message", message="two"),
        event("agent_message", message="2"),
        event("thread_rolled_back", num_turns=1),
        event("user_message", message="three"),
    ]
    (chat,) = read(write("rollout-1.jsonl", steps)).chats
    assert [(turn.text, turn.number) for turn in chat.turns] == [("one", 0), ("1", 1), ("three", 2)]


def test_what_was_compacted_is_not_said_again(read: Read, write: Write) -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}]
    steps = [
        META,
        event("user_message", message="one"),
        line("compacted", message="", replacement_history=history),
    ]
    assert read(write("rollout-1.jsonl", steps)).said == ["one"]


@pytest.mark.parametrize("origin", [{"source": {"subagent": "review"}}, {"thread_source": "subagent"}])
def test_a_subagents_rollout_is_reported(read: Read, write: Write, origin: dict[str, Any]) -> None:
    found = read(
        write("rollout-1.jsonl", [line("session_meta", id="s", **origin), *said_twice("user", "search")])
    )
    assert not found.chats
    assert "subagent" in found.reasons


def test_a_cold_rollout_is_compressed(read: Read, write: Write) -> None:
    lines = "".join(json.dumps(step) + "\n" for step in [META, *said_twice("user", "list the routes")])
    packed = zstandard.ZstdCompressor().compress(lines.encode())
    # Two frames, as when a second part was appended.
    more = zstandard.ZstdCompressor().compress(json.dumps(event("user_message", message="go on")).encode())
    found = read(write("rollout-1.jsonl.zst", packed + more))
    assert found.said == ["list the routes", "go on"]
    assert found.chats[0].source.endswith("rollout-1.jsonl.zst")


def test_a_damaged_compressed_rollout_is_reported(read: Read, write: Write) -> None:
    packed = zstandard.ZstdCompressor().compress(b"x" * 100_000)
    found = read(write("rollout-1.jsonl.zst", packed[:10] + b"\xff" * 40))
    assert not found.chats
    assert "damaged" in found.reasons


def test_a_fork_repeats_what_was_said_before_it(read: Read, write: Write) -> None:
    def at(minute: int, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**step, "timestamp": f"2026-03-01T10:{minute:02}:00.000Z"} for step in steps]

    begun = [META, *said_twice("user", "list the routes"), *said_twice("assistant", "Two.")]
    fork = {**META, "payload": {**META["payload"], "id": "thread-2", "forked_from_id": "thread-1"}}
    onwards = said_twice("user", "never use tabs")
    (first,) = read(write("rollout-1.jsonl", at(0, begun))).chats
    (forked,) = read(write("rollout-2.jsonl", [*at(7, [fork, *begun]), *at(8, onwards)])).chats

    assert (first.session, forked.session) == ("thread-1", "thread-2")
    assert [*places(forked)][:2] == [*places(first)]
    assert [turn.text for turn in forked.turns] == ["list the routes", "Two.", "never use tabs"]


def test_old_items_may_begin_with_a_tag_that_the_user_typed(read: Read, write: Write) -> None:
    steps = [
        META,
        item("user", "<environment_context>cwd</environment_context>"),
        item("user", "<div> must never be used"),
        item("assistant", "Agreed."),
    ]
    assert read(write("rollout-1.jsonl", steps)).said == ["<div> must never be used"]
