"""Codex: ``~/.codex/sessions/Y/M/D/rollout-*.jsonl``, compressed with zstd once it is old."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.rules.chats.messages import arguments
from recollect.rules.chats.models import Chat, Role
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object, spoken
from recollect.rules.chats.sources import Report, Source, Unreadable, json_lines
from recollect.rules.chats.transcript import Transcript, moment, named_action

FORMAT = "codex"

# Results of tools, thoughts and the context of each turn are most of a file, and nobody's turn.
_NOT_WANTED = re.compile(
    rb'"type":\s?"(?:function_call_output|custom_tool_call_output|reasoning|token_count|turn_context|compacted'
    rb'|exec_command_end|agent_reasoning|world_state)"'
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
# An editor writes what is open in it before what the user typed.
_REQUEST = "## My request for Codex:"
_CONTEXT = "# AGENTS.md instructions"


def _wanted(line: bytes) -> bool:
    return _NOT_WANTED.search(line, 0, 200) is None


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chat in a file."""
    reading = _Reading(source)
    for entry in json_lines(source, report, _wanted):
        reading.take(entry)
        yield from reading.transcript.full_part()
    yield from reading.transcript.rest()


class _Reading:
    def __init__(self, source: Source) -> None:
        self.transcript = Transcript(source.name, FORMAT, session=source.stem)
        self._known = False
        # The same words stand in an event and in an item for the model. Where there are events, items are not
        # heard: some of them are context that nobody typed.
        self._events: set[Role] = set()

    def take(self, entry: Json) -> None:
        """Take one line of the file."""
        kind, payload, at = entry.get("type"), an_object(entry.get("payload")), entry.get("timestamp")
        match kind:
            case "session_meta":
                self._meta(payload)
            case "event_msg":
                self._event(payload, at)
            case "response_item":
                self._item(payload, at)
            # The first versions wrote items without a wrapping, after a line about the session.
            case None if "id" in entry:
                self._meta(entry)
            case str() if not payload:
                self._item(entry, at)

    def _meta(self, meta: Json) -> None:
        origin = meta.get("source")
        if meta.get("thread_source") == "subagent" or (isinstance(origin, dict) and "subagent" in origin):
            raise Unreadable("The file has a subagent's work, which nobody said.")
        if self._known and not self.transcript.count:
            # One that was forked repeats the lines of the first, above all else that was said there.
            self.transcript.forked_from = a_text(meta.get("id"))
        if not self._known:
            self._known = True
            self.transcript.session = a_text(meta.get("id")) or self.transcript.session
            self.transcript.project = a_text(meta.get("cwd")) or None
            self.transcript.started_at = moment(meta.get("timestamp"))

    def _event(self, event: Json, at: object) -> None:
        match event.get("type"):
            case "user_message":
                self._heard_event("user", a_text(event.get("message")), at)
            case "agent_message":
                self._heard_event("assistant", a_text(event.get("message")), at)
            case "item_completed":
                item = an_object(event.get("item"))
                parts = [an_object(part) for part in a_list(item.get("content"))]
                text = "\n".join(a_text(part.get("text")) for part in parts).strip()
                if item.get("type") in ("UserMessage", "AgentMessage"):
                    self._heard_event("user" if item["type"] == "UserMessage" else "assistant", text, at)
            case "thread_rolled_back":
                turns = event.get("num_turns")
                self.transcript.take_back(turns if isinstance(turns, int) else 0)

    def _heard_event(self, role: Role, text: str, at: object) -> None:
        text = text.rpartition(_REQUEST)[2].strip() if role == "user" else text
        first = role not in self._events
        self._events.add(role)
        if first and role == "user" and not self.transcript.answered:
            # Whatever came as an item before was this very text, or context.
            self.transcript.go_back_to(0)
        elif first and self.transcript.said_lately(role, text):
            return
        self.transcript.say(role, text, moment(at))

    def _item(self, item: Json, at: object) -> None:
        match item.get("type"):
            case "message":
                self._message(item, at)
            case "function_call":
                self.transcript.did(named_action(item.get("name"), _call(arguments(item.get("arguments")))))
            case "custom_tool_call":
                patched = _PATCHED.findall(a_text(item.get("input")))
                self.transcript.did(named_action(item.get("name"), {"path": ", ".join(patched)}))
            case "local_shell_call":
                self.transcript.did(named_action("shell", _call(an_object(item.get("action")))))

    def _message(self, item: Json, at: object) -> None:
        role, text = item.get("role"), spoken(item.get("content"))
        if role == "assistant" and "assistant" not in self._events:
            self.transcript.say("assistant", text, moment(at))
        elif role == "user" and "user" not in self._events and not text.startswith(_CONTEXT):
            self.transcript.say("user", text.rpartition(_REQUEST)[2], moment(at))


def _call(given: Json) -> Json:
    """The arguments with a shell's own words left out of the command."""
    command = given.get("command")
    if isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c"):
        return {**given, "command": command[2]}
    return given
