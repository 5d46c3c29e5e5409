"""Cursor's databases ``state.vscdb``: that of all its windows, and before 2025 one of each workspace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from recollect.rules.chats.messages import arguments
from recollect.rules.chats.models import Chat, Role, Skipped
from recollect.rules.chats.shapes import Json, a_list, a_text, an_object
from recollect.rules.chats.sources import (
    BUFFER,
    LONGEST_LINE,
    Report,
    Source,
    TooManyParts,
    Unreadable,
    decoded,
    json_value,
)
from recollect.rules.chats.transcript import Transcript, moment, named_action, storable

FORMAT = "cursor"

_ROLES: dict[object, Role] = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}

# Neither views nor virtual tables: one of such a name could run for ever.
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%virtual%'"
# A range and not LIKE, which would not use the index; a database can have many gigabytes.
_COMPOSERS = (
    "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
)
_VALUES = {
    "cursorDiskKV": "SELECT value FROM cursorDiskKV WHERE key = ?",
    "ItemTable": "SELECT value FROM ItemTable WHERE key = ?",
}
_TABS = "workbench.panel.aichat.view.aichat.chatdata"
_WORKSPACE_COMPOSERS = "composer.composerData"

# What SQLite may do, in instructions: a database of ten million bubbles takes a fifth. One without an index,
# or with one that leads in circles, would take for ever.
_STEP, _MOST_STEPS = 1_000_000, 2_000

_NO_CHATS = "The database has no chats of Cursor; those are in its globalStorage/state.vscdb."
_ELSEWHERE = "The chats of this workspace are in Cursor's globalStorage/state.vscdb; import that."


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a database. It is only read, and neither locked nor copied."""
    if source.path is None:
        raise Unreadable("A database cannot be read inside an archive; unpack it first.")
    _tell_of_unsaved(source.path, report)
    address = f"file:{quote(str(source.path.resolve()))}?mode=ro&immutable=1"
    try:
        # One thread at a time reads on, but not always the same.
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            # Not by length(), which has to read a text whole, and ends at its first NUL.
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
            connection.text_factory = decoded
            steps = iter(range(_MOST_STEPS))
            connection.set_progress_handler(lambda: next(steps, None) is None, _STEP)
            yield from _Database(source, connection, report).chats()
    except sqlite3.Error as error:
        raise Unreadable(f"The database could not be read any further: {error}.") from error


def _tell_of_unsaved(path: Path, report: Report) -> None:
    log = path.with_name(path.name + "-wal")
    if log.is_file() and log.stat().st_size > 0:
        reason = (
            "Cursor has not written its newest chats into the database yet; close Cursor and import again."
        )
        report(Skipped(str(log), reason))


