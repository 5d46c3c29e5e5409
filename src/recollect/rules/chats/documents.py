"""JSON files of any size, read value by value: the elements of a list, or one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import ijson

from recollect.rules.chats.models import Skipped
from recollect.rules.chats.sources import Report, Source, Unreadable, repaired

# What one conversation may take; the longest real ones have a few megabytes.
LARGEST_VALUE = 32 * 1024 * 1024
_EVENT_SIZE = 60
_CHUNK = 1 << 16


def values(source: Source, report: Report) -> Iterator[dict[str, Any]]:
    """The objects in the file's list, or its only object; one that is too large is reported and left out."""
    count = 0
    try:
        with repaired(source.open()) as stream:
            for value in _built(stream):
                count += 1
                if value is _TOO_LARGE:
                    reason = f"Conversation {count} is larger than {LARGEST_VALUE >> 20} MB and was left out."
                    report(Skipped(source.name, reason))
                elif isinstance(value, dict):
                    yield value
    except ijson.JSONError:
        report(
            Skipped(source.name, f"The file is not valid JSON, or breaks off, after {count} conversations.")
        )


_TOO_LARGE = object()


def _built(stream: BinaryIO) -> Iterator[Any]:
    events: Any = ijson.sendable_list()
    # Several values at the top are a file of lines, of which the first was too long to know it by.
    parser = ijson.basic_parse_coro(events, use_float=True, multiple_values=True)
    builder = _Builder()
    silent = 0
    while chunk := stream.read(_CHUNK):
        try:
            parser.send(chunk)
        except ijson.JSONError:
            # What comes before a fault is as good as it was.
            yield from builder.take(events)
            raise
        # The parser holds a string until its end.
        silent = 0 if events else silent + len(chunk)
        if silent > LARGEST_VALUE:
            raise Unreadable(f"The file has a text of more than {LARGEST_VALUE >> 20} MB.")
        yield from builder.take(events)
        del events[:]
    parser.close()
    yield from builder.take(events)


class _Builder:
    """Values put together from a parser's events, within bounds of size.

    The parser's own builder names the path of each value, which takes the square of the depth.
    """

    def __init__(self) -> None:
        # A list at the top is not built: its elements are what is wanted.
        self._top_is_list: bool | None = None
        self._open: list[dict[str, Any] | list[Any]] = []
        self._key = ""
        self._size = 0

    def take(self, events: list[tuple[str, Any]]) -> Iterator[Any]:
        for event, value in events:
            self._size += _EVENT_SIZE
            if event == "map_key":
                self._size += len(value)
                self._key = value
            elif event in {"start_map", "start_array"}:
                self._start({} if event == "start_map" else [])
            elif event in {"end_map", "end_array"}:
                yield from self._end()
            elif self._open:
                self._size += len(value) if isinstance(value, str) else 0
                self._attach(value)

    def _start(self, container: dict[str, Any] | list[Any]) -> None:
        if self._top_is_list is None:
            self._top_is_list = isinstance(container, list)
            if self._top_is_list:
                return
        if not self._open:
            self._size = 0
        else:
            self._attach(container)
        self._open.append(container)

    def _end(self) -> Iterator[Any]:
        if self._open:
            whole = self._open.pop()
            if not self._open:
                yield whole if self._size <= LARGEST_VALUE else _TOO_LARGE

    def _attach(self, value: Any) -> None:
        if self._size > LARGEST_VALUE:
            return
        into = self._open[-1]
        if isinstance(into, dict):
            into[self._key] = value
        else:
            into.append(value)
