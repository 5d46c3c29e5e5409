"""Rows of memories, read and written."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import orjson
from numpy.typing import NDArray
from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.json import Jsonb

from recollect.db.connection import Connection
from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.engine.embedding.models import Embedder, Vectors
from recollect.engine.filters import Compiled, compile_filter
from recollect.engine.models import Entities, Memory, Where
from recollect.errors import InvalidInput

queries = Queries(__package__)


def memory_from(row: Mapping[str, Any]) -> Memory:
    named = {
        "user": row["of_user"],
        "agent": row["of_agent"],
        "app": row["of_app"],
        "run": row["of_run"],
        "workspace": row["workspace_id"],
        "company": row["company_id"],
    }
    # What else the row has, the model leaves aside.
    return Memory.model_validate({**row, **named})


def scope_parameters(where: Where) -> dict[str, Any]:
    """What ``private.memories_in`` takes."""
    entities, compiled = where.entities, Compiled()
    # An empty list, for one, is no filter, and is refused.
    if where.filters not in (None, {}):
        compiled = compile_filter(where.filters)
        entities = _both(entities, Entities(compiled.user, compiled.agent, compiled.app, compiled.run))
    return {
        "workspace": where.workspace,
        **entities.parameters,
        "expired": where.expired,
        "superseded": where.superseded,
        "path": compiled.path,
        "values": Jsonb(compiled.values) if compiled.path is not None else None,
    }


def _both(named: Entities, filtered: Entities) -> Entities:
    pairs = {
        name: (getattr(named, name), getattr(filtered, name)) for name in ("user", "agent", "app", "run")
    }
    for name, (one, other) in pairs.items():
        if one is not None and other is not None and one != other:
            raise InvalidInput(f"{name} is asked for as two different ones, once in the filters.")
    return Entities(**{name: one if one is not None else other for name, (one, other) in pairs.items()})


async def embedded(tx: Transaction, embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The vectors of texts. Who is asking is settled before any work is done for them, and nothing is held
    meanwhile, which can take another server."""
    vectors = embedder.remembered(texts)
    if vectors is None:
        await tx.one(queries.whose, last=True)
        await tx.finish()
        vectors = await embedder.embed(texts)
    return vectors


class Vector:
    """A vector on its way into a statement."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: NDArray[np.float32]) -> None:
        self.numbers = numbers


class _AsText(Dumper):
    def dump(self, obj: Vector) -> bytes:
        return vector_text(obj.numbers).encode()


class _AsBytes(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vector) -> bytes:
        return struct.pack(">HH", len(obj.numbers), 0) + obj.numbers.astype(">f4").tobytes()


for _dumper in (_AsText, _AsBytes):
    adapters.register_dumper(Vector, _dumper)
Connection.sent_in_binary.add(Vector)


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector as Postgres reads it, to the last digit that a float of four bytes has."""
    return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def digest(*parts: Any) -> bytes:
    """What tells one memory from another; its parts as JSON, so that none can run into the next."""
    text = json.dumps(parts, ensure_ascii=False, default=str, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def ids_of(rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    return [row["id"] for row in rows]
