"""Histories of arbitrary documents, through the database and back, byte for byte."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.profile.canonical import canonical
from recollect.settings import Settings
from tests.conftest import make_settings

pytestmark = pytest.mark.anyio

HISTORIES = 1_000
KEYS = ("a", "b", "0", "1", "", "~", "/", "~1", "é", "\U0001f600", "￿", "a/b", "-")
SCALARS = (
    *(None, True, False, 0, 1, -1, 0.0, 1.0, 0.1, 1e-7, 1e16, 1e22, -1.5e300, 5e-324, 2**63 - 1, -(2**63)),
    *("", "1", "true", "~0", "é\U0001f600", '"\\\b\f', "\x7f", "x" * 300),
)


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, profile_checkpoint_every=4)


def anything(chance: random.Random, depth: int = 3) -> Any:
    kind = chance.randrange(5) if depth else 0
    if kind <= 2:
        return chance.choice(SCALARS)
    if kind == 3:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(5))]
    return {chance.choice(KEYS): anything(chance, depth - 1) for _ in range(chance.randrange(5))}


def changed(chance: random.Random, value: Any) -> Any:
    """Somewhat another value: something added, removed, moved or replaced somewhere inside."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        if chance.random() < 0.3:
            return {other: each for other, each in value.items() if other != key}
        return {**value, key: changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place, copy = chance.randrange(len(value)), list(value)
        match chance.randrange(4):
            case 0:
                copy.insert(place, anything(chance, 2))
            case 1:
                del copy[place]
            case 2:
                copy.insert(chance.randrange(len(value)), copy.pop(place))
            case _:
                copy[place] = changed(chance, copy[place])
        return copy
    return anything(chance)


async def versions_of(
    services: Services, tx: Transaction, user_id: Any, chance: random.Random
) -> AsyncIterator[bytes]:
    """Write a history; each version as it was stored."""
    document = {**services.profile.schema.empty, "x": anything(chance)}
    for _ in range(chance.randrange(3, 9)):
        saved = await services.profile.replace(tx, user_id, document)
        if saved.document["version"] > document.get("version", 0):
            yield canonical(saved.document)
        document = {**saved.document, "x": changed(chance, saved.document["x"])}


async def test_a_thousand_histories_come_back_at_every_version_byte_for_byte(services: Services) -> None:
    async with services.tenancy.acting_as(SERVICE) as tx:
        users = [await store.add_user(tx, f"user-{number}@example.com", None) for number in range(HISTORIES)]
    compared = 0
    for number, user_id in enumerate(users):
        chance = random.Random(number)
        async with services.tenancy.acting_as(Caller.user(user_id)) as tx:
            written = [each async for each in versions_of(services, tx, user_id, chance)]
        async with services.tenancy.acting_as(Caller.user(user_id)) as tx:
            for version, expected in enumerate(written, 1):
                found = await services.profile.reconstruct_memory(tx, user_id, version=version)
                assert canonical(found.document) == expected
                compared += 1
    assert compared > 3 * HISTORIES
