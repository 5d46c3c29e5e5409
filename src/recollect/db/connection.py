"""A connection that sends a transaction's opening together with its first statement, in one round trip.

Both are prepared in the session when it first meets them, so that Postgres need not plan them again, and
their values travel beside their text. Behind a pooler in transaction mode a session may change hands, and
what is prepared in it with it. That shows at once, before anything has happened: then the statements are
sent in full, from there on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from secrets import token_hex
from typing import Any, ClassVar, NamedTuple

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import DictRow
from psycopg.types.json import set_json_loads
from psycopg.waiting import Ready, Wait
from pydantic_core import from_json

from recollect.db.doorbell import Doorbell
from recollect.db.queries import Queries, Query
from recollect.kit.logs import logger

log = logger("db")

# Seconds for Postgres to leave off a statement that nobody waits for any more.
_PATIENCE = 5.0

_queries = Queries(__package__)


class Answer(NamedTuple):
    """What Postgres answers to a statement."""

    rows: list[DictRow]
    touched: int
    """How many rows it touched."""


class Connection(psycopg.AsyncConnection[DictRow]):
    # For all connections of the process: if one is behind a pooler, all are.
    sessions_change_hands: ClassVar[bool] = False
    # What is sent in Postgres's own form. All else goes as text, which it reads as whatever type the
    # statement has there.
    sent_in_binary: ClassVar[set[type]] = {bytes}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The same values as json.loads, thirty times as fast for an empty object; most rows have one.
        set_json_loads(from_json, self)
        # One for all statements: it remembers how to read and write each type.
        self._values = Transformer(self)
        # The names by which the session knows them.
        self._statements: dict[Query, bytes] = {}
        # No other connection may use a name of ours: behind a pooler it would get our statement.
        self._mark = token_hex(6)
        self._numbers = count()
        self._doorbell: Doorbell | None = None

    async def open_with(
        self, opening: Query, role: str, query: Query, parameters: Mapping[str, Any], *, begin: bool
    ) -> tuple[str, Answer]:
        """The claims that the opening made, and the query's answer. ``role`` is what the opening makes us:
        only in it may we so much as name what the query uses.

        Statements sent together are one transaction in themselves: unless more is to follow in it, it
        needs no ``begin``.
        """
        if not Connection.sessions_change_hands:
            try:
                names = await self._prepare(opening, None), await self._prepare(query, role)
                values = self._written(opening, parameters), self._written(query, parameters)
                return await self._ask(names, values, begin=begin)
            except psycopg.errors.InvalidSqlStatementName:
                log.warning("sessions change hands: statements are sent in full from now on")
                Connection.sessions_change_hands = True
                await self._undo()
            except psycopg.errors.FeatureNotSupported:
                # A migration has changed what a prepared statement answers with.
                await self._undo()
                # Before, not after: who is cancelled meanwhile would leave names that mean nothing any more.
                self._statements.clear()
                await self.execute("deallocate all")
        return await self._ask_in_full(opening.text, query.text, parameters, begin=begin)

    async def ask(self, text: str, parameters: Mapping[str, Any] | None) -> Answer:
        """What a statement within a transaction answers; of several, the first."""
        cursor = await self.execute(text.encode(), parameters)
        assert cursor.pgresult is not None  # noqa: S101 - it was executed
        return self._read(cursor.pgresult)

    async def _prepare(self, query: Query, role: str | None) -> bytes:
        """By a message of its own: what comes with data can fail, and would leave the statement behind."""
        if known := self._statements.get(query):
            return known
        name = f"{query.name[:30]}_{self._mark}_{next(self._numbers)}".encode()

        def send(pgconn: PGconn) -> None:
            if role is not None:
                pgconn.send_query_params(_queries.become.numbered, [role.encode()])
            pgconn.send_prepare(name, query.numbered)

        await self._exchange(send)
        self._statements[query] = name
        return name

    async def _ask(
        self, names: Sequence[bytes], values: Sequence[tuple[Any, Any]], *, begin: bool
    ) -> tuple[str, Answer]:
        def send(pgconn: PGconn) -> None:
            if begin:
                pgconn.send_query_params(b"begin", None)
            for name, (written, formats) in zip(names, values, strict=True):
                pgconn.send_query_prepared(name, written, formats)

        opened, done = (await self._exchange(send))[-2:]
        return _claims(opened), self._read(done)

    async def _ask_in_full(
        self, opening: str, work: str, parameters: Mapping[str, Any], *, begin: bool
    ) -> tuple[str, Answer]:
        start = "begin;\n" if begin else ""
        cursor = await self.execute(f"{start}{opening};\n{work}".encode(), parameters)
        opened, done = [result.pgresult async for result in cursor.results() if result.pgresult][-2:]
        return _claims(opened), self._read(done)

    async def _exchange(self, send: Callable[[PGconn], None]) -> list[PGresult]:
        async with self.lock:
            try:
                _send_together(self.pgconn, send)
                if self.pgconn.flush():
                    await self.wait(_flushing(self.pgconn))
                results = await self._answered(_answers(self.pgconn))
            finally:
                if self.pgconn.status != ConnStatus.OK:
                    # Or Postgres would not see that it was broken off.
                    self._stop_listening()
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
        return results

    async def _answered(self, answers: PQGen[list[PGresult]]) -> list[PGresult]:
        if self._doorbell is None:
            self._doorbell = Doorbell(self.pgconn)
        try:
            return await self._doorbell.answered(answers)
        except asyncio.CancelledError:
            # Nobody waits for the answers any more; but until they are read, nothing else can be asked.
            try:
                await self.cancel_safe(timeout=_PATIENCE)
                await self.wait(answers, timeout=_PATIENCE)
            except psycopg.Error:
                self.pgconn.finish()
            raise

    async def close(self) -> None:
        self._stop_listening()
        await super().close()

    def _stop_listening(self) -> None:
        if self._doorbell is not None:
            self._doorbell.close()

    def _written(self, query: Query, parameters: Mapping[str, Any]) -> tuple[Any, Any]:
        """The query's values as they are sent, and in which form each is."""
        values = [parameters[name] for name in query.parameters]
        forms = [PyFormat.BINARY if type(value) in self.sent_in_binary else PyFormat.TEXT for value in values]
        return self._values.dump_sequence(values, forms), self._values.formats

    def _read(self, result: PGresult) -> Answer:
        # Each time: a pooler prepares our statement in other sessions too, perhaps after a migration.
        columns = [(result.fname(number) or b"").decode() for number in range(result.nfields)]
        self._values.set_pgresult(result)
        rows = self._values.load_rows(
            0, result.ntuples, lambda values: dict(zip(columns, values, strict=True))
        )
        return Answer(rows, result.command_tuples or 0)

    async def _undo(self) -> None:
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            await self.execute("rollback")


