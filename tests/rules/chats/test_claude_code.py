"""Claude Code's sessions: whose words are turns, and whose are not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.rules.chats.conftest import Read, Write

_count = iter(range(1_000_000))


def entry(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"id-{next(_count)}",
        "sessionId": "session-1",
        "cwd": "/srv/shop",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "message": {"role": kind, "content": content},
        **more,
    }


def user(text: str, **more: Any) -> dict[str, Any]:
    return entry("user", text, **more)


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return entry("assistant", [{"type": "text", "text": text}], **more)


def tool(name: str, **given: Any) -> dict[str, Any]:
    return entry("assistant", [{"type": "tool_use", "id": "call-1", "name": name, "input": given}])


def result(content: str, error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "call-1", "content": content, "is_error": error}
    return entry("user", [block], toolUseResult=content)


def queue(operation: str, text: str | None = None) -> dict[str, Any]:
    line = {"type": "queue-operation", "operation": operation, "sessionId": "session-1"}
    return line if text is None else {**line, "content": text}


def test_a_chat_has_its_session_project_title_and_time(read: Read, write: Write) -> None:
    path = write(
        "a.jsonl",
        [
            user("sort the list"),
            assistant("Sorted."),
            {"type": "ai-title", "aiTitle": "Sorting", "sessionId": "s"},
        ],
    )
    (chat,) = read(path).chats
    assert (chat.format, chat.session, chat.project, chat.title) == (
        "claude-code",
        "session-1",
        "/srv/shop",
        "Sorting",
    )
    assert chat.source == str(path)
    assert chat.started_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert [(turn.role, turn.text, turn.number) for turn in chat.turns] == [
        ("user", "sort the list", 0),
        ("assistant", "Sorted.", 1),
    ]


def test_a_session_is_named_by_its_file_where_that_is_an_id(read: Read, write: Write) -> None:
    name = "0b0e8c1e-1111-4222-8333-444455556666"
    (chat,) = read(write(f"{name}.jsonl", [user("hello")])).chats
    assert chat.session == name


def test_a_users_turn_tells_what_the_assistant_had_just_done(read: Read, write: Write) -> None:
    steps = [
        user("tidy up"),
        tool("Edit", file_path="src/cart.py", old_string="x"),
        result("done"),
        tool("Bash", command="git commit -m tidy\necho more"),
        result("done"),
        assistant("Committed."),
        user("never commit before the tests ran"),
        user("and never push"),
    ]
    (chat,) = read(write("a.jsonl", steps)).chats
    doing = [turn.doing for turn in chat.turns if turn.role == "user"]
    assert doing == ["", "Edit src/cart.py; Bash git commit -m tidy", ""]
    assert [turn.number for turn in chat.turns] == [0, 1, 2, 3]


def test_what_was_done_is_shortened_to_its_end(read: Read, write: Write) -> None:
    steps = [tool("Read", file_path=f"src/module_{number:03}.py") for number in range(200)]
    (chat,) = read(write("a.jsonl", [*steps, user("stop")])).chats
    assert len(chat.turns[0].doing) == 500
    assert chat.turns[0].doing.endswith("Read src/module_199.py")


def test_what_nobody_said_is_no_turn(read: Read, write: Write) -> None:
    unsaid = [
        user("skill text", isMeta=True),
        user("search the code", isSidechain=True),
        assistant("found it", isSidechain=True),
        user("summary of what came before", isCompactSummary=True),
        user("This session is being continued from a previous conversation that ran out of context."),
        user("[Request interrupted by user for tool use]"),
        user("<local-command-stdout>ok</local-command-stdout>"),
        user("<bash-input>ls</bash-input><bash-stdout>a b</bash-stdout>"),
        user(
            "<command-name>/clear</command-name><command-message>clear</command-message><command-args></command-args>"
        ),
        user("a task is done", origin={"kind": "task-notification"}),
        result("a long listing"),
        entry("assistant", [{"type": "thinking", "thinking": "hm"}]),
        {"type": "summary", "summary": "A title", "leafUuid": "x"},
        {"type": "progress", "sessionId": "session-1", "data": {"message": user("inner")}},
        {
            "type": "system",
            "subtype": "compact_boundary",
            "sessionId": "session-1",
            "content": "Conversation compacted",
        },
    ]
    found = read(write("a.jsonl", [*unsaid, user("real words")]))
    assert [turn.text for turn in found.chats[0].turns] == ["real words"]


def test_injected_context_is_cut_out_of_what_the_user_typed(read: Read, write: Write) -> None:
    text = "<system-reminder>be brief</system-reminder>use tabs <ide_selection>x = 1</ide_selection>here"
    assert read(write("a.jsonl", [user(text)])).said == ["use tabs here"]


def test_an_unclosed_block_is_the_users_own(read: Read, write: Write) -> None:
    text = "why is there a <system-reminder> in my log? " + "<system-reminder>" * 1_000
    assert read(write("a.jsonl", [user(text)])).said == [text]


def test_a_commands_arguments_are_words(read: Read, write: Write) -> None:
    text = "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n"
    text += "<command-args>keep it small</command-args>"
    assert read(write("a.jsonl", [user(text)])).said == ["/plan keep it small"]


def test_an_accepted_plan_is_the_assistants(read: Read, write: Write) -> None:
    (chat,) = read(write("a.jsonl", [user("Implement the following plan:\n\n# Plan"), user("go")])).chats
    assert [turn.role for turn in chat.turns] == ["assistant", "user"]


def test_a_rejected_tool_call_has_the_users_reason(read: Read, write: Write) -> None:
    said = "The user doesn't want to proceed with this tool use. To tell you how, the user said:\nuse a table"
    steps = [user("write tests"), tool("Write", file_path="tests/a.py"), result(said, error=True)]
    (chat,) = read(write("a.jsonl", steps)).chats
    assert [(turn.text, turn.kind, turn.doing) for turn in chat.turns[1:]] == [
        ("use a table", "rejected", "Write tests/a.py")
    ]


def test_a_result_that_only_quotes_a_user_is_no_turn(read: Read, write: Write) -> None:
    steps = [user("read the log"), result("yesterday the user said:\ndelete all", error=True)]
    assert read(write("a.jsonl", steps)).said == ["read the log"]


def test_a_queued_turn_that_steered_the_assistant_is_said_once(read: Read, write: Write) -> None:
    steps = [
        user("build it"),
        queue("enqueue", "without new packages"),
        queue("remove"),
        {
            "type": "attachment",
            "sessionId": "s",
            "attachment": {"type": "queued_command", "prompt": "without new packages"},
        },
        assistant("All right."),
    ]
    (chat,) = read(write("a.jsonl", steps)).chats
    assert [(turn.text, turn.kind) for turn in chat.turns if turn.role == "user"] == [
        ("build it", "said"),
        ("without new packages", "queued"),
    ]


def test_a_queued_turn_that_was_sent_is_said_once(read: Read, write: Write) -> None:
    steps = [queue("enqueue", "check the docs"), queue("dequeue"), user("check the docs")]
    assert read(write("a.jsonl", steps)).said == ["check the docs"]


def test_a_turn_that_never_left_the_queue_was_said_all_the_same(read: Read, write: Write) -> None:
    steps = [user("go on"), queue("enqueue", "and write it down"), queue("enqueue", '{"task_id":"t1"}')]
    assert read(write("a.jsonl", steps)).said == ["go on", "and write it down"]


def test_queued_turns_that_were_taken_back_were_not_said(read: Read, write: Write) -> None:
    steps = [user("go on"), queue("enqueue", "no wait"), queue("popAll")]
    assert read(write("a.jsonl", steps)).said == ["go on"]


def test_a_resumed_session_does_not_repeat_turns(read: Read, write: Write) -> None:
    first = [user("one"), assistant("1"), user("two")]
    write("a.jsonl", first)
    write("b.jsonl", [*first, user("three")])
    found = read(write("a.jsonl", first).parent)
    assert found.said == ["one", "two", "three"]
    assert found.chats[1].turns[0].number == 3


def test_other_turns_with_the_same_id_are_kept(read: Read, write: Write) -> None:
    write("a.jsonl", [user("one", uuid="m1")])
    found = read(write("b.jsonl", [user("two", uuid="m1")]).parent)
    assert found.said == ["one", "two"]


def test_a_turn_that_the_user_went_back_on_is_left_out(read: Read, write: Write) -> None:
    steps = [
        user("start"),
        assistant("Started.", uuid="answer"),
        user("use tabs", parentUuid="answer"),
        assistant("Tabs."),
        user("use spaces", parentUuid="answer"),
    ]
    (chat,) = read(write("a.jsonl", steps)).chats
    assert [(turn.text, turn.number) for turn in chat.turns] == [
        ("start", 0),
        ("Started.", 1),
        ("use spaces", 2),
    ]


def test_a_subagents_file_is_reported(read: Read, write: Write) -> None:
    found = read(write("agent.jsonl", [user("search", isSidechain=True)]))
    assert not found.chats
    assert "subagent" in found.reasons


def test_an_assistants_text_keeps_its_beginning_and_its_end(read: Read, write: Write) -> None:
    text = "a" * 1_000 + "m" * 5_000 + "z" * 1_000
    (chat,) = read(write("a.jsonl", [user("go"), assistant(text)])).chats
    kept = chat.turns[1].text
    assert kept.startswith("a" * 1_000)
    assert kept.endswith("z" * 1_000)
    assert "m" not in kept


def test_a_users_text_is_kept_whole_up_to_64_kb(read: Read, write: Write) -> None:
    whole, long = "w" * 65_536, "l" * 65_537
    found = read(write("a.jsonl", [user(whole), user(long)]))
    assert found.said[0] == whole
    assert found.said[1].startswith("l" * 65_536)
    assert found.said[1].endswith("cut here: the text was longer than 64 KB]")


def test_nul_and_half_characters_are_left_out(read: Read, write: Write) -> None:
    assert read(write("a.jsonl", [user("a\x00b\ud800c")])).said == ["abc"]


def test_a_very_long_chat_comes_in_parts_with_numbers_going_on(read: Read, write: Write) -> None:
    found = read(write("a.jsonl", [user(f"{number} " + "x" * 60_000) for number in range(400)]))
    assert len(found.chats) == 2
    assert len({chat.session for chat in found.chats}) == 1
    assert [turn.number for chat in found.chats for turn in chat.turns] == list(range(400))


def test_words_beside_the_result_of_a_tool_are_the_users(read: Read, write: Write) -> None:
    block = {"type": "tool_result", "tool_use_id": "call-1", "content": [{"type": "text", "text": "a.py"}]}
    beside = entry("user", [block, {"type": "text", "text": "No: never list files here."}])
    alone = entry("user", [block, {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}])
    assert read(write("a.jsonl", [user("go"), tool("Bash"), beside, alone])).said == [
        "go",
        "No: never list files here.",
    ]


def test_of_queued_commands_only_those_without_words_say_nothing(read: Read, write: Write) -> None:
    queued = ["/tmp fills up, never write there", "/review always check the tests too", "/clear"]
    steps = [user("go"), *(queue("enqueue", text) for text in queued)]
    assert read(write("a.jsonl", steps)).said == ["go", *queued[:2]]


def test_what_another_file_goes_on_from_was_said_there(read: Read, write: Write) -> None:
    begun = user("list the routes", uuid="one")
    answer = assistant("Two.", uuid="two", parentUuid="one")
    left = user("never use tabs", uuid="three", parentUuid="two")
    instead = user("use spaces", uuid="four", parentUuid="two")
    onwards = user("go on from there", uuid="five", parentUuid="three")
    first = write("a.jsonl", [begun, answer, left, instead])
    second = write("b.jsonl", [begun, answer, left, onwards])
    assert read(first, second).said == ["list the routes", "use spaces", "never use tabs", "go on from there"]


def test_a_session_that_begins_with_a_large_picture_is_known(read: Read, write: Write) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
    shown = entry("user", [{"type": "text", "text": "copy this"}, picture])
    first = {name: shown[name] for name in ("uuid", "sessionId", "cwd", "timestamp", "type", "message")}
    assert read(write("a.jsonl", [first, user("never copy pixels")])).said == [
        "copy this",
        "never copy pixels",
    ]
