"""Chats that Cursor exported as Markdown: a title, when it was exported, and speakers between rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.rules.chats.models import Chat, Role
from recollect.rules.chats.sources import Report, Source, text_lines
from recollect.rules.chats.transcript import Gathered, Transcript

FORMAT = "cursor-markdown"

# The date is as the reader's country writes it, and before or after the zone.
_EXPORTED = re.compile(r"_Exported on .+ from Cursor (?:\(.+\)|via .+)_\s*")
LONGEST_MARK = 300
_SPEAKERS: dict[str, Role] = {"**User**": "user", "**Cursor**": "assistant"}


def is_export(line: str) -> bool:
    """Whether an export begins with this line; a long one would cost the square of its length."""
    return len(line) < LONGEST_MARK and _EXPORTED.fullmatch(line) is not None


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a file: people put several exports into one, and notes around them."""
    exports, title = 0, None
    transcript = Transcript(source.name, FORMAT)
    speaker: Role | None = None
    lines, between = Gathered(), False
    for line in text_lines(source, report):
        bare = line.strip()
        if is_export(line):
            # The heading above was the new one's already.
            _end(transcript, speaker, lines, title)
            yield from transcript.rest()
            exports += 1
            session = source.stem if exports == 1 else f"{source.stem}-{exports}"
            transcript = Transcript(source.name, FORMAT, session=session, title=title, is_named=False)
            speaker, title, between = None, None, True
        elif exports and between and (named := _SPEAKERS.get(bare)):
            _end(transcript, speaker, lines)
            speaker = named
            yield from transcript.full_part()
        else:
            if line.startswith("# "):
                title = line[2:].strip()
            if speaker:
                lines.add(line)
            # An answer may have rules of its own: only one with a speaker after it ends a turn.
            between = bare == "---" or (between and not bare)
    _end(transcript, speaker, lines)
    yield from transcript.rest()


def _end(transcript: Transcript, speaker: Role | None, lines: Gathered, heading: str | None = None) -> None:
    text = lines.take().strip()
    if heading:
        text = text.removesuffix(f"# {heading}").strip()
    if speaker:
        transcript.say(speaker, text.removesuffix("---"))
