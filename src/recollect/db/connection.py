"""A connection that sends a transaction's opening together with its first statement, in one message.

Both are prepared in the session when it first meets them, so that Postgres need not plan them again.
Behind a pooler in transaction mode a session changes hands, and what is prepared in it with it. That
shows at once, before anything has happened: then the statements are sent in full, from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from secrets import token_hex
from typing import Any, ClassVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from recollect.db.queries import Queries, Query
from recollect.kit.logs import logger

log = logger("db")

_queries = Queries(__package__)

Cursor = psycopg.AsyncCursor[DictRow]


class Connection(psycopg.AsyncConnection[DictRow]):
    # For all connections of the process: if one is behind a pooler, all are.
    sessions_change_hands: ClassVar[bool] = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The same values as json.loads, thirty times as fast for an empty object; most rows have one.
        set_json_loads(from_json, self)
        self._executes: dict[Query, str] = {}
        # No other connection may use a name of ours: behind a pooler it would get our statement.
        self._mark = token_hex(6)
        self._numbers = count()

    async def open_with(
        self, opening: Query, role: str, query: Query, parameters: Mapping[str, Any], *, begin: bool
    ) -> tuple[DictRow | None, Cursor]:
        """The opening's row, and a cursor on the answer to the query. ``role`` is what the opening makes
        us: only in it may we so much as name what the query uses.

        Statements in one message are one transaction in themselves: unless more is to follow in it, it
        needs no ``begin``.
        """
        if not Connection.sessions_change_hands:
            try:
                prepared = await self._execution_of(opening, None), await self._execution_of(query, role)
                return await self._send(*prepared, parameters, begin=begin)
            except psycopg.errors.InvalidSqlStatementName:
                log.warning("sessions change hands: statements are sent in full from now on")
                Connection.sessions_change_hands = True
                await self._undo()
            except psycopg.errors.FeatureNotSupported:
                # A migration has changed what a prepared statement answers with.
                await self._undo()
                await self.execute("deallocate all")
                self._executes.clear()
        return await self._send(opening.text, query.text, parameters, begin=begin)

    async def _execution_of(self, query: Query, role: str | None) -> str:
        """What executes the query, which is prepared if this session has not met it before.

        By a message of its own: what comes with data can fail, and would leave the statement behind.
        """
        if known := self._executes.get(query):
            return known
        name = f"{query.name[:30]}_{self._mark}_{next(self._numbers)}"
        become = f"{_queries.become.text};\n" if role else ""
        await self.execute(f"{become}{query.prepare_as(name)}".encode(), {"role_": role})
        self._executes[query] = query.execute_as(name)
        return self._executes[query]

    async def _send(
        self, opening: str, work: str, parameters: Mapping[str, Any], *, begin: bool
    ) -> tuple[DictRow | None, Cursor]:
        start = "begin;\n" if begin else ""
        cursor = await self.execute(f"{start}{opening};\n{work}".encode(), parameters)
        if begin:
            cursor.nextset()
        row = await cursor.fetchone()
        cursor.nextset()
        return row, cursor

    async def _undo(self) -> None:
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            await self.execute("rollback")
