"""What all commands share: settings, services, output for people or for scripts, exit codes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

import typer
import uvloop
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from recollect.bootstrap import Services, open_services
from recollect.errors import RecollectError
from recollect.kit import logs
from recollect.settings import Settings

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def load_settings(**overrides: Any) -> Settings:
    try:
        settings = Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        found = error.errors()[0]
        name = ".".join(str(part) for part in found["loc"])
        fail(f"The setting {name} is not usable: {found['msg']}.")
    logs.configure(settings.log_level)
    return settings


def with_services(work: Callable[[Services], Awaitable[T]]) -> T:
    """Run one command against the database, whether or not a server is running."""
    settings = load_settings()

    async def run() -> T:
        async with open_services(settings) as services:
            return await work(services)

    return run_async(run())


def run_async(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def validated(model: type[M], **fields: Any) -> M:
    """An input model from what was typed, or a sentence on what is wrong with it."""
    try:
        return model(**fields)
    except ValidationError as error:
        found = error.errors()[0]
        fail(f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}.")


def show(value: BaseModel | Mapping[str, Any], *, as_json: bool) -> None:
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    if as_json:
        print_json(plain)
        return
    table = Table.grid(padding=(0, 2))
    for name, field in plain.items():
        table.add_row(f"[dim]{name}[/dim]", _cell(field))
    out.print(table)


def show_all(
    values: Sequence[BaseModel], columns: Sequence[str], *, as_json: bool, by_alias: bool = False
) -> None:
    rows = [value.model_dump(mode="json") for value in values]
    if as_json:
        print_json([value.model_dump(mode="json", by_alias=by_alias) for value in values])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    out.print(table if rows else "[dim]nothing there[/dim]")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def fail(message: str) -> NoReturn:
    err.print("[bold red]error[/bold red]", end=" ")
    err.print(message, markup=False)
    raise SystemExit(1)


def fail_with(error: RecollectError) -> NoReturn:
    fail(error.detail)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Stored text may hold terminal escapes; shown, it is inert.
    printable = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return printable.replace("[", r"\[")