class _Database:
    """One database, and what was said in it so far."""

    def __init__(self, source: Source, connection: sqlite3.Connection, report: Report) -> None:
        self._source, self._connection, self._report = source, connection, report
        self._tables = {str(name) for (name,) in connection.execute(_TABLES)}
        self._folder = _workspace(source)
        self._met: set[tuple[str, str]] = set()

    def chats(self) -> Iterator[Chat]:
        """Every chat, wherever a version of Cursor has put it."""
        tabs, composers = self._value("ItemTable", _TABS), self._value("ItemTable", _WORKSPACE_COMPOSERS)
        if "cursorDiskKV" not in self._tables and not tabs and not composers:
            raise Unreadable(_NO_CHATS)
        empty = True
        for chat in chain(self._of_tabs(tabs), self._of_workspace(composers), self._of_all_windows()):
            empty = False
            yield chat
        if empty and composers:
            raise Unreadable(_ELSEWHERE)

    def _of_tabs(self, tabs: Json) -> Iterator[Chat]:
        for tab in map(an_object, a_list(tabs.get("tabs"))):
            bubbles = [an_object(bubble) for bubble in a_list(tab.get("bubbles"))]
            # The last is the field to type into: what is in it has not been sent.
            if bubbles and bubbles[-1].get("type") == "user":
                del bubbles[-1]
            yield from self._told(
                Transcript(
                    self._source.name,
                    FORMAT,
                    session=a_text(tab.get("tabId")),
                    project=self._folder,
                    # It may be a whole answer.
                    title=a_text(tab.get("chatTitle")).strip().partition("\n")[0] or None,
                    # No turn has a time of its own: what was sent last would have another once it is not.
                    started_at=moment(tab.get("lastSendTime")),
                ),
                self._new(bubbles),
            )

    def _of_workspace(self, composers: Json) -> Iterator[Chat]:
        for composer in map(an_object, a_list(composers.get("allComposers"))):
            transcript = self._transcript(composer, a_text(composer.get("composerId")))
            transcript.project = transcript.project or self._folder
            bubbles = [an_object(bubble) for bubble in a_list(composer.get("conversation"))]
            yield from self._told(transcript, self._new(bubbles))

    def _of_all_windows(self) -> Iterator[Chat]:
        if "cursorDiskKV" not in self._tables:
            return
        last = ""
        for (key,) in self._connection.execute(_COMPOSERS):
            if key <= last:
                # A damaged index can lead back to where it has been, and round and round.
                raise sqlite3.DatabaseError("its keys are out of order")
            last, session = key, key.partition(":")[2]
            composer = self._value("cursorDiskKV", key)
            whole = map(an_object, a_list(composer.get("conversation")))
            headers = map(an_object, a_list(composer.get("fullConversationHeadersOnly")))
            # Each once: a short list could name a long bubble a million times.
            bubbles = dict.fromkeys(storable(a_text(header.get("bubbleId"))) for header in headers)
            apart = (self._value("cursorDiskKV", f"bubbleId:{session}:{bubble}") for bubble in bubbles)
            yield from self._told(self._transcript(composer, session), chain(whole, apart))

    def _transcript(self, composer: Json, session: str) -> Transcript:
        folder = an_object(an_object(composer.get("workspaceIdentifier")).get("uri")).get("fsPath")
        return Transcript(
            self._source.name,
            FORMAT,
            session=session,
            project=a_text(folder) or None,
            title=a_text(composer.get("name")) or None,
            started_at=moment(composer.get("createdAt")),
        )

    def _told(self, transcript: Transcript, bubbles: Iterable[Json]) -> Iterator[Chat]:
        for bubble, following in pairwise(chain(bubbles, [{}])):
            _say(transcript, bubble, following)
            yield from transcript.full_part()
        yield from transcript.rest()

    def _new(self, bubbles: list[Json]) -> list[Json]:
        """The bubbles without questions whose very answer was met: applying one made a copy of both."""
        copied: set[int] = set()
        for number, (bubble, following) in enumerate(pairwise(bubbles)):
            if _role(bubble) == "user" and _role(following) == "assistant":
                both = _text(bubble).strip(), _text(following).strip()
                if both in self._met:
                    copied |= {number, number + 1}
                self._met.add(both)
        return [bubble for number, bubble in enumerate(bubbles) if number not in copied]

    def _value(self, table: str, key: str) -> Json:
        if table not in self._tables:
            return {}
        try:
            (value,) = self._connection.execute(_VALUES[table], (key,)).fetchone() or (None,)
            return an_object(json_value(decoded(value) if isinstance(value, bytes) else a_text(value)))
        except sqlite3.DataError:
            reason = f"is longer than {LONGEST_LINE >> 20} MB"
        except TooManyParts:
            reason = "has too many objects, lists or texts"
        except (ValueError, RecursionError):
            return {}
        self._report(Skipped(self._source.name, f"The value {key[:100]} {reason} and was left out."))
        return {}


def _say(transcript: Transcript, bubble: Json, following: Json) -> None:
    role = _role(bubble)
    if role is None:
        return
    if transcript.project is None:
        folder = next(iter(a_list(bubble.get("workspaceUris"))), None)
        transcript.project = _folder(a_text(folder))
    # Many versions note no time with a question, but when they sent it with the answer.
    transcript.say(role, _text(bubble), _at(bubble) or (_at(following) if role == "user" else None))
    tool = an_object(bubble.get("toolFormerData"))
    if role == "assistant" and (name := a_text(tool.get("name"))):
        action = named_action(name, arguments(tool.get("rawArgs")))
        transcript.did(f"{action} (rejected)" if tool.get("userDecision") == "rejected" else action)


def _role(bubble: Json) -> Role | None:
    kind = bubble.get("type")
    return _ROLES.get(kind) if isinstance(kind, int | str) else None


def _text(bubble: Json) -> str:
    """What is said in a bubble; the versions of 2023 had it under other names."""
    typed = an_object(bubble.get("delegate")).get("a")
    return a_text(bubble.get("text")) or a_text(typed) or a_text(bubble.get("rawText"))


def _at(bubble: Json) -> datetime | None:
    # Its neighbour clientStartTime counts from the start of the program.
    sent = an_object(bubble.get("timingInfo")).get("clientRpcSendTime")
    return moment(bubble.get("createdAt")) or moment(sent)


def _workspace(source: Source) -> str | None:
    """The folder that was open, as the file beside the database of a workspace tells."""
    beside = source.path.with_name("workspace.json") if source.path else None
    if beside is None or not beside.is_file():
        return None
    try:
        with beside.open("rb") as stream:
            return _folder(a_text(arguments(decoded(stream.read(BUFFER))).get("folder")))
    except OSError:
        return None


def _folder(address: str) -> str | None:
    try:
        return unquote(urlsplit(address).path) or None
    except ValueError:
        return None
