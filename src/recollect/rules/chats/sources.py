"""Files to read, on a disk or inside an archive: opened, decoded and cut into lines, within bounds."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from recollect.rules.chats.models import Skipped
from recollect.rules.chats.shapes import Json

Report = Callable[[Skipped], None]

# A line is held whole while it is decoded, which takes up to nine times its size.
LONGEST_LINE = 16 * 1024 * 1024
BUFFER = 1 << 20
# Objects and lists take far more room than what they are written with, 16 MB of small ones 400 MB; texts in
# a list take less.
MOST_PARTS = 500_000
# After so many bad lines of one file the rest is counted only.
BAD_LINES_NAMED = 5
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Unreadable(Exception):
    """A file cannot be read any further. The message says why, in a sentence for the report."""


class TooManyParts(ValueError):
    """JSON is not decoded, since it would take too much room."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file: what it is called in the report, and how its bytes are had."""

    name: str
    open: Callable[[], BinaryIO]
    # None inside an archive.
    path: Path | None = None

    @property
    def stem(self) -> str:
        """The file's own name without its endings."""
        return self.name.replace("\\", "/").rsplit("/", 1)[-1].lstrip(".").split(".", 1)[0]


def _as_latin_1(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("recollect.latin_1", _as_latin_1)


def decoded(data: bytes) -> str:
    """Text in UTF-8, in which a byte that is none is taken for Latin-1."""
    return data.decode("utf-8", "recollect.latin_1")


def utf8(stream: BinaryIO) -> BinaryIO:
    """The stream without a byte order mark, and in UTF-8 if it was in UTF-16."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Raw(stream), BUFFER)
    head = buffered.peek(3)[:3]
    if head.startswith(_UTF16):
        return io.BufferedReader(_Recoded(buffered, "utf-16", "replace"), BUFFER)
    if head.startswith(codecs.BOM_UTF8):
        buffered.read(3)
    return buffered


def repaired(stream: BinaryIO) -> BinaryIO:
    """The stream in valid UTF-8, whatever it was."""
    return io.BufferedReader(_Recoded(utf8(stream), "utf-8", "recollect.latin_1"), BUFFER)


class _Raw(io.RawIOBase):
    """Any readable thing as a raw stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Recoded(io.RawIOBase):
    """A stream as valid UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, errors: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            data = self._stream.read(1 << 16)
            self._ready = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


class BadLines:
    """The lines of a file that could not be read: the first few by number, the others by count."""

    def __init__(self, source: Source, report: Report) -> None:
        self._source, self._report = source.name, report
        self._count = 0

    def add(self, line: int, reason: str) -> None:
        self._count += 1
        if self._count <= BAD_LINES_NAMED:
            self._report(Skipped(self._source, reason, line))

    def close(self) -> None:
        if (more := self._count - BAD_LINES_NAMED) > 0:
            self._report(Skipped(self._source, f"{more} more lines could not be read and were left out."))


def raw_lines(source: Source, bad: BadLines) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers; one that is too long is reported and passed over."""
    with utf8(source.open()) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number += 1
            if len(line) < LONGEST_LINE or line.endswith(b"\n"):
                yield number, line
                continue
            while (more := stream.readline(BUFFER)) and not more.endswith(b"\n"):
                pass
            bad.add(number, f"The line is longer than {LONGEST_LINE >> 20} MB and was left out.")


def text_lines(source: Source, report: Report) -> Iterator[str]:
    """The lines of a text file, without their line ends."""
    bad = BadLines(source, report)
    for _, line in raw_lines(source, bad):
        yield decoded(line).rstrip("\r\n")
    bad.close()


def json_value(text: str) -> object:
    """The JSON value that is written there, if it fits into memory by all means."""
    if text.count("{") + text.count("[") > MOST_PARTS or text.count(",") > 3 * MOST_PARTS:
        raise TooManyParts
    return json.loads(text)


def json_lines(source: Source, report: Report, wanted: Callable[[bytes], bool]) -> Iterator[Json]:
    """The JSON objects of a file that has one in each line; only lines that are wanted are decoded."""
    bad = BadLines(source, report)
    for number, line in raw_lines(source, bad):
        if not wanted(line):
            continue
        try:
            entry = json_value(decoded(line))
        except RecursionError:
            bad.add(number, "The line is nested too deeply and was left out.")
        except TooManyParts:
            bad.add(number, "The line has too many objects, lists or texts and was left out.")
        except ValueError:
            bad.add(number, "The line is not valid JSON (perhaps cut off) and was left out.")
        else:
            if isinstance(entry, dict):
                yield entry
    bad.close()
