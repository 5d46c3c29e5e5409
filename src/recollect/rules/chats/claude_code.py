"""Claude Code: one JSON object in each line of ``~/.claude/projects/<project>/<session>.jsonl``."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from recollect.rules.chats.models import Chat, Kind, Role, Skipped
from recollect.rules.chats.own_words import own_words
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object, spoken
from recollect.rules.chats.sources import Report, Source, json_lines
from recollect.rules.chats.transcript import Transcript, moment, named_action

FORMAT = "claude-code"

_ENTRY = re.compile(
    rb'"type":\s?"(?:user|assistant|queue-operation|queued_command|summary|ai-title|custom-title)"|"subtype":\s?"compact'
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BARE_COMMAND = re.compile(r"/[\w:-]+\s*")
# Words of the user's before the result of a tool, or after it; most texts there are inside the result.
_TEXT_BESIDE = (
    b'"role":"user","content":[{"type":"text"',
    b'},{"type":"text"',
    b'"role": "user", "content": [{"type": "text"',
    b'}, {"type": "text"',
)
_REASON = re.compile(
    r"the user said:\s*(.+?)(?:\n\nNote: The user's next message|\Z)", re.DOTALL | re.IGNORECASE
)
_REJECTED = "The user doesn't want to "
# A plan that the assistant wrote comes back as a user's message once it is accepted.
_ACCEPTED_PLAN = "Implement the following plan:\n"


def _wanted(line: bytes) -> bool:
    """Whether a line can hold a turn, found without decoding it. Most bytes are results of tools."""
    if (
        b'"tool_use_id"' in line
        and b"user said:" not in line
        and not any(each in line for each in _TEXT_BESIDE)
    ):
        return False
    # A line that is cut off is wanted too: it is to be reported.
    return _ENTRY.search(line) is not None or not line.rstrip().endswith(b"}")


def read(source: Source, report: Report, seen: set[int]) -> Iterator[Chat]:
    """The chat in a file. ``seen`` has the turns read before: a resumed session repeats the first one's."""
    reading = _Reading(source, seen)
    for entry in json_lines(source, report, _wanted):
        reading.take(entry)
        for part in reading.transcript.full_part():
            reading.prompts.clear()
            reading.keys.clear()
            yield part
    reading.say_what_still_waits()
    if reading.sidechain and reading.transcript.count == 0:
        report(Skipped(source.name, "The file has a subagent's work, which nobody said."))
    yield from reading.transcript.rest()


