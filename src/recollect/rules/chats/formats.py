"""Which format a file has, told by its first bytes and never by its name."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import Any

import ijson

from recollect.rules.chats import (
    aider,
    archives,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    cursor,
    cursor_markdown,
    messages,
    specstory,
)
from recollect.rules.chats.shapes import Json
from recollect.rules.chats.sources import Source, Unreadable, decoded, repaired

_HEAD = 256 * 1024

_MAGIC = {
    b"SQLite format 3\x00": cursor.FORMAT,
    b"PK\x03\x04": archives.ZIP,
    b"\x28\xb5\x2f\xfd": archives.ZSTD,
}
_OTHER = {
    b"\x1f\x8b": "The file is compressed with gzip; unpack it first.",
    b"%PDF": "This is a PDF; export the chat in another format.",
}
_UNKNOWN = "The file has none of the formats of chats that can be read, or another version of one."
_CLAUDE_CODE_KEYS = {"sessionId", "leafUuid", "parentUuid"}
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")


def recognised(source: Source) -> str:
    """The name of the file's format, or of what it is packed with."""
    with source.open() as stream:
        start = stream.read(_HEAD)
    if not start:
        raise Unreadable("The file is empty.")
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return name
    for magic, reason in _OTHER.items():
        if start.startswith(magic):
            raise Unreadable(reason)
    head = decoded(repaired(io.BytesIO(start)).read())
    found = _of_json(head) if head.lstrip("\0 \t\r\n")[:1] in {"{", "["} else _of_text(head)
    if found is None:
        raise Unreadable("The file is binary and no chat." if "\0" in head else _UNKNOWN)
    return found


def _of_text(head: str) -> str | None:
    """The format whose mark comes first: a chat may have another's pasted into it, and notes above it."""
    for line in head.splitlines():
        if len(line) >= cursor_markdown.LONGEST_MARK:
            continue
        if line.startswith(aider.STARTED):
            return aider.FORMAT
        if cursor_markdown.is_export(line):
            return cursor_markdown.FORMAT
        if specstory.HEADER.fullmatch(line):
            return specstory.FORMAT
    return None


def _of_json(head: str) -> str | None:
    if head.lstrip().startswith("{") and (found := _of_lines(head)):
        return found
    return _of_document(head)


def _of_lines(head: str) -> str | None:
    """The format of a file with an object in each line; the first lines may be broken."""
    begun_with_a_message = False
    for number, line in enumerate(head.strip().split("\n")[:200]):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            keys = _keys(line)
            begun_with_a_message = begun_with_a_message or "role" in keys
            # A first turn may have a picture of megabytes in it.
            if keys & _CLAUDE_CODE_KEYS:
                return claude_code.FORMAT
            continue
        found = _of_entry(entry) if isinstance(entry, dict) else None
        # A message in a later line may be part of a document that is spread over lines.
        if found and (found != messages.LINES or number == 0 or begun_with_a_message):
            return found
    return None


def _of_entry(entry: Json) -> str | None:
    kind = entry.get("type")
    if kind in _CODEX_TYPES and "payload" in entry:
        return codex.FORMAT
    if "record_type" in entry or {"id", "timestamp", "instructions"} <= entry.keys():
        return codex.FORMAT
    if kind and entry.keys() & _CLAUDE_CODE_KEYS:
        return claude_code.FORMAT
    if isinstance(entry.get("messages"), list) or {"role", "content"} <= entry.keys():
        return messages.LINES
    return None


def _of_document(head: str) -> str | None:
    """The format of one JSON value, of which only the beginning is known."""
    keys = _keys(head)
    if "mapping" in keys:
        return chatgpt.FORMAT
    if "chat_messages" in keys:
        return claude_ai.FORMAT
    if "messages" in keys or {"role", "content"} <= keys:
        return messages.FORMAT
    return None


def _keys(head: str) -> set[str]:
    """The keys of the first object at the top, or in the list at the top."""
    events: Any = ijson.sendable_list()
    parser = ijson.basic_parse_coro(events, use_float=True)
    # What comes before a fault is as good as it was.
    with suppress(ijson.JSONError):
        parser.send(head.encode("utf-8", "replace"))
    keys: set[str] = set()
    depth = first = 0
    for event, value in events:
        if event.startswith("start_"):
            depth += 1
            first = first or (depth if event == "start_map" else 0)
        elif event.startswith("end_"):
            depth -= 1
            if depth < first:
                break
        elif event == "map_key" and depth == first:
            keys.add(value)
    return keys
