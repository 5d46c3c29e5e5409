"""Cursor's databases ``state.vscdb``: that of all its windows, and before 2025 one of each workspace."""

from __future__ import annotations

import json
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
from recollect.rules.chats.sources import BUFFER, LONGEST_LINE, Report, Source, Unreadable, decoded
from recollect.rules.chats.transcript import Transcript, moment, named_action

FORMAT = "cursor"

_ROLES: dict[object, Role] = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
# A range and not LIKE, which would not use the index; a database can have many gigabytes.
_COMPOSERS = (
    "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
)
_READ = "SELECT CASE WHEN length(value) <= :longest THEN value END, length(value) FROM "
_VALUES = {
    "cursorDiskKV": _READ + "cursorDiskKV WHERE key = :key",
    "ItemTable": _READ + "ItemTable WHERE key = :key",
}
_TABS = "workbench.panel.aichat.view.aichat.chatdata"
_WORKSPACE_COMPOSERS = "composer.composerData"

_NO_CHATS = "The database has no chats of Cursor; those are in its globalStorage/state.vscdb."
_ELSEWHERE = "The chats of this workspace are in Cursor's globalStorage/state.vscdb; import that."


def read(source: Source, report: Report) -> Iterator[Chat]:
    """The chats in a database. It is only read, and neither locked nor copied."""
    if source.path is None:
        raise Unreadable("A database cannot be read inside an archive; unpack it first.")
    _tell_of_unsaved(source.path, report)
    address = f"file:{quote(str(source.path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
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
        # Views are left out: one of such a name could run for ever.
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
            asked = next((bubble for bubble in reversed(bubbles) if bubble.get("type") == "user"), {})
            asked.setdefault("createdAt", tab.get("lastSendTime"))
            yield from self._told(
                Transcript(
                    self._source.name,
                    FORMAT,
                    session=a_text(tab.get("tabId")),
                    project=self._folder,
                    # It may be a whole answer.
                    title=a_text(tab.get("chatTitle")).strip().partition("\n")[0] or None,
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
        for (key,) in self._connection.execute(_COMPOSERS):
            composer, session = self._value("cursorDiskKV", str(key)), str(key).partition(":")[2]
            whole = map(an_object, a_list(composer.get("conversation")))
            apart = (
                self._value("cursorDiskKV", f"bubbleId:{session}:{a_text(an_object(header).get('bubbleId'))}")
                for header in a_list(composer.get("fullConversationHeadersOnly"))
            )
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
        found = self._connection.execute(_VALUES[table], {"key": key, "longest": LONGEST_LINE}).fetchone()
        value, size = found or (None, None)
        if value is None and size:
            reason = f"The value {key} is longer than {LONGEST_LINE >> 20} MB and was left out."
            self._report(Skipped(self._source.name, reason))
        try:
            return an_object(json.loads(decoded(value) if isinstance(value, bytes) else a_text(value)))
        except (ValueError, RecursionError):
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
