"""Finding chats: paths become files, each file's content tells its format, what is skipped is reported."""

from __future__ import annotations

import glob
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

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
from recollect.rules.chats.formats import recognised
from recollect.rules.chats.models import Chat, Skipped
from recollect.rules.chats.sources import BUFFER, Report, Source, Unreadable

Progress = Callable[[int, int], None]

# What is looked at inside a folder; a file that is named is looked at whatever its ending.
_ENDINGS = (*archives.ENDINGS, ".vscdb", ".zip")

_LINK_OUT = "This is a link out of the folder; name its target to import it."


def read_chats(paths: Iterable[str | Path], *, report: Report, progress: Progress) -> Iterator[Chat]:
    """Every chat in these files, folders and globs. What cannot be read is reported, and the rest goes on."""
    files = list(_files(paths, report))
    reading = _Reading(report, progress, total=sum(size for _, size in files))
    for path, size in files:
        yield from reading.read(path, size)


class _Reading:
    """One run over many files: how far it is, and which turns it has met."""

    def __init__(self, report: Report, progress: Progress, total: int) -> None:
        self._report, self._progress = report, progress
        self._done, self._total = 0, total
        self._told = 0
        self._readers: dict[str, Callable[[Source, Report], Iterator[Chat]]] = {
            aider.FORMAT: aider.read,
            chatgpt.FORMAT: chatgpt.read,
            claude_ai.FORMAT: claude_ai.read,
            claude_code.FORMAT: partial(claude_code.read, seen=set()),
            codex.FORMAT: codex.read,
            cursor.FORMAT: cursor.read,
            cursor_markdown.FORMAT: cursor_markdown.read,
            messages.FORMAT: messages.read,
            messages.LINES: messages.read_lines,
            specstory.FORMAT: specstory.read,
        }

    def read(self, path: Path, size: int) -> Iterator[Chat]:
        """The chats of one file on the disk."""
        count = 0

        def advance(more: int) -> None:
            nonlocal count
            # What is read twice, to find the format, counts once.
            count = min(count + more, size)
            self._progress(self._done + count, self._total)

        source = Source(_shown(path), lambda: io.BufferedReader(_Counted(path, advance), BUFFER), path)
        yield from self._guarded(source, self._chats(source, size))
        self._done += size
        self._progress(self._done, self._total)

    def _chats(self, source: Source, size: int) -> Iterator[Chat]:
        found = recognised(source)
        if found == archives.ZIP and source.path:
            for entry, packed in archives.in_zip(source, self._tell):
                yield from self._guarded(entry, self._chats(entry, packed))
        elif found == archives.ZSTD:
            unpacked = archives.from_zstd(source, size)
            yield from self._read_as(recognised(unpacked), unpacked)
        else:
            yield from self._read_as(found, source)

    def _read_as(self, found: str, source: Source) -> Iterator[Chat]:
        if found not in self._readers:
            raise Unreadable("This is packed twice; unpack it and import what is in it.")
        told, any_chat = self._told, False
        for chat in self._readers[found](source, self._tell):
            any_chat = True
            yield chat
        if not any_chat and told == self._told:
            self._tell(Skipped(source.name, "Nobody says anything in the file that another has not."))

    def _tell(self, skipped: Skipped) -> None:
        self._told += 1
        self._report(skipped)

    def _guarded(self, source: Source, chats: Iterator[Chat]) -> Iterator[Chat]:
        try:
            yield from chats
        except Unreadable as refusal:
            self._tell(Skipped(source.name, str(refusal)))
        except OSError as error:
            self._tell(Skipped(source.name, f"The file could not be read: {error.strerror or error}."))


class _Counted(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, advance: Callable[[int], None]) -> None:
        super().__init__(path)
        self._advance = advance

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        count = super().readinto(buffer)
        self._advance(count or 0)
        return count


def _shown(path: str | Path) -> str:
    """The path as text that can be stored, whatever bytes the disk has."""
    return os.fsencode(path).decode("utf-8", "replace")


def _files(paths: Iterable[str | Path], report: Report) -> Iterator[tuple[Path, int]]:
    """The regular files that the paths mean, each once, with their sizes."""
    met: set[Path] = set()
    for given in paths:
        for path in _meant(given, report):
            try:
                true, found = path.resolve(), path.stat()
            except OSError as error:
                report(Skipped(_shown(path), f"The file could not be read: {error.strerror or error}."))
                continue
            if not stat.S_ISREG(found.st_mode):
                report(Skipped(_shown(path), "This is neither a file nor a folder."))
            elif true not in met:
                met.add(true)
                yield path, found.st_size


def _meant(given: str | Path, report: Report) -> Iterator[Path]:
    path = Path(given).expanduser()
    if path.is_dir():
        yield from _inside(path, report)
    elif path.exists():
        yield path
    elif matches := _matches(path):
        for match in matches:
            if not match.resolve().is_relative_to(_fixed_part(path).resolve()):
                report(Skipped(_shown(match), _LINK_OUT))
            elif match.is_dir():
                yield from _inside(match, report)
            else:
                yield match
    else:
        report(
            Skipped(_shown(given), "There is no such file or folder, and nothing matches it as a pattern.")
        )


def _matches(pattern: Path) -> list[Path]:
    # Path.glob takes no absolute pattern.
    return [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207


def _fixed_part(pattern: Path) -> Path:
    """The folder that a pattern looks into."""
    fixed = takewhile(lambda part: not glob.has_magic(part), pattern.parts)
    return Path(*fixed)


def _inside(folder: Path, report: Report) -> Iterator[Path]:
    """The files in a folder that may be chats. A link that leads out of it is not followed."""
    root = folder.resolve()
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*names, *(name for name in folders if (Path(place) / name).is_symlink())]):
            path = Path(place) / name
            if path.is_symlink():
                # What it points at inside the folder is read in its own place.
                if not path.resolve().is_relative_to(root):
                    report(Skipped(_shown(path), _LINK_OUT))
            elif name.lower().endswith(_ENDINGS):
                yield path
