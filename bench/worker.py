"""A worker process for the benchmark: ours, or procrastinate's as it comes.

python -m bench.worker ours|bare HOME
"""

from __future__ import annotations

import sys
from pathlib import Path

import procrastinate
import uvloop

from recollect.bootstrap import open_services
from recollect.jobs.models import Job, Task
from recollect.settings import Settings


async def nothing(job: Job) -> None:
    del job


async def main(kind: str, home: str) -> None:
    async with open_services(Settings(home=Path(home), worker_concurrency=20)) as services:
        if kind == "ours":
            services.jobs.offer(Task("bench.nothing", nothing))
            await services.worker.work()
            return
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=services.database.worker))

        @app.task(name="bare")
        async def bare() -> None:
            pass

        async with app.open_async():
            await app.run_worker_async(concurrency=20, install_signal_handlers=False)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
