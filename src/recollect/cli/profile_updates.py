"""recollect profile: what profiles are brought up to date from, and what a model is told for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from recollect.cli.brain import read_file
from recollect.cli.console import (
    AsJson,
    err,
    fail,
    out,
    plain,
    print_json,
    print_value,
    progress_bar,
    show,
    show_all,
    validated,
    waiting,
    with_services,
)
from recollect.cli.memory_options import Limit, Metadata, parsed
from recollect.cli.profile import User, as_user, compared, tell, user_named
from recollect.errors import InvalidInput
from recollect.profile.models import ActivityKind, NewActivity

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.profile.models import Prompt, Recorded, RecordedActivity, Update
    from recollect.profile.prompts import Prompts

T = TypeVar("T")
PAGE = 200

updates_app = typer.Typer(no_args_is_help=True)
prompt_app = typer.Typer(help="What a model is told before it updates a profile.", no_args_is_help=True)


@updates_app.command()
def update(
    user: Annotated[str | None, typer.Argument(metavar="[USER]", help="An e-mail address, or an id.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody who was active of late.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a profile up to date by what has been recorded since the last time, and show what changed."""
    if everybody == (user is not None):
        raise InvalidInput("Say whose: USER, or --all.")
    if user is not None:
        _update_one(user, as_json=as_json)
        return
    counts = with_services(_update_all)
    show(counts, as_json=as_json)
    if counts["failed"]:
        raise typer.Exit(1)


@updates_app.command()
def updates(user: User, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List the runs that brought a profile up to date, or tried to, the latest first."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> list[Update]:
        return await services.profile.updates(tx, user_id, limit=limit)

    columns = ("started_at", "state", "made_by", "activities", "to_version", "input_tokens", "output_tokens")
    show_all(as_user(user, work), (*columns, "error"), as_json=as_json)


@updates_app.command()
def record(
    user: User,
    kind: Annotated[ActivityKind, typer.Argument(metavar="KIND", help="session, message, insight or note.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help='Or "-" to read it from standard input.')] = "",
    data: Metadata = None,
    external_id: Annotated[str | None, typer.Option(metavar="ID", help="Recorded once under this.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record what a user did, said or noted; the next update takes it into account."""
    content = read_file(Path("-")).decode(errors="surrogateescape") if text == "-" else text
    activity = validated(
        NewActivity,
        kind=kind,
        content=content,
        data={} if data is None else parsed(data, "data"),
        external_id=external_id,
    )

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Recorded:
        return await services.profile.record(tx, user_id, [activity])

    recorded = as_user(user, work)
    if as_json:
        print_json(recorded.model_dump())
    else:
        out.print("It is recorded." if recorded.recorded else "It was there already.")


@updates_app.command()
def activity(
    user: User,
    kind: Annotated[ActivityKind | None, typer.Option(help="Those of this kind.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what has been recorded of a user, the latest first."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> list[RecordedActivity]:
        return await services.profile.activities(tx, user_id, kind=kind, limit=limit)

    columns = ("happened_at", "kind", "content", "data", "considered_in", "id")
    show_all(as_user(user, work), columns, as_json=as_json)


def _update_one(user: str, *, as_json: bool) -> None:
    async def work(services: Services) -> tuple[Update | None, UUID]:
        user_id = await user_named(services, user)
        async with waiting("Updating"):
            return await services.updater.update(user_id), user_id

    run, user_id = with_services(work)
    if run is None:
        fail("Somebody is updating this profile at this moment; see recollect profile updates.")
    if as_json:
        print_json(run.model_dump(mode="json"))
    elif run.state == "updated":
        before, after = run.from_version or 0, run.to_version
        _, changes = as_user(
            str(user_id), lambda services, tx, id_: compared(services, tx, id_, before, after)
        )
        tell(changes)
        err.print(f"[dim]Version {after}, made by {run.made_by} of {run.activities} activities.[/dim]")
    else:
        out.print(plain(run.error or "Nothing new."))
    if run.state == "failed":
        raise typer.Exit(1)


async def _update_all(services: Services) -> dict[str, int]:
    from recollect.db.tenancy import SERVICE

    counts = {"updated": 0, "unchanged": 0, "failed": 0, "skipped": 0}
    after, period = UUID(int=0), datetime.now(UTC)
    with progress_bar() as bar:
        task = bar.add_task("Updating", total=None)
        while True:
            async with services.tenancy.acting_as(SERVICE) as tx:
                users = await services.updater.active_users(tx, after=after, limit=PAGE)
            for state, count in (await services.updater.update_some(users, period)).items():
                counts[state] += count
            bar.advance(task, len(users))
            if len(users) < PAGE:
                return counts
            after = users[-1]


@prompt_app.command("show")
def show_prompt(as_json: AsJson = False) -> None:
    """Print what a model is told at present."""
    prompt = _with_prompts(lambda prompts, tx: prompts.active(tx))
    if as_json:
        print_json(prompt.model_dump(mode="json"))
    else:
        print_value(prompt.prompt_text)


@prompt_app.command("set")
def set_prompt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='"-" is standard input.')],
    description: Annotated[str | None, typer.Option(help="What is new in it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Have models told what a file says, from the next update on."""
    try:
        text = read_file(file).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8.") from error
    if not text.strip():
        raise InvalidInput(f"{file} says nothing.")
    _tell_prompt(_with_prompts(lambda prompts, tx: prompts.change(tx, text, description)), as_json=as_json)


@prompt_app.command("history")
def list_prompts(as_json: AsJson = False) -> None:
    """List what models have been told, the latest first."""
    found = _with_prompts(lambda prompts, tx: prompts.all(tx))
    show_all(found, ("version", "is_active", "description", "created_by", "created_at"), as_json=as_json)


@prompt_app.command("use")
def use_prompt(version: Annotated[int, typer.Argument(metavar="N", min=1)], as_json: AsJson = False) -> None:
    """Have models told again what an earlier version says."""
    _tell_prompt(_with_prompts(lambda prompts, tx: prompts.use(tx, version)), as_json=as_json)


def _with_prompts(work: Callable[[Prompts, Transaction], Awaitable[T]]) -> T:
    async def run(services: Services) -> T:
        from recollect.db.tenancy import SERVICE

        async with services.tenancy.acting_as(SERVICE) as tx:
            return await work(services.profile_prompts, tx)

    return with_services(run)


def _tell_prompt(prompt: Prompt, *, as_json: bool) -> None:
    if as_json:
        print_json(prompt.model_dump(mode="json"))
    else:
        out.print(f"Version {prompt.version} is in use.")
