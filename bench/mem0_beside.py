"""Our engine beside mem0's library: the same machine, the same Postgres, the same vectors, in one run."""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID
from zlib import crc32

import numpy as np
import psycopg
from numpy.typing import NDArray

from bench.foundation import free_port, serving
from bench.load import load
from bench.report import Figure, at_least
from recollect.access.models import NewKey, NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.tenancy import Caller
from recollect.engine.models import Addition, Entities, Message, Wanted, Where
from recollect.engine.searching import SENTENCE_ENCODER_WEIGHS
from recollect.engine.service import Engine
from recollect.settings import Settings

DIMENSION = 384
USERS = 100
ROWS = 10_000
SINGLE_ADDS = 300
SEARCHES = 200
ROUNDS = 3
DELETED = 1_000
DELETIONS = 3
# So many of one, then so many of the other.
IN_TURN = 20
# Measured of mem0's own server with a user's key, on a machine like this.
MEM0_SERVER_RATE = 3
BEGINNINGS = ("ba", "ko", "ri", "su", "te", "no", "fa", "lu")
ENDINGS = ("lan", "mor", "vit", "dex", "pul", "gar", "sil", "ton")
R = TypeVar("R")
Question = tuple[str, str, set[str]]


def sentence(chance: random.Random) -> str:
    words = (chance.choice(BEGINNINGS) + chance.choice(ENDINGS) for _ in range(12))
    return " ".join(f"{word}{chance.randrange(40)}" for word in words)


def vector_of(text: str) -> NDArray[np.float32]:
    """The same for the same text, and for both."""
    drawn = np.random.default_rng(crc32(text.encode())).standard_normal(DIMENSION).astype(np.float32)
    unit: NDArray[np.float32] = drawn / np.linalg.norm(drawn)
    return unit


class Given:
    """An embedder that has every vector ready: what is measured is the memory, not the model."""

    model = "bench"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.known: dict[str, NDArray[np.float32]] = {}

    def vector(self, text: str) -> NDArray[np.float32]:
        if text not in self.known:
            self.known[text] = vector_of(text)
        return self.known[text]

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.remembered(texts)

    def remembered(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.vector(text) for text in texts])


class Ours:
    def __init__(self, services: Services, engine: Engine, user: UUID) -> None:
        self._services, self._engine, self._caller = services, engine, Caller.user(user)

    async def _do(self, work: Callable[[Any], Awaitable[R]]) -> R:
        async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
            return await work(tx)

    async def add(self, texts: Sequence[str], user: str) -> None:
        wanted = Addition([Message(content=text) for text in texts], Entities(user=user), infer=False)
        await self._do(lambda tx: self._engine.add(tx, wanted))

    async def search(self, query: str, user: str | None) -> list[str]:
        wanted = Wanted(query, Where(Entities(user=user)), limit=10)
        return [found.text for found in await self._do(lambda tx: self._engine.search(tx, wanted))]

    async def delete_all(self, user: str) -> int:
        return await self._do(lambda tx: self._engine.delete_all(tx, Where(Entities(user=user))))


class Mem0s:
    def __init__(self, conninfo: str, given: Given, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "none"}
        from mem0 import Memory  # noqa: PLC0415 it reads the environment when it is imported

        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "pgvector",
                    "config": {
                        "connection_string": conninfo,
                        "collection_name": "mem0_bench",
                        "embedding_model_dims": DIMENSION,
                        "hnsw": True,
                    },
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = _AsMem0Asks(given)

    def add(self, texts: Sequence[str], user: str) -> None:
        for text in texts:
            self._memory.add(text, user_id=user, infer=False)

    def search(self, query: str, user: str) -> list[str]:
        found = self._memory.search(query, filters={"user_id": user}, top_k=10, threshold=0.0)
        return [each["memory"] for each in found["results"]]

    def delete_all(self, user: str) -> None:
        self._memory.delete_all(user_id=user)


