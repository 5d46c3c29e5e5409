"""A server, or a worker, whose tasks leave traces: run as a process of its own, to be killed at any moment.

python -m tests.faults.flow serve|work
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

from recollect.app import create_app
from recollect.bootstrap import Services, open_services
from recollect.db.queries import Query
from recollect.events.models import Subscription
from recollect.events.relay import Relay
from recollect.jobs.models import Job, Task
from recollect.jobs.worker import Worker
from recollect.server import Server, listen
from recollect.settings import Settings
from tests.conftest import QUICK

WRITE_EFFECT = Query("effect", "For the test.", "insert into public.flow_effects (n) values (%(n)s)")
WRITE_HEARD = Query(
    "heard", "For the test.", "insert into public.flow_heard (position) values (%(position)s)"
)
# Killed dozens of times, a job must not be given up for it.
ATTEMPTS = 1000


def tasks(services: Services) -> tuple[Task, ...]:
    async def effect(job: Job) -> None:
        number = job.arguments["n"]
        await asyncio.sleep(random.random() * 0.05)
        async with job.step() as tx:
            await tx.run(WRITE_EFFECT, {"n": number})
            await services.events.publish(tx, "memory.added", f"memory/{number % 20}", {"n": number})
            await job.finish(tx)

    async def hear(job: Job) -> None:
        async with job.step() as tx:
            await tx.run(WRITE_HEARD, {"position": job.arguments["event"]["position"]})
            await job.finish(tx)

    return Task("flow.effect", effect, attempts=ATTEMPTS), Task("flow.hear", hear, attempts=ATTEMPTS)


def worker(services: Services) -> Worker:
    deliver = services.jobs.tasks["webhooks.deliver"]
    services.jobs.offer(*tasks(services), replace(deliver, attempts=ATTEMPTS))
    relay = Relay(
        services.tenancy,
        services.database.worker,
        [Subscription(["memory.added"], "flow.hear")],
    )
    return Worker(
        services.tenancy.beside_requests(),
        services.database.worker,
        services.jobs.tasks,
        10,
        beside=(relay.watch,),
        pace=QUICK,
    )


async def main(role: str) -> None:
    settings = Settings()
    async with open_services(settings) as services, asyncio.TaskGroup() as group:
        assert services.database.embedded is not None
        beside: list[Callable[[], Awaitable[None]]] = [services.database.embedded.watch]
        if role == "work":
            beside.append(worker(services).work)
        else:
            server = Server(create_app(services), on_started=lambda: None, on_stopping=services.live.close)
            listener = listen(settings.host, settings.port)
            beside += [services.live.watch, lambda: server.serve(sockets=[listener])]
        for each in beside:
            group.create_task(each())  # type: ignore[arg-type]  # all are coroutines


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
