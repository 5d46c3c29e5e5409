"""Every statement in every queries.sql is one that Postgres accepts on the migrated schema."""

from __future__ import annotations

import importlib
import pkgutil
import re

import psycopg
import pytest

import recollect
from recollect.db.queries import Queries, Query

pytestmark = pytest.mark.anyio


def _all_queries() -> list[tuple[str, Query]]:
    found = []
    for module in pkgutil.walk_packages(recollect.__path__, "recollect."):
        if module.ispkg and importlib.resources.files(module.name).joinpath("queries.sql").is_file():
            found += [(module.name, query) for query in Queries(module.name)]
    return found


async def test_every_query_prepares(database_url: str) -> None:
    queries = _all_queries()
    assert len(queries) > 30
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, prepare_threshold=None
    ) as connection:
        await connection.execute("set search_path = public, extensions")
        for package, query in queries:
            try:
                await connection.execute(f"prepare {query.name} as ".encode() + query.numbered)
            except psycopg.Error as error:
                pytest.fail(f"{package} {query.name}: {error}")
            await connection.execute("deallocate all")


def test_every_query_says_what_it_is_for() -> None:
    for package, query in _all_queries():
        assert query.purpose.endswith("."), f"{package} {query.name}"


def test_names_are_unique_within_a_file() -> None:
    for package in {package for package, _ in _all_queries()}:
        text = importlib.resources.files(package).joinpath("queries.sql").read_text()
        names = re.findall(r"^-- ([a-z_]+)\n-- ", text, re.MULTILINE)
        assert len(names) == len(set(names)), package