class _AsMem0Asks:
    def __init__(self, given: Given) -> None:
        self._given = given
        self.config = None

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        vector: list[float] = self._given.vector(text).tolist()
        return vector

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


@dataclass
class Times:
    """Seconds that each thing took."""

    single_add: list[float] = field(default_factory=list)
    batch_add: float = 0.0
    search: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)
    delete_all: list[float] = field(default_factory=list)

    def note_search(self, seconds: float, nearest: set[str], found: Sequence[str]) -> None:
        self.search.append(seconds)
        self.recall.append(len(nearest & {*found}) / len(nearest))


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(home=Path(folder) / "home", embedding="static", _env_file=None)
        async with open_services(settings) as services:
            given = Given()
            engine = Engine(given, services.llm, meaning_weighs=SENTENCE_ENCODER_WEIGHS, keep_deleted_days=30)
            user = await services.access.create_user(NewUser(email="bench@example.com"))
            texts = _texts(given)
            theirs = await asyncio.to_thread(_mem0s, services, given, Path(folder) / "mem0")
            ours = Ours(services, engine, user.id)
            our_times, their_times = Times(), Times()
            await _fill(ours, theirs, texts, our_times, their_times)
            # Both at their best, whenever Postgres would have got round to it.
            await _tidy(services.database.admin)
            await _measure(ours, theirs, given, texts, our_times, their_times)
            through_http = await _through_http(services, texts)
    return [*_compare(our_times, their_times), through_http]


async def _through_http(services: Services, texts: dict[str, list[str]]) -> Figure:
    """Searches of one user among all, with a user's key, whose server's rate is known: 3/s, since it makes a
    slow hash of the key for every request. It is not published as a package, so it does not run beside."""
    caller = Caller.user((await services.access.create_user(NewUser(email="http@example.com"))).id)
    async with services.tenancy.acting_as(caller) as tx:
        key = (await services.access.create_key(tx, NewKey(name="bench"))).key
    for user in list(texts)[:USERS]:
        messages = [Message(content=text) for text in texts[user]]
        async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
            await services.engine.add(tx, Addition(messages, Entities(user=user), infer=False))
    question = " ".join(texts["user7"][0].split()[:4])
    body = json.dumps({"query": question, "filters": {"user_id": "user7"}}).encode()
    port = free_port()
    async with serving(services.settings.home, port, RECOLLECT_EMBEDDING="static"):
        path = "/v3/memories/search/"
        await load(port, path, key, connections=8, seconds=2, body=body)
        outcome = await load(port, path, key, connections=8, seconds=10, body=body)
    assert not outcome.failed, f"{outcome.failed} searches failed"
    return at_least("searches through HTTP with a user's key", outcome.rate, "/s", 10 * MEM0_SERVER_RATE)


def _mem0s(services: Services, given: Given, folder: Path) -> Mem0s:
    conninfo = f"{services.database.admin} options='-c search_path=public,extensions'"
    return Mem0s(conninfo, given, folder)


