"""From threads that have no event loop into the queue."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg

from recollect.adapters.background import PerProcess, kept_running
from recollect.bootstrap import bring_up_to_date, open_database
from recollect.db import database as databases
from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import Unavailable
from recollect.settings import Settings

ANSWER_SECONDS = 30

queries = Queries(__package__)


@asynccontextmanager
async def _open_tenancy(settings: Settings) -> AsyncIterator[Tenancy]:
    async with open_database(settings) as (database, _):
        await bring_up_to_date(database)
        async with (
            databases.open_tenancy(database, pool_size=1, worker_concurrency=1) as tenancy,
            kept_running(database),
        ):
            yield tenancy


here = PerProcess(_open_tenancy)


def forward(settings: Callable[[], Settings], task: str, arguments: Mapping[str, str], message: str) -> UUID:
    """The job that this message leads to, the same one however often it is forwarded."""

    async def queue(tenancy: Tenancy) -> UUID:
        async with tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            parameters = {"task": task, "arguments": json.dumps(arguments), "message": message}
            row = await tx.one(queries.forward_job, parameters, last=True)
        run: UUID = row["id"]
        return run

    answer = here.get(settings).call(queue)
    try:
        return answer.result(ANSWER_SECONDS)
    # None of it is the message's fault, whose parts were checked: it is tried again until it stands.
    except (psycopg.Error, OSError, CancelledError) as error:
        raise Unavailable from error
    finally:
        answer.cancel()
