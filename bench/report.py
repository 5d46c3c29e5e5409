"""A figure, a table of them, and a file."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured thing. ``limit`` is what was promised; None where the figure only informs."""

    name: str
    value: float
    unit: str
    limit: str | None = None
    met: bool | None = None
    detail: str = ""


def at_least(name: str, value: float, unit: str, limit: float, detail: str = "") -> Figure:
    return Figure(name, value, unit, f"at least {limit:g}", value >= limit, detail)


def at_most(name: str, value: float, unit: str, limit: float, detail: str = "") -> Figure:
    return Figure(name, value, unit, f"at most {limit:g}", value <= limit, detail)


def publish(suite: str, figures: list[Figure]) -> bool:
    """Print a table, write JSON, and say whether every promise was kept."""
    table = Table(title=suite, title_justify="left")
    for column in ("what", "measured", "promised", "", "how"):
        table.add_column(column)
    for figure in figures:
        mark = {True: "[green]kept[/green]", False: "[red]missed[/red]", None: ""}[figure.met]
        table.add_row(
            figure.name, f"{figure.value:.4g} {figure.unit}", figure.limit or "", mark, figure.detail
        )
    Console(width=150).print(table)
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(UTC)
    record = {
        "suite": suite,
        "at": stamp.isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": [asdict(figure) for figure in figures],
    }
    (RESULTS / f"{suite}.json").write_text(json.dumps(record, indent=2) + "\n")
    return all(figure.met is not False for figure in figures)