class _Reading:
    def __init__(self, source: Source, seen: set[int]) -> None:
        named = _UUID.fullmatch(source.stem)
        self.transcript = Transcript(source.name, FORMAT, session=source.stem)
        self.sidechain = False
        self._session_known = named is not None
        self._seen = seen
        self._queue: deque[tuple[str, object]] = deque(maxlen=100)
        # After which entry of this part a prompt came, and as which turn.
        self.prompts: dict[int, int] = {}
        # By which each turn of this part is known when another file repeats it.
        self.keys: dict[int, int] = {}

    def take(self, entry: Json) -> None:
        """Take one line of the file."""
        if entry.get("isSidechain"):
            self.sidechain = True
            return
        self._know_where(entry)
        match entry.get("type"):
            case "user" if not (entry.get("isMeta") or entry.get("isCompactSummary")) and _by_human(entry):
                self._user(entry)
            case "assistant":
                self._assistant(entry)
            case "queue-operation":
                self._queue_operation(entry)
            case "attachment":
                self._attachment(entry)
            case "summary" | "ai-title" | "custom-title" as kind:
                name = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}[kind]
                self.transcript.title = a_text(entry.get(name)) or self.transcript.title

    def _know_where(self, entry: Json) -> None:
        transcript = self.transcript
        if not self._session_known and (session := a_text(entry.get("sessionId"))):
            transcript.session, self._session_known = session, True
        if transcript.project is None:
            transcript.project = a_text(entry.get("cwd")) or None

    def _say(self, role: Role, text: str, entry: Json, kind: Kind = "said") -> None:
        if not text:
            return
        uuid = a_text(entry.get("uuid"))
        key = hash((uuid, text))
        if uuid and key in self._seen:
            self.transcript.pass_over(text)
            return
        self._seen.add(key)
        self.keys[self.transcript.count] = key
        self.transcript.say(role, text, moment(entry.get("timestamp")), kind)

    def _user(self, entry: Json) -> None:
        content = an_object(entry.get("message")).get("content")
        if (reason := _rejection(content)) is not None:
            self._say("user", reason, entry, "rejected")
            return
        text = own_words(spoken(content))
        if text.startswith(_ACCEPTED_PLAN):
            self._say("assistant", text, entry)
            return
        if text:
            self._dequeue(text)
            self._forget_other_branch(entry)
            self._say("user", text, entry)

    def _forget_other_branch(self, entry: Json) -> None:
        """Two prompts after one entry: the user went back and asked anew, and the first no longer stands."""
        if not (parent := a_text(entry.get("parentUuid"))):
            return
        if (earlier := self.prompts.get(hash(parent))) is not None:
            self.transcript.go_back_to(earlier)
            # Another file may go on from there.
            for number in [number for number in self.keys if number >= earlier]:
                self._seen.discard(self.keys.pop(number))
        self.prompts[hash(parent)] = self.transcript.count

    def _assistant(self, entry: Json) -> None:
        content = an_object(entry.get("message")).get("content")
        self._say("assistant", spoken(content), entry)
        for block in map(an_object, a_list(content)):
            if block.get("type") == "tool_use":
                self.transcript.did(named_action(block.get("name"), block.get("input")))

    def _queue_operation(self, entry: Json) -> None:
        text = a_text(entry.get("content"))
        match entry.get("operation"):
            case "enqueue":
                self._queue.append((text, entry.get("timestamp")))
            # Taken out to be sent: the entry that sends it follows.
            case "dequeue" if self._queue:
                self._queue.popleft()
            # Given to the assistant in the midst of its work: no other entry tells.
            case "remove" if self._queue:
                taken = next((waiting for waiting in self._queue if waiting[0] == text), self._queue[0])
                self._queue.remove(taken)
                self._say_queued(*taken)
            # Taken back by the user into the prompt.
            case "popAll":
                self._queue.clear()

    def _attachment(self, entry: Json) -> None:
        attachment = an_object(entry.get("attachment"))
        if attachment.get("type") == "queued_command" and _by_human(attachment):
            text = spoken(attachment.get("prompt"))
            self._dequeue(text)
            self._say_queued(text, entry.get("timestamp"))

    def _dequeue(self, text: str) -> None:
        for waiting in [waiting for waiting in self._queue if waiting[0].strip() == text]:
            self._queue.remove(waiting)

    def _say_queued(self, text: str, at: object) -> None:
        # The program queues notices about its own tasks as well.
        if text.startswith('{"task_id"') or _BARE_COMMAND.fullmatch(text):
            return
        if not self.transcript.said_lately("user", text):
            self.transcript.say("user", text, moment(at), "queued")

    def say_what_still_waits(self) -> None:
        """A session that was left has turns that never got out of the queue: they were said all the same."""
        for text, at in self._queue:
            self._say_queued(text, at)


def _by_human(entry: Json) -> bool:
    """Newer versions say where a prompt came from; tasks and hooks write some too."""
    return an_object(entry.get("origin")).get("kind") in (None, "human")


def _rejection(content: object) -> str | None:
    """The reason that a user gave for rejecting a tool call."""
    for block in map(an_object, a_list(content)):
        if block.get("type") == "tool_result" and block.get("is_error"):
            result = block.get("content")
            said = result if isinstance(result, str) else spoken(result)
            if said.startswith(_REJECTED) and (found := _REASON.search(said)):
                return found[1].strip()
    return None
