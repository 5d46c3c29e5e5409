"""Packed files, read without being unpacked to the disk, within bounds against bombs."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

import zstandard

from recollect.rules.chats.models import Skipped
from recollect.rules.chats.sources import BUFFER, Report, Source, Unreadable

MOST_ENTRIES = 20_000
LARGEST_UNPACKED = 4 * 1024**3
# Transcripts shrink to a tenth, very repetitive ones to a fiftieth; bombs to a thousandth.
HIGHEST_RATIO = 200
# Below this size a ratio says nothing.
ALWAYS_UNPACKED = 8 * 1024 * 1024

ZIP = "zip"
ZSTD = "zstd"
ENDINGS = (".jsonl", ".json", ".md", ".zst")
# An archive's list of contents, which is read into memory in one piece.
_LARGEST_LIST = 4 * 1024 * 1024
_TOO_MANY = f"The archive has more than {MOST_ENTRIES:,} files; unpack it and import the folder."
_NOT_INSIDE = {
    ".zip": "This is an archive inside an archive; unpack it and import what is in it.",
    ".vscdb": "A database cannot be read inside an archive; unpack it first.",
}
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile,
    # A name that is not in the encoding which the archive claims for it.
    UnicodeDecodeError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    zlib.error,
    zstandard.ZstdError,
)


class Unpacking(io.RawIOBase):
    """What comes out of a packed file, which stops when it is too much for what went in."""

    def __init__(self, stream: BinaryIO, packed: int) -> None:
        self._stream = stream
        self._most = min(LARGEST_UNPACKED, max(ALWAYS_UNPACKED, packed * HIGHEST_RATIO))
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except _BROKEN as error:
            raise Unreadable("The packed file is damaged; what could be unpacked was read.") from error
        self._count += len(data)
        if self._count > self._most:
            raise Unreadable(
                "The packed file unpacks to far more than chats do, and was not read any further."
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _InPieces(io.BufferedIOBase):
    """A file of which nobody takes much at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LARGEST_LIST:
            raise Unreadable(_TOO_MANY)
        return self._stream.read(-1 if size is None else size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def from_zstd(source: Source, size: int) -> Source:
    """The file that was compressed; the name stays."""

    def unpacked() -> BinaryIO:
        # More than this window no one needs who packs transcripts, and it is memory that is taken at once.
        decompressor = zstandard.ZstdDecompressor(max_window_size=32 * 1024 * 1024)
        stream = decompressor.stream_reader(source.open(), read_across_frames=True)
        return io.BufferedReader(Unpacking(stream, size), BUFFER)

    return Source(source.name, unpacked)


def in_zip(source: Source, report: Report) -> Iterator[tuple[Source, int]]:
    """The files in an archive that may be chats, and what each takes there."""
    try:
        with source.open() as stream, zipfile.ZipFile(_InPieces(stream)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES:
                raise Unreadable(_TOO_MANY)
            if sum(entry.file_size for entry in entries) > LARGEST_UNPACKED:
                raise Unreadable("The archive unpacks to more than 4 GB; unpack it and import the folder.")
            for entry in entries:
                name = f"{source.name}!{entry.filename}"
                if (reason := _refused(entry)) is not None:
                    report(Skipped(name, reason))
                elif entry.filename.lower().endswith(ENDINGS):
                    yield Source(name, _opener(archive, entry)), entry.compress_size
    except _BROKEN as error:
        raise Unreadable("The archive is damaged and cannot be read any further.") from error


def _opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], BinaryIO]:
    def opened() -> BinaryIO:
        try:
            stream = archive.open(entry)
        except _BROKEN as error:
            raise Unreadable("The file in the archive is damaged.") from error
        return io.BufferedReader(Unpacking(stream, entry.compress_size), BUFFER)  # type: ignore[arg-type]

    return opened


def _refused(entry: zipfile.ZipInfo) -> str | None:
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in entry.filename:
        return "The name leads out of the archive."
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "Links in an archive are not followed."
    if entry.flag_bits & 1 and not entry.is_dir():
        return "The file is encrypted; unpack it with its password and import that."
    if entry.compress_type not in _PACKED:
        return "The file is packed in a way that is not known; unpack the archive and import the folder."
    return _NOT_INSIDE.get(path.suffix.lower())