def _claims(opened: PGresult) -> str:
    """What the opening has in its last column; read so, since every transaction begins with it."""
    return (opened.get_value(0, opened.nfields - 1) or b"").decode()


def _send_together(pgconn: PGconn, send: Callable[[PGconn], None]) -> None:
    """Statements that are one transaction, unless they say otherwise.

    psycopg's own pipelines take twice as much of our time, since each statement there is a cursor.
    """
    pgconn.enter_pipeline_mode()
    try:
        send(pgconn)
        pgconn.pipeline_sync()
    except BaseException:
        # Half of it may be on its way.
        pgconn.finish()
        raise


def _flushing(pgconn: PGconn) -> PQGen[None]:
    """Send what did not fit in at once."""
    while pgconn.flush():
        # Nothing is ready when the wait was interrupted.
        ready = yield Wait.RW
        if ready and ready & Ready.R:
            pgconn.consume_input()


def _answers(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """The results of statements that were sent together. It waits for nothing but something to read."""
    results: list[PGresult] = []
    while pgconn.status == ConnStatus.OK:
        while pgconn.is_busy():
            while not (yield Wait.R):
                continue
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            continue  # all of one statement's
        if result.status == ExecStatus.PIPELINE_SYNC:
            pgconn.exit_pipeline_mode()
            return results
        results.append(result)
    if results and results[-1].status == ExecStatus.FATAL_ERROR:
        return results
    # Not all have come: the last of them would be taken for another's.
    raise psycopg.OperationalError("the connection is lost")
