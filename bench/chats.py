"""How fast chats come in: Claude Code's files, read, masked and stored, small and large."""

from __future__ import annotations

import asyncio
import re
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from bench.report import Figure, at_least, at_most
from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.rules.histories.importing import Import
from recollect.settings import Settings

DATA = Path(__file__).parents[2] / "shared" / "rules-eval" / "raw"
SMALL, LARGE = 10_000_000, 1_000_000_000
# A very long session; what is larger comes in several files.
FILE = 50_000_000
MEGABYTE = 1_000_000

_CHANGED = re.compile(rb'"(uuid|parentUuid|text|content)":\s?"')


async def measure() -> list[Figure]:
    sessions = [path.read_bytes() for path in sorted(DATA.glob("*.jsonl"))]
    if not sessions:
        print("Skipped: there are no transcripts to import.")
        return []
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(home=Path(folder) / "home", embedding="static", _env_file=None)
        async with open_services(settings) as services:
            await _rate(services, Path(folder), sessions, MEGABYTE)
            before = _memory()
            small = [await _rate(services, Path(folder), sessions, SMALL) for _ in range(5)]
            large = await _rate(services, Path(folder), sessions, LARGE)
    grown = _memory() - before
    by_clock, by_work = (statistics.median(rates) for rates in zip(*small, strict=True))
    return [
        at_least("import of 10 MB", by_clock, "MB/s", 20, f"{by_work:.0f} MB/s of the processor"),
        at_least("import of 1 GB", large[0], "MB/s", 20, f"{large[1]:.0f} MB/s of the processor"),
        at_least("1 GB against 10 MB", large[1] / by_work, "times as fast", 0.8, "by the processor's time"),
        at_most("memory, whole process", _memory(), "MB", 300, f"{grown:.0f} MB of it for the import"),
    ]


async def _rate(services: Services, folder: Path, sessions: list[bytes], size: int) -> tuple[float, float]:
    """Megabytes a second, by the clock and by what this process worked."""
    user = await services.access.create_user(NewUser(email=f"{uuid4().hex}@example.com"))
    bringing = Import(services.histories, services.tenancy, user.id)
    written = folder / "sessions"
    megabytes = await asyncio.to_thread(_write, written, sessions, size) / MEGABYTE
    start, worked = time.perf_counter(), time.process_time()
    outcome = await bringing.run([written], lambda _, __: None)
    took, worked = time.perf_counter() - start, time.process_time() - worked
    if not outcome.whole.turns or outcome.whole.known_turns:
        raise RuntimeError("the import has not done its work")
    await asyncio.to_thread(shutil.rmtree, written)
    return megabytes / took, megabytes / worked


def _write(folder: Path, sessions: list[bytes], size: int) -> int:
    """Sessions of about that size together: these, again and again, always saying something else."""
    folder.mkdir()
    others = _others(sessions)
    written = 0
    while written < size:
        with (folder / f"{uuid4()}.jsonl").open("wb") as file:
            while file.tell() < min(FILE, size - written):
                file.write(next(others))
            written += file.tell()
    return written


def _others(sessions: list[bytes]) -> Iterator[bytes]:
    number = 0
    while True:
        for session in sessions:
            number += 1
            yield _CHANGED.sub(rb"\g<0>%d " % number, session)


def _memory() -> float:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE
