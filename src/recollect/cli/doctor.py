"""recollect doctor: what is wrong, and what to do about it. It changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from recollect.cli.console import AsJson, load_settings, out, plain, print_json, run_async, waiting
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from recollect.db.health import Check
    from recollect.settings import Settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(as_json: AsJson = False) -> None:
    """Check settings, database, roles, row security, migrations, jobs, Redis, model, disk and clock."""
    # With the database's driver, which --help and the other commands' help do without.
    from recollect.db.health import worst

    checks = run_async(_examine())
    verdict = worst(checks)
    if as_json:
        print_json({"status": verdict, "checks": [asdict(check) for check in checks]})
    else:
        _show(checks)
    raise typer.Exit(1 if verdict == "fail" else 0)


async def _examine() -> list[Check]:
    from recollect.db.health import Check, of_machine

    try:
        settings = load_settings()
    except RecollectError as error:
        return [Check("settings", "fail", error.detail, "Correct it in the environment or in .env.")]
    where = "RECOLLECT_DATABASE_URL" if settings.database_url else "the embedded Postgres"
    checks = [Check("settings", "ok", f"They can be read; the database is {where}.")]
    checks.extend(of_machine(settings))
    async with waiting("Looking at the database"):
        checks.extend(await _examine_database(settings))
    if settings.redis_url is not None:
        checks.append(await _examine_redis(settings.redis_url.get_secret_value()))
    checks.append(_examine_model(settings))
    return checks


def _examine_model(settings: Settings) -> Check:
    from recollect.db.health import Check
    from recollect.llm.choice import dialect_for

    try:
        dialect = dialect_for(settings)
    except RecollectError as error:
        return Check("model", "fail", "Its settings cannot be used.", error.detail)
    if dialect is None:
        return Check("model", "ok", "None is configured; everything works without one.")
    # Asking costs money: that is for who wants to know.
    return Check(
        "model", "ok", f"{dialect.provider}/{dialect.model}; recollect model check asks it something."
    )


async def _examine_redis(url: str) -> Check:
    from recollect.db.health import Check
    from recollect.redis.link import RedisLink

    try:
        async with RedisLink(url) as link:
            is_up = link.is_up
    except RecollectError as error:
        return Check("redis", "fail", "REDIS_URL cannot be used.", error.detail)
    if not is_up:
        detail = "It does not answer; everything goes on without it, slower."
        return Check("redis", "warn", detail, "Start it, or correct REDIS_URL.")
    return Check("redis", "ok", "It answers.")


async def _examine_database(settings: Settings) -> list[Check]:
    from recollect.bootstrap import open_database
    from recollect.db.health import Check, disk, of_database

    checks: list[Check] = []
    try:
        async with open_database(settings) as (database, _):
            if database.embedded is not None:
                checks.append(disk(database.embedded.data_dir))
            checks.extend(await of_database(database))
    except RecollectError as error:
        checks.append(Check("database", "fail", "It could not be opened.", error.detail))
    except OSError as error:
        detail = f"{error.filename or settings.home}: {error.strerror}"
        checks.append(Check("database", "fail", detail, "Give this user access to it."))
    return checks


def _show(checks: list[Check]) -> None:
    table = Table.grid(padding=(0, 2))
    for check in checks:
        colour = _COLOURS[check.status]
        table.add_row(f"[bold {colour}]{check.status}[/]", check.name, plain(check.detail, keeping="\n"))
        if check.remedy:
            table.add_row("", "", Text("-> ", colour) + plain(check.remedy, keeping="\n"))
    out.print(table)
