"""Whether what was queued is done, and what happened told."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from recollect.db.health.check import Check
from recollect.db.queries import Queries

queries = Queries(__package__)

START_ONE = "Start one: recollect serve, or recollect worker on any machine."


async def of_queue(conn: AsyncConnection[DictRow]) -> list[Check]:
    """On a database that is up to date."""
    [row] = await (await conn.execute(queries.find_queue.text)).fetchall()
    if not row["is_there"]:
        return [
            Check("jobs", "warn", "The queue is not there yet.", "The first start of the server makes it.")
        ]
    [state] = await (await conn.execute(queries.queue_state.text)).fetchall()
    return [_jobs(state), _events(state)]


def _jobs(state: DictRow) -> Check:
    workers = f"{state['workers']} worker{'' if state['workers'] == 1 else 's'} at work"
    if state["late"]:
        remedy = START_ONE if state["workers"] == 0 else "Start more workers, or look at recollect jobs list."
        detail = f"{workers}; {state['late']:,} jobs have been due for more than a minute."
        return Check("jobs", "fail" if state["workers"] == 0 else "warn", detail, remedy)
    if state["failed"]:
        detail = f"{workers}; {state['failed']:,} jobs failed for good."
        return Check(
            "jobs", "warn", detail, "Look at them, and retry: recollect jobs list --all --state failed"
        )
    return Check("jobs", "ok", f"{workers}; nothing is overdue.")


def _events(state: DictRow) -> Check:
    if state["untold"]:
        detail = f"{state['untold']:,} events have waited for more than a minute to be told."
        return Check("events", "fail", detail, f"A worker tells them. {START_ONE}")
    return Check("events", "ok", "All that happened has been told.")
