"""Rows of memories, read and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from recollect.db.queries import Queries
from recollect.engine.filters import compile_filter
from recollect.engine.models import Entities, Memory, Where
from recollect.errors import InvalidInput

queries = Queries(__package__)
M = TypeVar("M", bound=Memory)

_RENAMED = {
    "of_user": "user",
    "of_agent": "agent",
    "of_app": "app",
    "of_run": "run",
    "workspace_id": "workspace",
    "company_id": "company",
}


def memory_from(row: Mapping[str, Any], kind: type[M], **more: Any) -> M:
    return kind.model_validate({**{_RENAMED.get(name, name): value for name, value in row.items()}, **more})


def scope_parameters(where: Where) -> dict[str, Any]:
    """What ``private.memories_in`` takes."""
    compiled = compile_filter(where.filters)
    return {
        "workspace": where.workspace,
        **_both(
            where.entities, Entities(compiled.user, compiled.agent, compiled.app, compiled.run)
        ).parameters,
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


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector as Postgres reads it. Seven digits are what a float of four bytes has."""
    numbers = vector.tolist()
    return f"[{_template(len(numbers)) % tuple(numbers)}]"


@lru_cache
def _template(dimension: int) -> str:
    # All numbers by one format: a search would spend more on them one by one than on its ranking.
    return ",".join(["%.7g"] * dimension)


def digest(*parts: Any) -> bytes:
    """What tells one memory from another; its parts as JSON, so that none can run into the next."""
    text = json.dumps(parts, ensure_ascii=False, default=str, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def ids_of(rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    return [row["id"] for row in rows]
