"""What a search costs when a tenant has ten times as much."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from bench.mem0_beside import Given, Ours, sentence
from bench.report import Figure, at_most
from recollect.access.models import NewUser
from recollect.bootstrap import open_services
from recollect.engine.searching import SENTENCE_ENCODER_WEIGHS
from recollect.engine.service import Engine
from recollect.engine.upkeep import Upkeep
from recollect.settings import Settings

SMALL = 10_000
LARGE = 100_000
BATCH = 1_000
SEARCHES = 100


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        async with open_services(Settings(home=Path(folder) / "home", _env_file=None)) as services:
            given = Given()
            engine = Engine(given, services.llm, meaning_weighs=SENTENCE_ENCODER_WEIGHS, keep_deleted_days=30)
            user = await services.access.create_user(NewUser(email="bench@example.com"))
            ours = Ours(services, engine, user.id)
            chance = random.Random(5)
            await _fill(ours, given, chance, SMALL)
            small = await _search(ours, given, chance)
            await _fill(ours, given, chance, LARGE - SMALL)
            begun = time.perf_counter()
            await Upkeep(services.tenancy, services.database.admin, given).index()
            building = time.perf_counter() - begun
            large = await _search(ours, given, chance)
    detail = f"{1000 * large:.1f} ms against {1000 * small:.1f} ms; the index took {building:.0f} s to build"
    return [at_most("search among 100,000 against 10,000, p50", large / small, "times as long", 3, detail)]


async def _fill(ours: Ours, given: Given, chance: random.Random, memories: int) -> None:
    for batch in range(memories // BATCH):
        await ours.add([sentence(chance) for _ in range(BATCH)], f"user {batch % 10}")
        given.known.clear()


async def _search(ours: Ours, given: Given, chance: random.Random) -> float:
    """Of all the tenant's memories, by words that a fiftieth of them have, and by meaning."""
    times = []
    for _ in range(SEARCHES):
        question = " ".join(sentence(chance).split()[:4])
        given.vector(question)
        begun = time.perf_counter()
        await ours.search(question, None)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)
