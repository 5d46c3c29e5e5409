"""recollect brain import: facts about one or many, out of a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from recollect.cli.brain import Company, OnlyUser, owner_of, read_file
from recollect.cli.console import AsJson, err, out, plain, print_json, progress_bar, with_services
from recollect.cli.memory_options import Because, diff_of

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.brain.importing import Import, Imported, NotImported, Placed, Row

CHANGES = ("create", "update", "unchanged", "refused")


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help='.csv, or JSON; "-" is JSON from standard input.')
    ],
    user: OnlyUser = None,
    company: Company = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Save facts out of a file: of one user or company, or of those that a column "user" or "company" names.

    CSV has the columns slug, content and, where wanted, category, extra_metadata, user (e-mail address or id)
    and company (name or id). JSON is a list of objects with such fields, or lists by whom they are about:
    {"ana@example.com": [...], "company:Acme": [...]}.
    """
    if dry_run:
        planned = with_services(lambda services: _plan(services, file, user, company))
        _show_plan(planned, as_json=as_json)
        has_failed = any(each.change == "refused" for each in planned)
    else:
        because = reason or f"imported from {file.name}"
        imported = with_services(lambda services: _save(services, file, user, company, because))
        _show_imported(imported, as_json=as_json)
        has_failed = bool(imported.errors)
    if has_failed:
        raise typer.Exit(1)


async def _opened(
    services: Services, file: Path, user: str | None, company: str | None
) -> tuple[Import, list[Row]]:
    from recollect.brain.importing import Import, read_csv, read_json

    rows = (read_csv if file.suffix.lower() == ".csv" else read_json)(read_file(file))
    default = await owner_of(services, user, company) if user or company else None
    return Import(services.tenancy, services.brain, services.access, default=default), rows


async def _plan(services: Services, file: Path, user: str | None, company: str | None) -> list[Placed]:
    importing, rows = await _opened(services, file, user, company)
    with progress_bar() as bar:
        task = bar.add_task("Comparing", total=len(rows))
        return await importing.plan(rows, lambda done: bar.advance(task, done))


async def _save(
    services: Services, file: Path, user: str | None, company: str | None, reason: str
) -> Imported:
    importing, rows = await _opened(services, file, user, company)
    with progress_bar() as bar:
        task = bar.add_task("Importing", total=len(rows))
        return await importing.save(rows, lambda done: bar.advance(task, done), reason=reason)


def _show_plan(planned: list[Placed], *, as_json: bool) -> None:
    counts: Counter[str] = Counter(each.change for each in planned)
    if as_json:
        changes = [each.model_dump(mode="json") for each in planned]
        print_json({**{change: counts[change] for change in CHANGES}, "changes": changes})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("where", "about", "slug", "change", "text"):
        table.add_column(column, overflow="fold")
    for each in planned:
        table.add_row(plain(each.place), plain(each.about), plain(each.slug), each.change, _text(each))
    out.print(table)
    out.print(", ".join(f"{counts[change]:,} {change}" for change in CHANGES) + "; nothing was changed.")


def _text(planned: Placed) -> Text:
    if planned.error is not None:
        return Text.assemble((plain(planned.error).plain, "red"))
    if planned.change == "update" and planned.before == planned.after:
        return Text("(what describes it)", style="dim")
    return diff_of(planned.before or "", planned.after or "")


def _show_imported(imported: Imported, *, as_json: bool) -> None:
    if as_json:
        print_json(imported.told)
        return
    failed = len(imported.errors)
    out.print(f"{imported.saved_count:,} saved, {imported.created_count:,} of them new; {failed:,} failed.")
    for error in imported.errors:
        err.print(plain(_sentence(error)))


def _sentence(error: NotImported) -> str:
    about = f" about {error.about}" if error.about else ""
    return f"{error.place}: {error.slug}{about}: {error.error}"
