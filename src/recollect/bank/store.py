"""Rows of ``user_memory``, read and written."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from recollect.bank.models import Entry, NamespaceSummary, serialised
from recollect.bank.sealing import Sealer
from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.kit.logs import logger
from recollect.kit.secret import UnsealError

queries = Queries(__package__)
log = logger("bank")


class BankStore:
    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    async def entries(
        self, tx: Transaction, user_id: UUID, namespace: str, *, after: str, limit: int
    ) -> list[Entry]:
        parameters = {"user_id": user_id, "namespace": namespace, "after": after, "limit": limit}
        return [self._entry(row) for row in await tx.all(queries.list_entries, parameters, last=True)]

    async def all_entries(
        self, tx: Transaction, user_id: UUID, *, after: tuple[str, str], limit: int
    ) -> list[Entry]:
        rows = await tx.all(
            queries.list_all_entries,
            {
                "user_id": user_id,
                "after_namespace": after[0],
                "after_key": after[1],
                "limit": limit,
            },
            last=True,
        )
        return [self._entry(row) for row in rows]

    async def namespaces(
        self, tx: Transaction, user_id: UUID, *, after: str, limit: int
    ) -> list[NamespaceSummary]:
        parameters = {"user_id": user_id, "after": after, "limit": limit}
        rows = await tx.all(queries.list_namespaces, parameters, last=True)
        return [NamespaceSummary(**row) for row in rows]

    async def whose(self, tx: Transaction) -> UUID | None:
        """Whom the transaction acts for, confirmed by the database; None: the service."""
        found: UUID | None = (await tx.one(queries.whose, last=True))["id"]
        return found

    async def get(self, tx: Transaction, user_id: UUID, namespace: str, key: str) -> Entry | None:
        parameters = {"user_id": user_id, "namespace": namespace, "key": key}
        row = await tx.maybe(queries.get_entry, parameters, last=True)
        return self._entry(row) if row else None

    async def put(self, tx: Transaction, user_id: UUID, namespace: str, key: str, value: Any) -> Entry:
        stored = self._sealer.to_store(serialised(value), user_id, namespace, key)
        parameters = {"user_id": user_id, "namespace": namespace, "key": key, "value": stored}
        return self._entry(await tx.one(queries.put_entry, parameters, last=True))

    async def lock(self, tx: Transaction, user_id: UUID, namespace: str, key: str, default: Any) -> Any:
        """The value under a key, put there if missing; nobody else writes it until we are done."""
        stored = self._sealer.to_store(serialised(default), user_id, namespace, key)
        parameters = {"user_id": user_id, "namespace": namespace, "key": key, "value": stored}
        row = await tx.one(queries.lock_entry, parameters)
        return self._open(row["value"], user_id, namespace, key)

    async def delete(self, tx: Transaction, user_id: UUID, namespace: str, key: str) -> bool:
        parameters = {"user_id": user_id, "namespace": namespace, "key": key}
        return await tx.run(queries.delete_entry, parameters, last=True) == 1

    async def delete_all(self, tx: Transaction, user_id: UUID, namespace: str | None) -> int:
        parameters = {"user_id": user_id, "namespace": namespace}
        return await tx.run(queries.delete_entries, parameters, last=True)

    async def reseal(self, tx: Transaction, *, after: UUID, batch: int) -> tuple[int, UUID]:
        """Bring a batch of values into the form that the settings ask for; say how many, up to where."""
        rows = await tx.all(
            queries.entries_to_reseal,
            {
                "after": after,
                "batch": batch,
                "sealed_namespaces": list(self._sealer.namespaces),
                "current_mark": self._sealer.current_mark,
            },
        )
        for row in rows:
            place = (row["user_id"], row["namespace"], row["key"])
            try:
                plain = self._sealer.from_store(row["value"], *place)
            except UnsealError:
                # One value that nobody can open must not keep all others from a new key.
                log.warning("a value cannot be opened and stays as it is", entry=str(row["id"]))
                continue
            fresh = self._sealer.to_store(plain, *place)
            await tx.run(queries.rewrite_value, {"id": row["id"], "value": fresh})
        return len(rows), rows[-1]["id"] if rows else after

    def _entry(self, row: dict[str, Any]) -> Entry:
        value = self._open(row["value"], row["user_id"], row["namespace"], row["key"])
        # Postgres has checked these columns' types; checking them again doubles the cost of a read.
        return Entry.model_construct(**{**row, "value": value})

    def _open(self, stored: str | None, user_id: UUID, namespace: str, key: str) -> Any:
        if stored is None:
            return None
        return json.loads(self._sealer.from_store(stored, user_id, namespace, key))
