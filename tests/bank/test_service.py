"""The bank's helpers in Python, retention, and sealed namespaces."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recollect.access.models import NewUser
from recollect.bank.models import Append, serialised
from recollect.bank.sealing import InvalidEncryptionKeys, Sealer
from recollect.bank.service import Bank, UnknownKey
from recollect.bank.store import BankStore
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.errors import InvalidInput, MalformedRequest
from recollect.kit.secret import UnsealError
from recollect.kit.text import strict_json
from recollect.redis.cache import ReadCache
from recollect.redis.link import RedisLink
from recollect.settings import Settings
from tests.conftest import make_settings

pytestmark = pytest.mark.anyio

OLD = f"old:{base64.b64encode(b'o' * 32).decode()}"
NEW = f"new:{base64.b64encode(b'n' * 32).decode()}"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(
        home,
        database_url,
        bank_retention_days={"brief": 30},
        bank_encrypted_namespaces="health",
        bank_encryption_keys=OLD,
    )


@pytest.fixture
async def user(services: Services) -> UUID:
    return (await services.access.create_user(NewUser(email="ana@example.com"))).id


@pytest.fixture
async def stored(database_url: str) -> AsyncIterator[Any]:
    """What the table really holds."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:

        async def value(key: str) -> str:
            cursor = await connection.execute("select value from user_memory where key = %s", (key,))
            row = await cursor.fetchone()
            assert row is not None
            return str(row[0])

        value.connection = connection  # type: ignore[attr-defined]
        yield value


async def test_the_helpers_round_trip(services: Services, user: UUID) -> None:
    bank = services.bank
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await bank.set_memory_key(tx, user, "tone", {"warm": True}, "prefs")
        assert (await bank.get_memory_key(tx, user, "tone", "prefs")).value == {"warm": True}
        assert [entry.key for entry in await bank.get_memory(tx, user, "prefs")] == ["tone"]
        await bank.delete_memory_key(tx, user, "tone", "prefs")
        with pytest.raises(UnknownKey):
            await bank.get_memory_key(tx, user, "tone", "prefs")


@pytest.mark.parametrize(
    ("key", "value", "namespace"),
    [
        ("", 1, "n"),
        ("k" * 257, 1, "n"),
        ("k", 1, ""),
        ("k\x00", 1, "n"),
        ("k", 1, "n\ud800"),
        ("k", float("nan"), "n"),
        ("k", 2**64, "n"),
        ("k", {1: "a key that is not text"}, "n"),
        ("k", {"not": {"json"}}, "n"),
        ("k", "x" * 10_239, "n"),
        (7, 1, "n"),
    ],
)
async def test_the_helpers_raise_on_invalid_input(
    services: Services, user: UUID, key: Any, value: Any, namespace: str
) -> None:
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        with pytest.raises((InvalidInput, MalformedRequest)):
            await services.bank.set_memory_key(tx, user, key, value, namespace)
        assert await services.bank.everything(tx, user) == []


async def test_only_what_has_outlived_its_namespaces_retention_is_purged(
    services: Services, user: UUID, stored: Any
) -> None:
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        for namespace in ("brief", "lasting"):
            for key in ("old", "new"):
                await services.bank.set_memory_key(tx, user, key, 1, namespace)
    await stored.connection.execute(
        "update user_memory set updated_at = now() - interval '31 days' where key = 'old'"
    )

    assert await services.bank.purge(services.tenancy) == 1
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        left = [(entry.namespace, entry.key) for entry in await services.bank.everything(tx, user)]
    assert left == [("brief", "new"), ("lasting", "new"), ("lasting", "old")]


async def test_a_sealed_namespace_is_unreadable_in_the_database(
    services: Services, user: UUID, stored: Any
) -> None:
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await services.bank.set_memory_key(tx, user, "sealed", "migraine", "health")
        await services.bank.append(tx, user, Append(key="list", item="migraine", namespace="health"))
        await services.bank.append(tx, user, Append(key="list", item="again", namespace="health"))
        await services.bank.set_memory_key(tx, user, "plain", "migraine", "other")
        assert (await services.bank.get_memory_key(tx, user, "sealed", "health")).value == "migraine"
        assert (await services.bank.get_memory_key(tx, user, "list", "health")).value == ["migraine", "again"]
    assert "migraine" not in await stored("sealed") + await stored("list")
    assert await stored("plain") == '"migraine"'


async def test_the_largest_value_fits_sealed_too(services: Services, user: UUID) -> None:
    largest = "x" * 10_238
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await services.bank.set_memory_key(tx, user, "k", largest, "health")
        assert (await services.bank.get_memory_key(tx, user, "k", "health")).value == largest


async def test_a_key_is_rotated_without_a_moment_of_unreadable_values(
    services: Services, user: UUID, stored: Any
) -> None:
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        await services.bank.set_memory_key(tx, user, "k", "migraine", "health")
        await services.bank.set_memory_key(tx, user, "late", "plain so far", "diary")

    rotating = Bank(BankStore(Sealer(("health", "diary"), (NEW, OLD))), {}, ReadCache(RedisLink(None)))
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        assert (await rotating.get_memory_key(tx, user, "k", "health")).value == "migraine"
        before = await rotating.get_memory_key(tx, user, "k", "health")
    assert await rotating.reseal(services.tenancy) == 2
    assert await rotating.reseal(services.tenancy) == 0

    rotated = Bank(BankStore(Sealer(("health", "diary"), (NEW,))), {}, ReadCache(RedisLink(None)))
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        after = await rotated.get_memory_key(tx, user, "k", "health")
        assert (after.value, after.updated_at) == ("migraine", before.updated_at)
        assert (await rotated.get_memory_key(tx, user, "late", "diary")).value == "plain so far"
    assert "plain" not in await stored("late")

    opened = Bank(BankStore(Sealer((), (NEW,))), {}, ReadCache(RedisLink(None)))
    assert await opened.reseal(services.tenancy) == 2
    assert await stored("k") == '"migraine"'


async def test_a_sealed_value_does_not_open_elsewhere_or_without_its_key() -> None:
    sealer = Sealer(("n",), (OLD,))
    ana, ben = uuid4(), uuid4()
    sealed = sealer.to_store("1", ana, "n", "k")
    assert sealer.from_store(sealed, ana, "n", "k") == "1"
    for place in ((ben, "n", "k"), (ana, "other", "k"), (ana, "n", "other")):
        with pytest.raises(UnsealError):
            sealer.from_store(sealed, *place)
    with pytest.raises(UnsealError):
        Sealer((), (NEW,)).from_store(sealed, ana, "n", "k")
    with pytest.raises(UnsealError):
        sealer.from_store(sealed[:-8] + "AAAAAAA=", ana, "n", "k")


@pytest.mark.parametrize("keys", [(), ("no colon",), ("short:AAAA",), ("bad:!!!",), (f":{OLD[4:]}",)])
def test_unusable_keys_are_refused_at_the_start(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidEncryptionKeys):
        Sealer(("n",), keys)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_survives_text_and_sealing(value: Any) -> None:
    text = serialised(value)
    assert json.loads(text) == strict_json(text.encode()) == value
    sealer, user = Sealer(("n",), (OLD,)), uuid4()
    assert sealer.from_store(sealer.to_store(text, user, "n", "k"), user, "n", "k") == text


@pytest.mark.parametrize("days", [0, -1, 10**10])
def test_a_retention_that_would_empty_a_namespace_or_never_end_is_refused(days: int) -> None:
    with pytest.raises(ValidationError):
        Settings(bank_retention_days={"prefs": days}, _env_file=None)
