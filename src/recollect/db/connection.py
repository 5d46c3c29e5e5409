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

from recollect.db.queries import Query
from recollect.kit.logs import logger

log = logger("db")

Cursor = psycopg.AsyncCursor[DictRow]


class Connection(psycopg.AsyncConnection[DictRow]):
    # For all connections of the process: if one is behind a pooler, all are.
    sessions_change_hands: ClassVar[bool] = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._executes: dict[Query, str] = {}
        # No other connection may use a name of ours: behind a pooler it would get our statement.
        self._mark = token_hex(6)
        self._numbers = count()

    async def open_with(
        self, opening: Query, query: Query, parameters: Mapping[str, Any], *, begin: bool
    ) -> tuple[DictRow | None, Cursor]:
        """The opening's row, and a cursor on the answer to the query.

        Statements in one message are one transaction in themselves: unless more is to follow in it, it
        needs no ``begin``.
        """
        start = ["begin"] if begin else []
        if not Connection.sessions_change_hands:
            try:
                return await self._send_prepared(start, opening, query, parameters)
            except psycopg.errors.InvalidSqlStatementName:
                log.warning("sessions change hands: statements are sent in full from now on")
                Connection.sessions_change_hands = True
                if self.pgconn.transaction_status != TransactionStatus.IDLE:
                    await self.execute("rollback")
        return await self._send([*start, opening.text], [query.text], parameters)

    async def _send_prepared(
        self, start: list[str], opening: Query, query: Query, parameters: Mapping[str, Any]
    ) -> tuple[DictRow | None, Cursor]:
        new: dict[Query, str] = {}

        def steps(each: Query) -> list[str]:
            if known := self._executes.get(each):
                return [known]
            name = f"{each.name[:30]}_{self._mark}_{next(self._numbers)}"
            new[each] = each.execute_as(name)
            return [each.prepare_as(name), new[each]]

        answer = await self._send([*start, *steps(opening)], steps(query), parameters)
        # Only now is it certain that they were prepared; after an error they get new names.
        self._executes.update(new)
        return answer

    async def _send(
        self, opening: list[str], work: list[str], parameters: Mapping[str, Any]
    ) -> tuple[DictRow | None, Cursor]:
        cursor = await self.execute(";\n".join(opening + work).encode(), parameters)
        for _ in opening[1:]:
            cursor.nextset()
        row = await cursor.fetchone()
        for _ in work:
            cursor.nextset()
        return row, cursor
