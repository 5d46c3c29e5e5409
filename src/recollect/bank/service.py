"""What can be done with the bank; the only door to it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from recollect.bank.models import (
    DEFAULT_NAMESPACE,
    Append,
    Entry,
    Key,
    Namespace,
    NamespaceSummary,
    Put,
)
from recollect.bank.store import BankStore, queries
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.redis.cache import ReadCache

PAGE = 1_000
PURGE_BATCH = 5_000
RESEAL_BATCH = 500
_LOWEST_ID = UUID(int=0)

_key: TypeAdapter[str] = TypeAdapter(Key)
_namespace: TypeAdapter[str] = TypeAdapter(Namespace)
_summaries: TypeAdapter[list[NamespaceSummary]] = TypeAdapter(list[NamespaceSummary])


class NotAList(Conflict):
    """The value under that key is not a list, so nothing can be appended to it."""

    code = "not_a_list"


class UnknownKey(NotFound):
    """There is nothing under that key in this namespace."""

    code = "unknown_key"


class Bank:
    def __init__(self, store: BankStore, retention: dict[str, int], cache: ReadCache) -> None:
        self._store = store
        self._retention = retention
        self._cache = cache

    async def get_memory(
        self,
        tx: Transaction,
        user_id: UUID,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        after: str = "",
        limit: int = PAGE,
    ) -> list[Entry]:
        """A user's entries in a namespace, by key."""
        namespace = _valid(_namespace, "namespace", namespace)
        return await self._store.entries(tx, user_id, namespace, after=after, limit=limit)

    async def get_memory_key(
        self, tx: Transaction, user_id: UUID, key: str, namespace: str = DEFAULT_NAMESPACE
    ) -> Entry:
        """One entry; an error if there is none."""
        place = _valid(_namespace, "namespace", namespace), _valid(_key, "key", key)
        entry = await self._store.get(tx, user_id, *place)
        if entry is None:
            raise UnknownKey
        return entry

    async def set_memory_key(
        self,
        tx: Transaction,
        user_id: UUID,
        key: str,
        value: Any,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Entry:
        """Create or replace the value under a key."""
        place = _valid(_namespace, "namespace", namespace), _valid(_key, "key", key)
        self._forget(tx, user_id)
        return await self._store.put(tx, user_id, *place, value)

    async def delete_memory_key(
        self, tx: Transaction, user_id: UUID, key: str, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Delete one entry; an error if there is none."""
        place = _valid(_namespace, "namespace", namespace), _valid(_key, "key", key)
        self._forget(tx, user_id)
        if not await self._store.delete(tx, user_id, *place):
            raise UnknownKey

    async def append(self, tx: Transaction, user_id: UUID, wanted: Append) -> Entry:
        """Add to the list under a key, keeping its last entries. Writers take turns; none is lost."""
        place = (user_id, wanted.namespace, wanted.key)
        items = await self._store.lock(tx, *place, default=[])
        if not isinstance(items, list):
            raise NotAList
        self._forget(tx, user_id)
        return await self._store.put(tx, *place, [*items, wanted.item][-wanted.keep :])

    async def put(self, tx: Transaction, user_id: UUID, wanted: Put) -> Entry:
        self._forget(tx, user_id)
        return await self._store.put(tx, user_id, wanted.namespace, wanted.key, wanted.value)

    async def namespaces(
        self, tx: Transaction, user_id: UUID, *, after: str = "", limit: int = PAGE
    ) -> list[NamespaceSummary]:
        """The namespaces that a user has entries in."""

        async def read() -> list[NamespaceSummary]:
            async with tx.going_on() as source:
                return await self._store.namespaces(source, user_id, after=after, limit=limit)

        # What this transaction has written is nobody else's to see yet. And the database decides first who
        # is asking: the cache knows whose values these are, not who may see them.
        if not self._cache.is_configured or tx.has_afterwards or await self._store.whose(tx) != user_id:
            return await read()

        async def load() -> bytes:
            return _summaries.dump_json(await read())

        key = json.dumps(["namespaces", after, limit])
        return _summaries.validate_json(await self._cache.read(user_id, "bank", key, load))

    async def everything(
        self,
        tx: Transaction,
        user_id: UUID,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = PAGE,
    ) -> list[Entry]:
        """A user's entries in all namespaces."""
        return await self._store.all_entries(tx, user_id, after=after, limit=limit)

    async def clear(self, tx: Transaction, user_id: UUID, namespace: str | None = None) -> int:
        """Delete a user's entries, in one namespace or in all; says how many."""
        self._forget(tx, user_id)
        return await self._store.delete_all(tx, user_id, namespace)

    def _forget(self, tx: Transaction, user_id: UUID) -> None:
        # Whoever writes finds it when they read next; others' writes are heard of by event.
        if self._cache.is_configured:
            tx.afterwards(lambda: self._cache.forget(user_id, "bank"))

    async def purge(self, tenancy: Tenancy) -> int:
        """Delete what has outlived its namespace's retention, a bounded batch per transaction."""
        purged = 0
        for namespace, days in self._retention.items():
            parameters = {"namespace": namespace, "age": timedelta(days=days), "batch": PURGE_BATCH}
            while True:
                async with tenancy.acting_as(SERVICE) as tx:
                    gone = await tx.run(queries.purge_namespace, parameters, last=True)
                purged += gone
                if gone < PURGE_BATCH:
                    break
        return purged

    async def reseal(self, tenancy: Tenancy) -> int:
        """Bring stored values into the form that the settings ask for now: sealed with the newest key,
        or plain. Readers go on meanwhile, since old and new forms are both understood."""
        resealed, position = 0, _LOWEST_ID
        while True:
            async with tenancy.acting_as(SERVICE) as tx:
                count, position = await self._store.reseal(tx, after=position, batch=RESEAL_BATCH)
            resealed += count
            if count < RESEAL_BATCH:
                return resealed


def _valid(adapter: TypeAdapter[str], name: str, given: str) -> str:
    try:
        return adapter.validate_python(given, strict=True)
    except ValidationError as error:
        raise InvalidInput(f"{name}: {error.errors()[0]['msg']}.") from error
