"""recollect jobs: work that is done beside requests. recollect schedule: when it comes due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from recollect.cli.console import AsJson, acting_for, err, fail, out, show, show_all, with_services

if TYPE_CHECKING:
    from rich.progress import Progress

    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.jobs.models import Run
    from recollect.jobs.schedule import Scheduled, Triggered
    from recollect.jobs.service import Jobs

T = TypeVar("T")
LOOK_SECONDS = 0.5

app = typer.Typer(help="Jobs: how far they are, stopping them, trying them again.", no_args_is_help=True)
schedule_app = typer.Typer(help="The jobs that come due by themselves.", no_args_is_help=True)


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = frozenset({State.WAITING, State.RUNNING})

Actor = Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="Whose jobs, and who does it.")]
ForAll = Annotated[bool, typer.Option("--all", help="Everybody's jobs, and the server's own.")]
JobId = Annotated[UUID, typer.Argument(metavar="ID")]


@app.command("list")
def list_(
    user: Actor = None,
    for_all: ForAll = False,
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    task: Annotated[str | None, typer.Option(help="Only those of this task.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""

    async def fetch(jobs: Jobs, tx: Transaction) -> list[Run]:
        return await jobs.list(tx, state=state.value if state else None, task=task, limit=limit + 1)

    found = _as(user, fetch, for_all=for_all)
    columns = ("task", "state", "done", "total", "attempt", "created_at", "error", "id")
    show_all(found[:limit], columns, as_json=as_json)
    if len(found) > limit:
        err.print(f"[dim]There are more than {limit}; --limit lists more of them.[/dim]")


@app.command("show")
def show_job(job: JobId, user: Actor = None, for_all: ForAll = False, as_json: AsJson = False) -> None:
    """Show one job: who asked, how far it is, how it ended."""
    show(_as(user, lambda jobs, tx: jobs.get(tx, job), for_all=for_all), as_json=as_json)


@app.command()
def cancel(job: JobId, user: Actor = None, for_all: ForAll = False, as_json: AsJson = False) -> None:
    """Stop a job, or take it out of the queue."""
    cancelled = _as(user, lambda jobs, tx: jobs.cancel(tx, job), for_all=for_all)
    _confirm(cancelled, "The job is cancelled.", as_json=as_json)


@app.command()
def retry(job: JobId, user: Actor = None, for_all: ForAll = False, as_json: AsJson = False) -> None:
    """Queue a job again that failed or was cancelled."""
    queued = _as(user, lambda jobs, tx: jobs.retry(tx, job), for_all=for_all)
    _confirm(queued, "The job waits for a worker.", as_json=as_json)


@app.command()
def counts(user: Actor = None, for_all: ForAll = False, as_json: AsJson = False) -> None:
    """Count jobs in each state."""

    async def count(jobs: Jobs, tx: Transaction) -> dict[str, int]:
        found = await jobs.counts(tx)
        return {state.value: found.get(state, 0) for state in State}

    show(_as(user, count, for_all=for_all), as_json=as_json)


@app.command()
def wait(job: JobId, user: Actor = None, for_all: ForAll = False, as_json: AsJson = False) -> None:
    """Wait until a job has ended; exit code 1 if it failed or was cancelled."""

    async def watch(services: Services) -> Run:
        with _bar() as progress:
            bar = progress.add_task(f"Job {job}", total=None)
            while True:
                async with _acting(services, user) as tx:
                    run = await services.jobs.get(tx, job)
                progress.update(
                    bar, description=f"{run.task}, {run.state}", completed=run.done, total=run.total
                )
                if run.state not in UNFINISHED:
                    return run
                await asyncio.sleep(LOOK_SECONDS)

    _check_whose(user, for_all=for_all)
    try:
        ended = with_services(watch)
    except KeyboardInterrupt:
        err.print(f"The job goes on without you; recollect jobs cancel {job} stops it.", markup=False)
        raise
    if as_json or ended.state == "succeeded":
        _confirm(ended, "The job is done.", as_json=as_json)
    if ended.state != "succeeded":
        fail(f"The job failed: {ended.error}" if ended.state == "failed" else "The job was cancelled.")


@schedule_app.command("list")
def list_schedule(as_json: AsJson = False) -> None:
    """List the scheduled jobs, with when they come due (UTC)."""

    async def fetch(services: Services) -> list[Scheduled]:
        async with _acting(services, None) as tx:
            return await services.schedule.entries(tx)

    columns = ("job", "task", "cron", "per_workspace", "next_tick", "last_tick", "last_run")
    show_all(with_services(fetch), columns, as_json=as_json)


@schedule_app.command("run")
def run_scheduled(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its name on the schedule.")],
    as_json: AsJson = False,
) -> None:
    """Have a scheduled job run now, unless it has run in this period of its schedule."""

    async def trigger(services: Services) -> Triggered:
        async with _acting(services, None) as tx:
            return await services.schedule.trigger(tx, job)

    triggered = with_services(trigger)
    if as_json:
        show(triggered, as_json=True)
    elif triggered.is_new:
        out.print(f"{job} waits for a worker.", markup=False)
    else:
        out.print(f"{job} has run since {triggered.period:%Y-%m-%d %H:%M} UTC already.", markup=False)


def _as(user: str | None, work: Callable[[Jobs, Transaction], Awaitable[T]], *, for_all: bool) -> T:
    async def run(services: Services) -> T:
        async with _acting(services, user) as tx:
            return await work(services.jobs, tx)

    _check_whose(user, for_all=for_all)
    return with_services(run)


def _check_whose(user: str | None, *, for_all: bool) -> None:
    if for_all == (user is not None):
        fail("Say whose jobs: --user EMAIL, or --all for everybody's.")


@asynccontextmanager
async def _acting(services: Services, user: str | None) -> AsyncIterator[Transaction]:
    from recollect.db.tenancy import SERVICE

    if user is None:
        async with services.tenancy.acting_as(SERVICE) as tx:
            yield tx
    else:
        async with acting_for(services, user) as (tx, _):
            yield tx


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # Elsewhere than on a terminal there would be nothing of it but an empty line.
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def _confirm(run: Run, sentence: str, *, as_json: bool) -> None:
    if as_json:
        show(run, as_json=True)
    else:
        out.print(sentence, markup=False)
