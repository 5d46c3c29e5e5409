"""SpecStory: Markdown under ``.specstory/history``, a header before each turn, tool calls in HTML blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.rules.chats.models import Chat, Role
from recollect.rules.chats.sources import Report, Source, text_lines
from recollect.rules.chats.transcript import LONGEST_TARGET, Gathered, Transcript, beginning, moment

FORMAT = "specstory"

HEADER = re.compile(r"_\*\*(User|Assistant|Agent)( - sidechain)?(?: \((.*)\))?\*\*_\s*")
_SESSION = re.compile(r"<!-- .*?\bSession ([0-9A-Za-z-]{8,64})(?: \((.*?)\))? -->")
_TITLE = re.compile(r"##? (.+?)(?: \((\d[^()]+)\))?\s*")
_TOOL = re.compile(r'\s*<tool-use\b(?:.*?data-tool-name="([^"]*)")?')
# Some versions have a header without a name before each step of an assistant.
_NOBODY = "_****_"
_SUMMARY = re.compile(r"\s*<summary>(.*?)</summary>")
# A block that is not closed ends with the turn at the latest.
_BLOCKS = {
    "<tool-use": "</tool-use>",
    "<details>": "</details>",
    "<think>": "</think>",
    "<thinking>": "</thinking>",
}


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chat in a file."""
    transcript = Transcript(source.name, FORMAT, session=source.stem, project=_project(source.name))
    turn: _Turn | None = None
    for line in text_lines(source, report):
        if header := HEADER.fullmatch(line):
            if turn:
                turn.end(transcript)
                yield from transcript.full_part()
            # A subagent's turns are nobody's own words.
            turn = (
                None if header[2] else _Turn("user" if header[1] == "User" else "assistant", header[3] or "")
            )
        elif turn:
            turn.take(line, transcript)
        elif len(line) > 500:
            continue
        elif session := _SESSION.search(line):
            transcript.session = session[1]
            transcript.started_at = moment(session[2])
        elif transcript.title is None and (title := _TITLE.fullmatch(line)):
            # A file without a name of its own has its time instead.
            at = moment(title[1])
            transcript.title = None if at else title[1]
            transcript.started_at = transcript.started_at or at or moment(title[2])
    if turn:
        turn.end(transcript)
    yield from transcript.rest()


def _project(name: str) -> str | None:
    folder, found, _ = name.replace("\\", "/").partition("/.specstory/")
    return folder if found else None


class _Turn:
    """The lines of one turn, gathered without what tools did in it."""

    def __init__(self, role: Role, details: str) -> None:
        self._role: Role = role
        # "(2025-11-03 12:33Z)" for a user, "(model 2025-11-03 12:33Z)" for an assistant.
        time = re.search(r"\d{4}-\d\d-\d\d.*", details)
        self._at = moment(time[0]) if time else None
        self._lines = Gathered()
        self._block: str | None = None
        self._depth = 0
        self._tool: str | None = None

    def take(self, line: str, transcript: Transcript) -> None:
        # A user may write about such blocks; only an assistant's are the format's own.
        if self._role == "user":
            self._lines.add(line)
            return
        if self._block is None and not self._opens(line):
            if line != _NOBODY:
                self._lines.add(line)
            return
        self._note(line.strip(), transcript)
        if self._block is not None:
            self._depth += line.count(self._block) - line.count(_BLOCKS[self._block])
            if self._depth <= 0:
                self._block = None

    def _opens(self, line: str) -> bool:
        start = line.lstrip()
        self._block = next((name for name in _BLOCKS if start.startswith(name)), None)
        self._depth, self._tool = 0, None
        if tool := _TOOL.match(line):
            self._tool = tool[1] or "tool"
        return self._block is not None

    def _note(self, line: str, transcript: Transcript) -> None:
        """Tell what the tool was, and what it was about if a line of its own says so."""
        if summary := _SUMMARY.match(line):
            if self._tool is None:
                transcript.did(re.sub(r"[*`]|<[^>]*>", "", beginning(summary[1], 300)).strip())
        elif self._tool and line and not line.startswith("<tool-use"):
            plain = not line.startswith(("```", "<", "|"))
            about = f" {beginning(line.strip('`'), LONGEST_TARGET)}" if plain else ""
            transcript.did(f"{self._tool}{about}")
            self._tool = None

    def end(self, transcript: Transcript) -> None:
        text = self._lines.take().strip()
        while text.endswith("\n---") or text == "---":
            text = text[:-3].rstrip()
        transcript.say(self._role, text, self._at)