def _texts(given: Given) -> dict[str, list[str]]:
    chance = random.Random(4)
    texts = {f"user{user}": [sentence(chance) for _ in range(ROWS // USERS)] for user in range(USERS)}
    texts["single"] = [sentence(chance) for _ in range(SINGLE_ADDS)]
    texts["deleted"] = [sentence(chance) for _ in range(DELETED)]
    for said in texts.values():
        for text in said:
            given.vector(text)
    return texts


def _questions(given: Given, texts: dict[str, list[str]]) -> Iterator[Question]:
    """A user, a question that shares no word with anything, and the ten texts nearest to it."""
    for number in range(SEARCHES):
        user, question = f"user{number % USERS}", f"zz{number} yy{number}"
        near = np.stack([given.vector(text) for text in texts[user]]) @ given.vector(question)
        yield user, question, {texts[user][place] for place in np.argsort(-near)[:10]}


async def _fill(ours: Ours, theirs: Mem0s, texts: dict[str, list[str]], mine: Times, its: Times) -> None:
    for user in list(texts)[:USERS]:
        # It adds one by one, whatever it is given.
        its.batch_add += (await asyncio.to_thread(_timed, theirs.add, texts[user], user))[0] / ROWS
        mine.batch_add += (await _awaited(ours.add(texts[user], user)))[0] / ROWS


async def _tidy(conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute("vacuum analyze")


async def _measure(
    ours: Ours, theirs: Mem0s, given: Given, texts: dict[str, list[str]], mine: Times, its: Times
) -> None:
    """Turn and turn about, so that a busy moment of the machine meets both."""
    for said in _in_turn(texts["single"]):
        its.single_add += await asyncio.to_thread(_add_singly, theirs, said)
        mine.single_add += [(await _awaited(ours.add([text], "single")))[0] for text in said]
    questions = [*_questions(given, texts)]
    # Once unmeasured: what either reads for the first time it reads once.
    await _ask(ours, theirs, questions, Times(), Times())
    for asked in _in_turn(questions * ROUNDS):
        await _ask(ours, theirs, asked, mine, its)
    for _ in range(DELETIONS):
        await asyncio.to_thread(theirs.add, texts["deleted"], "deleted")
        its.delete_all.append((await asyncio.to_thread(_timed, theirs.delete_all, "deleted"))[0])
        await ours.add(texts["deleted"], "deleted")
        seconds, gone = await _awaited(ours.delete_all("deleted"))
        assert gone == DELETED, f"{gone} were deleted"
        mine.delete_all.append(seconds)


async def _ask(ours: Ours, theirs: Mem0s, asked: Sequence[Question], mine: Times, its: Times) -> None:
    await asyncio.to_thread(_search_mem0, theirs, asked, its)
    for user, question, nearest in asked:
        seconds, found = await _awaited(ours.search(question, user))
        mine.note_search(seconds, nearest, found)


def _add_singly(theirs: Mem0s, said: Sequence[str]) -> list[float]:
    return [_timed(theirs.add, [text], "single")[0] for text in said]


def _search_mem0(theirs: Mem0s, asked: Sequence[Question], times: Times) -> None:
    for user, question, nearest in asked:
        seconds, found = _timed(theirs.search, question, user)
        times.note_search(seconds, nearest, found)


def _in_turn(things: Sequence[R]) -> Iterator[Sequence[R]]:
    for first in range(0, len(things), IN_TURN):
        yield things[first : first + IN_TURN]


def _timed(work: Callable[..., R], *given: Any) -> tuple[float, R]:
    begun = time.perf_counter()
    outcome = work(*given)
    return time.perf_counter() - begun, outcome


async def _awaited(work: Awaitable[R]) -> tuple[float, R]:
    begun = time.perf_counter()
    outcome = await work
    return time.perf_counter() - begun, outcome


def _compare(ours: Times, theirs: Times) -> list[Figure]:
    def ratio(name: str, mine: float, its: float, limit: float) -> Figure:
        detail = f"{1000 * mine:.3g} ms against {1000 * its:.3g} ms"
        return at_least(name, its / mine, "times as fast", limit, detail)

    return [
        ratio("adding one, p50", statistics.median(ours.single_add), statistics.median(theirs.single_add), 3),
        ratio("adding in batches, each", ours.batch_add, theirs.batch_add, 20),
        ratio(
            "searching one user of 100, p50",
            statistics.median(ours.search),
            statistics.median(theirs.search),
            4,
        ),
        at_least("our recall@10 of the nearest", statistics.mean(ours.recall), "", 1.0),
        Figure("mem0's recall@10 of the nearest", statistics.mean(theirs.recall), ""),
        ratio(
            f"deleting {DELETED:,}",
            statistics.median(ours.delete_all),
            statistics.median(theirs.delete_all),
            20,
        ),
    ]
