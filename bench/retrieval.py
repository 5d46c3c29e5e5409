"""How much of what answers a question is found: recall on long conversations, with labels."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from bench.report import Figure, at_least, at_most
from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.tenancy import Caller
from recollect.engine.context import line_for, tokens_in
from recollect.engine.models import Addition, Entities, Message, Wanted, Where
from recollect.settings import Settings

DATA = Path(__file__).parents[2] / "shared" / "retrieval-eval" / "locomo-dev.json"
SHARE_OF_HISTORY = 0.1


@dataclass
class Tally:
    at_10: list[float] = field(default_factory=list)
    at_50: list[float] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    by_category: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    in_context: list[float] = field(default_factory=list)
    context_share: list[float] = field(default_factory=list)
    context_seconds: list[float] = field(default_factory=list)
    history_seconds: list[float] = field(default_factory=list)


@asynccontextmanager
async def _server(embedding: str) -> AsyncIterator[Services]:
    with TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(home=Path(folder) / "home", embedding=embedding, _env_file=None)
        async with open_services(settings) as services:
            yield services


async def _judge(embedding: str) -> Tally:
    """Each conversation is a tenant of its own; each of its turns a memory of one user."""
    tally = Tally()
    async with _server(embedding) as services:
        for conversation in json.loads(DATA.read_text()):
            user = await services.access.create_user(
                NewUser(email=f"{conversation['conversation']}@example.com")
            )
            await _Conversation(services, Caller.user(user.id), conversation).judge(tally)
    return tally


class _Conversation:
    def __init__(self, services: Services, caller: Caller, data: dict[str, Any]) -> None:
        self._services = services
        self._caller = caller
        self._data = data
        self._turns: dict[str, str] = {}
        self._about = Where(Entities(user="speaker"))

    async def judge(self, tally: Tally) -> None:
        await self._store()
        whole = await self._history()
        for question in self._data["questions"]:
            evidence = {each for each in question["evidence"] if each in set(self._turns.values())}
            if not evidence:
                continue
            async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
                found = await self._services.engine.search(
                    tx, Wanted(question["question"], self._about, limit=50)
                )
            ranked = [self._turns[str(memory.id)] for memory in found]
            tally.at_10.append(_recall(ranked[:10], evidence))
            tally.at_50.append(_recall(ranked, evidence))
            tally.ndcg.append(_ndcg(ranked[:10], evidence))
            tally.by_category[question["category"]].append(tally.at_10[-1])
            await self._context(tally, question["question"], evidence, whole)
        tally.history_seconds += [await self._time_of_history() for _ in range(5)]

    async def _store(self) -> None:
        runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for turn in self._data["turns"]:
            runs[turn["session"]].append(turn)
        for run, turns in runs.items():
            messages = [Message(role="user", content=f"{turn['speaker']}: {turn['text']}") for turn in turns]
            wanted = Addition(messages, Entities(user="speaker", run=run), infer=False)
            async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
                added = await self._services.engine.add(tx, wanted)
            self._turns |= {
                str(change.id): turn["id"] for change, turn in zip(added.results, turns, strict=True)
            }

    async def _context(self, tally: Tally, question: str, evidence: set[str], whole: int) -> None:
        begun = time.perf_counter()
        async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
            context = await self._services.engine.context(
                tx, Wanted(question, self._about), budget_tokens=int(whole * SHARE_OF_HISTORY)
            )
        tally.context_seconds.append(time.perf_counter() - begun)
        tally.in_context.append(_recall([self._turns[str(each)] for each in context.ids], evidence))
        tally.context_share.append(tokens_in(context.text) / whole)

    async def _history(self) -> int:
        return tokens_in(await self._whole_text())

    async def _whole_text(self) -> str:
        async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
            memories = await self._services.engine.list(tx, self._about, limit=10_000)
        return "\n".join(line_for(memory) for memory in reversed(memories))

    async def _time_of_history(self) -> float:
        begun = time.perf_counter()
        await self._whole_text()
        return time.perf_counter() - begun


def _recall(ranked: Sequence[str], evidence: set[str]) -> float:
    return len(evidence & set(ranked)) / len(evidence)


def _ndcg(ranked: Sequence[str], evidence: set[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, turn in enumerate(ranked) if turn in evidence)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(evidence), len(ranked))))


async def measure() -> list[Figure]:
    if not DATA.is_file():
        print(f"{DATA.name} is not here (its licence does not allow shipping it): nothing measured.")
        return []
    figures: list[Figure] = []
    for embedding, name, at_10, at_50 in (
        ("minilm", "all-MiniLM-L6-v2", 0.72, 0.87),
        ("static", "without it", 0.65, 0.82),
    ):
        tally = await _judge(embedding)
        figures += [
            at_least(f"recall@10, {name}", mean(tally.at_10), "", at_10, f"{len(tally.at_10)} questions"),
            at_least(f"recall@50, {name}", mean(tally.at_50), "", at_50),
            Figure(f"nDCG@10, {name}", mean(tally.ndcg), ""),
            *(
                Figure(f"recall@10, {name}, {category}", mean(each), "", detail=f"{len(each)} questions")
                for category, each in sorted(tally.by_category.items())
            ),
            at_least(f"evidence in a context, {name}", mean(tally.in_context), "", 0.85),
            at_most(f"tokens of a context, {name}", mean(tally.context_share), "of the history", 0.1),
            Figure(
                f"time to a context, {name}",
                1000 * median(tally.context_seconds),
                "ms",
                detail=f"the whole history: {1000 * median(tally.history_seconds):.1f} ms",
            ),
        ]
    return figures
