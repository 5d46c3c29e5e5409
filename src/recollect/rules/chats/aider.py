"""aider: Markdown of many sessions; ``#### `` before what the user typed, ``> `` before what aider said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from recollect.kit.text import one_line
from recollect.rules.chats.models import Chat
from recollect.rules.chats.sources import Report, Source, text_lines
from recollect.rules.chats.transcript import Gathered, Transcript, moment

FORMAT = "aider"

STARTED = "# aider chat started at "
_TYPED = "####"
# aider echoes its own questions together with the answer.
_QUESTION = "? (Y)es/(N)o"
_COMMAND = re.compile(r"[/!]([\w-]*)\s*(.*)", re.DOTALL)
# Commands that are followed by words to the assistant; after all others come files and shell commands.
_TALKING = {"ask", "code", "architect", "context", "chat-mode"}
_APPLIED = re.compile(r"> (Applied edit to .+|Commit \w+ .+|Running .+)")


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file, one for each session."""
    session: _Session | None = None
    for line in text_lines(source, report):
        if line.startswith(STARTED):
            if session:
                yield from session.end()
            session = _Session(source, line.removeprefix(STARTED).strip())
        elif session:
            session.take(line)
            yield from session.transcript.full_part()
    if session:
        yield from session.end()


def _project(name: str) -> str | None:
    path = PurePosixPath(name.replace("\\", "/"))
    return str(path.parent) if path.name.startswith(".aider") and path.parent != PurePosixPath() else None


class _Session:
    def __init__(self, source: Source, started: str) -> None:
        at = moment(started)
        self.transcript = Transcript(
            source.name, FORMAT, session=started, project=_project(source.name), started_at=at
        )
        self._typed = Gathered()
        self._answer = Gathered()
        self._is_asked = False
        self._plan = ""
        self._two_spaces: bool | None = None

    def take(self, line: str) -> None:
        if self._is_typed(line):
            self._end_answer()
            typed = line.removeprefix(_TYPED).removeprefix(" ").rstrip()
            if _QUESTION not in typed:
                self._typed.add(typed)
            return
        self._end_typed()
        # What the tool says in between does not end an answer.
        if line.startswith(">"):
            if applied := _APPLIED.match(line):
                self.transcript.did(applied[1].strip())
        else:
            self._answer.add(line)

    def _is_typed(self, line: str) -> bool:
        """aider ends each typed line with two spaces, which tells it from a heading in an answer."""
        if not line.startswith(_TYPED) or line[4:5] not in {" ", ""}:
            return False
        if self._two_spaces is None:
            self._two_spaces = line.endswith("  ")
        return line.endswith("  ") or not self._two_spaces

    def _end_typed(self) -> None:
        if not self._typed:
            return
        text = self._typed.take().strip()
        if command := _COMMAND.fullmatch(text):
            text = command[2] if command[1] in _TALKING else ""
        # In architect mode, the plan goes to the model that edits as if the user had typed it.
        if text != "<blank>" and one_line(text) != self._plan:
            self.transcript.say("user", text)
            self._is_asked = True

    def _end_answer(self) -> None:
        if self._answer:
            answer = self._answer.take()
            # What comes before the first question is how aider was called, perhaps with that question.
            self._plan = one_line(answer) if self._is_asked else ""
            self.transcript.say("assistant", answer)

    def end(self) -> Iterator[Chat]:
        self._end_typed()
        self._end_answer()
        yield from self.transcript.rest()
