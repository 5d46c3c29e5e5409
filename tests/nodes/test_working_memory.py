"""Memory nodes whose values are forgotten after a while, and the job that clears them away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import httpx
import psycopg
import pytest

from recollect.bootstrap import Services
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.api.working import until_ended, working
from tests.conftest import Person, make_settings
from tests.nodes.conformance import At, Conformance, rows_of_nodes

pytestmark = pytest.mark.anyio

CRON_SECRET = "the secret of the crons"
PURGE = "/api/cron/working-memory-purge"
DAY = 24 * 3_600


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    # Once a year, so that no test meets the end of a period.
    yearly = {"working-memory-purge": "0 0 1 1 *"}
    return make_settings(home, database_url, cron_secret=CRON_SECRET, schedule=yearly)


class TestConformance(Conformance):
    memory_type = "WORKING_MEMORY"
    config: ClassVar = {"ttl_seconds": 600}
    other_config: ClassVar = {"ttl_seconds": 60}
    items: ClassVar = [{"key": "plan", "value": ["read", "write"]}, {"key": "step", "value": 3}]
    the_first: ClassVar = {"key": "plan"}

    def shown(self, answer: Any) -> list[Any]:
        return [{"key": each["key"], "value": each["value"]} for each in answer["entries"]]


@pytest.fixture
async def node(ana: Person) -> At:
    defined = At(ana)
    await defined.define("WORKING_MEMORY", {"ttl_seconds": DAY})
    return defined


@pytest.fixture
async def as_admin(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


async def end(connection: psycopg.AsyncConnection[Any], key: str) -> None:
    """Let that value's time be over."""
    await connection.execute(
        "update memory_data set created_at = now() - interval '1 day',"
        " expires_at = now() - interval '1 second' where key = %s",
        [key],
    )


def lifetime(entry: dict[str, Any]) -> float:
    ends, since = (datetime.fromisoformat(entry[name]) for name in ("expires_at", "updated_at"))
    return (ends - since).total_seconds()


def keys(answer: Any) -> list[str]:
    return [each["key"] for each in answer["entries"]]


async def test_a_value_lasts_as_long_as_its_node_says_or_as_it_says_itself(node: At) -> None:
    assert lifetime(await node.store({"key": "k", "value": 1})) == DAY
    assert lifetime(await node.store({"key": "k", "value": 1, "ttl_seconds": 5})) == 5
    assert lifetime(await node.store({"key": "k", "value": 1, "ttl_seconds": None})) == DAY


async def test_a_node_that_says_nothing_keeps_for_an_hour(ana: Person) -> None:
    node = At(ana)
    assert (await node.define("WORKING_MEMORY", {}))["config"] == {"ttl_seconds": 3_600}
    assert lifetime(await node.store({"key": "k", "value": 1})) == 3_600


async def test_another_lifetime_holds_for_what_is_stored_from_then_on(node: At) -> None:
    await node.store({"key": "before", "value": 1})
    await node.define("WORKING_MEMORY", {"ttl_seconds": 7})
    await node.store({"key": "then", "value": 1})

    before, then = (await node.retrieve())["entries"]
    assert (lifetime(before), lifetime(then)) == (DAY, 7)


@pytest.mark.parametrize("seconds", [0, -1, 366 * DAY + 1, "60", 1.5, True])
async def test_a_lifetime_that_is_none_is_refused(node: At, seconds: Any) -> None:
    wanted = {"memory_type": "WORKING_MEMORY", "config": {"ttl_seconds": seconds}}
    answers = [
        await node.http.put(node.path, json=wanted),
        await node.ask("store", {"key": "k", "value": 1, "ttl_seconds": seconds}),
    ]
    for answer in answers:
        problem = assert_problem(answer, 422, "invalid_input")
        assert [each["field"] for each in problem["errors"]] == ["ttl_seconds"]
    assert keys(await node.retrieve()) == []


async def test_what_has_had_its_time_is_not_shown_even_before_the_purge(
    node: At, as_admin: psycopg.AsyncConnection[Any], database_url: str
) -> None:
    for key in ("over", "still"):
        await node.store({"key": key, "value": 1})
    await end(as_admin, "over")

    assert keys(await node.retrieve()) == ["still"]
    assert keys(await node.retrieve(key="over")) == []
    assert keys(await node.retrieve(prefix="o")) == []
    assert (await node.retrieve(limit=1))["next"] is None
    assert await rows_of_nodes(database_url) == 3  # the node, and both values


async def test_what_is_stored_over_it_is_a_new_one(node: At, as_admin: psycopg.AsyncConnection[Any]) -> None:
    await node.store({"key": "k", "value": "old"})
    await end(as_admin, "k")

    fresh = await node.store({"key": "k", "value": "new"})

    assert fresh["created_at"] == fresh["updated_at"]
    assert lifetime(fresh) == DAY
    assert (await node.retrieve())["entries"] == [fresh]


async def test_forgetting_counts_what_was_there_to_be_seen_and_leaves_nothing(
    node: At, as_admin: psycopg.AsyncConnection[Any], database_url: str
) -> None:
    for key in ("over", "still"):
        await node.store({"key": key, "value": 1})
    await end(as_admin, "over")

    assert await node.forget() == 1
    assert await rows_of_nodes(database_url) == 1  # the node


# The purge


async def test_the_purge_takes_batch_after_batch_and_leaves_the_living(
    node: At, services: Services, ana: Person, as_admin: psycopg.AsyncConnection[Any]
) -> None:
    lasting = At(ana, "lasting")
    await lasting.define("KEY_VALUE_STORE", {})
    for place in (node, lasting):
        await place.store({"key": "living", "value": 1})
    await as_admin.execute(
        "insert into memory_data (user_id, memory_node_id, key, value, expires_at)"
        " select %s, 'scratch', n::text, '1', now() - interval '1 second' from generate_series(1, 5001) n",
        [ana.id],
    )

    assert await services.nodes.purge(services.tenancy) == 5_001

    left = await (await as_admin.execute("select memory_node_id, key from memory_data order by 1")).fetchall()
    assert left == [("lasting", "living"), ("scratch", "living")]
    assert await services.nodes.purge(services.tenancy) == 0


async def test_an_outside_scheduler_has_it_done_once_in_its_period(
    node: At, services: Services, anonymous: httpx.AsyncClient, as_admin: psycopg.AsyncConnection[Any]
) -> None:
    for key in ("over", "still"):
        await node.store({"key": key, "value": 1})
    await end(as_admin, "over")
    assert_problem(await anonymous.post(PURGE), 401, "wrong_secret")
    anonymous.headers["Authorization"] = f"Bearer {CRON_SECRET}"

    first = await anonymous.post(PURGE)
    async with working(services):
        ended = await until_ended(services, UUID(first.json()["run"]))
    again = await anonymous.post(PURGE)

    assert (first.status_code, ended.state, ended.result) == (202, "succeeded", {"purged": 1})
    assert (again.status_code, again.json()) == (200, {**first.json(), "is_new": False})
    left = await (await as_admin.execute("select key from memory_data")).fetchall()
    assert left == [("still",)]
