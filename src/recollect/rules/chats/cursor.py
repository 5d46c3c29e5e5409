"""Cursor: the database ``globalStorage/state.vscdb``, and chats exported as Markdown."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from recollect.rules.chats.messages import arguments
from recollect.rules.chats.models import Chat, Role, Skipped
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object
from recollect.rules.chats.sources import LONGEST_LINE, Report, Source, Unreadable, decoded, text_lines
from recollect.rules.chats.transcript import Gathered, Transcript, moment, named_action

FORMAT = "cursor"
MARKDOWN = "cursor-markdown"

EXPORTED = re.compile(r"_Exported on .+ from Cursor \(.+\)_\s*")
_SPEAKERS: dict[str, Role] = {"**User**": "user", "**Cursor**": "assistant"}
_ROLES: dict[object, Role] = {1: "user", 2: "assistant"}

_IS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cursorDiskKV'"
# A range and not LIKE, which would not use the index; a database can have many gigabytes.
_COMPOSERS = (
    "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
)
_VALUE = "SELECT CASE WHEN length(value) <= :longest THEN value END FROM cursorDiskKV WHERE key = :key"


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a database. It is only read, and neither locked nor copied."""
    if source.path is None:
        raise Unreadable("A database cannot be read inside an archive; unpack it first.")
    _tell_of_unsaved(source.path, report)
    address = f"file:{quote(str(source.path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            # A view of that name could run for ever.
            if not database.execute(_IS_TABLE).fetchone():
                raise Unreadable(
                    "The database has no chats of Cursor; those are in globalStorage/state.vscdb."
                )
            for (key,) in database.execute(_COMPOSERS):
                yield from _composer(source, database, str(key))
    except sqlite3.Error as error:
        raise Unreadable(f"The database could not be read any further: {error}.") from error


def _tell_of_unsaved(path: Path, report: Report) -> None:
    log = path.with_name(path.name + "-wal")
    if log.is_file() and log.stat().st_size > 0:
        reason = (
            "Cursor has not written its newest chats into the database yet; close Cursor and import again."
        )
        report(Skipped(str(log), reason))


def _composer(source: Source, database: sqlite3.Connection, key: str) -> Iterator[Chat]:
    composer = _value(database, key)
    session = key.partition(":")[2]
    transcript = Transcript(
        source.name,
        FORMAT,
        session=session,
        project=a_text(an_object(an_object(composer.get("workspaceIdentifier")).get("uri")).get("fsPath"))
        or None,
        title=a_text(composer.get("name")) or None,
        started_at=moment(composer.get("createdAt")),
    )
    for bubble in a_list(composer.get("conversation")):
        _say(transcript, an_object(bubble))
    for header in a_list(composer.get("fullConversationHeadersOnly")):
        bubble = a_text(an_object(header).get("bubbleId"))
        _say(transcript, _value(database, f"bubbleId:{session}:{bubble}"))
        yield from transcript.full_part()
    yield from transcript.rest()


def _value(database: sqlite3.Connection, key: str) -> Json:
    row = database.execute(_VALUE, {"key": key, "longest": LONGEST_LINE}).fetchone()
    value = row[0] if row else None
    try:
        return an_object(json.loads(decoded(value) if isinstance(value, bytes) else a_text(value)))
    except (ValueError, RecursionError):
        return {}


def _say(transcript: Transcript, bubble: Json) -> None:
    role = _ROLES.get(bubble.get("type")) if isinstance(bubble.get("type"), int) else None
    if role is None:
        return
    if transcript.project is None:
        folder = next(iter(a_list(bubble.get("workspaceUris"))), None)
        transcript.project = _folder(a_text(folder))
    started = an_object(bubble.get("timingInfo")).get("clientStartTime")
    transcript.say(role, a_text(bubble.get("text")), moment(bubble.get("createdAt") or started))
    if (tool := an_object(bubble.get("toolFormerData"))) and role == "assistant":
        action = named_action(tool.get("name"), arguments(tool.get("rawArgs")))
        transcript.did(f"{action} (rejected)" if tool.get("userDecision") == "rejected" else action)


def _folder(address: str) -> str | None:
    try:
        return unquote(urlsplit(address).path) or None
    except ValueError:
        return None


def read_markdown(source: Source, report: Report) -> Iterator[Chat]:
    """The chat in an exported file: speakers between rules."""
    transcript = Transcript(source.name, MARKDOWN, session=source.stem)
    speaker: Role | None = None
    lines, after_rule = Gathered(), False
    for line in text_lines(source, report):
        if after_rule and (named := _SPEAKERS.get(line.strip())):
            _end(transcript, speaker, lines)
            speaker = named
            yield from transcript.full_part()
        elif speaker:
            lines.add(line)
        elif transcript.title is None and line.startswith("# "):
            transcript.title = line[2:].strip()
        # An answer may have rules of its own: only one with a speaker after it ends a turn.
        after_rule = line.strip() == "---" or (after_rule and not line.strip())
    _end(transcript, speaker, lines)
    yield from transcript.rest()


def _end(transcript: Transcript, speaker: Role | None, lines: Gathered) -> None:
    text = lines.take().strip().removesuffix("---")
    if speaker:
        transcript.say(speaker, text)
