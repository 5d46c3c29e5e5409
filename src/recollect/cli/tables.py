"""Tables for people, whose words and ids stay whole however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

# The length of an id. What is longer is a path or an address, and may be folded anywhere.
LONGEST_WORD = 36
GAP = 2


class Rows:
    """A table; on a terminal too narrow for it, each row is a block of lines, a cell on each."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._table(widths)
            return
        for nth, row in enumerate(self._rows):
            if nth:
                yield Text()
            yield pairs({name: cell for name, cell in zip(self._columns, row, strict=True) if cell.plain})

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        for name, width in zip(self._columns, widths, strict=True):
            table.add_column(name, width=width, overflow="fold")
        for row in self._rows:
            table.add_row(*row)
        return table

    def _widths(self, room: int) -> list[int] | None:
        """Of each column; none where there is not the room for the longest word of each."""
        cells = [[name, *(row[nth].plain for row in self._rows)] for nth, name in enumerate(self._columns)]
        least = [max(map(_longest_word, column)) for column in cells]
        most = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in cells]
        room -= GAP * len(cells)
        if sum(most) <= room:
            return most
        spare = room - sum(least)
        if spare < 0:
            return None
        # Whoever wants more gets more of what is left over.
        wanted = [whole - word for whole, word in zip(most, least, strict=True)]
        return [word + spare * more // sum(wanted) for word, more in zip(least, wanted, strict=True)]


def pairs(fields: Mapping[str, Text]) -> Table:
    """Names, and beside each what goes by it."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, field in fields.items():
        grid.add_row(name, field)
    return grid


def _longest_word(text: str) -> int:
    # Where characters are wide, as in Chinese, there are no spaces to fold at.
    return max(
        (min(len(word), LONGEST_WORD) for word in text.split() if len(word) == cell_len(word)), default=1
    )
