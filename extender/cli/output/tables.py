"""Building blocks of reports: escaped text, tables, amounts, timestamps, and the console that prints them.

Tables look like kubectl's, without rulers, and adapt to the width of a terminal; in a file or a pipe nothing wraps.

Rule: text from objects and clients goes into rich's Text, never into markup, and unprintable characters are escaped.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from extender.errors import printable
from extender.k8s.time import format_time, parse_time
from extender.utilities.text import format_amount, more


def text(value: object, style: str = "") -> Text:
    """Return a value as Text, with unprintable characters escaped so that it cannot control the terminal."""
    return Text(printable(str(value)), style=style, overflow="fold")


def section_heading(title: str) -> Iterator[RenderableType]:
    yield Text()
    yield text(title, "underline")


CellRow = Sequence[Text]


class AdaptiveTable:
    """A table whose cells wrap between words if it is wider than the console; a list if that takes too many lines."""

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[object]],
        lead: int = 1,
        limit: int | None = None,
        *,
        indent: int = 2,
        rest: str = "use --all",
    ) -> None:
        """`limit`: maximum number of rows; `rest`: how to see the others; `lead`: cells on an entry's first line.

        A cell is Text if it has a style, or any value.
        """
        self._headers = headers
        self._rows = [[one if isinstance(one, Text) else text(one) for one in row] for row in rows[:limit]]
        self._lead = lead
        self._left_out = len(rows) - len(self._rows)
        self._indent = indent
        self._rest = rest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        available = options.max_width - self._indent
        heads = [Text(printable(one), "dim") for one in self._headers]
        widths = self._widths(heads, available, wraps=False)
        if widths is None:
            heads = [Text(_BREAKS.sub("\n", head.plain), "dim") for head in heads]
            widths = self._widths(heads, available, wraps=True)
        yield from self._entries() if widths is None else self._lines(heads, widths, console)
        if self._left_out:
            yield indented(Text(f"and {more(self._left_out)} ({self._rest})", style="dim"))

    def _widths(self, heads: CellRow, available: int, *, wraps: bool) -> list[int] | None:
        """Return the widths of the columns; None if they do not fit, even if cells may wrap."""
        columns = [list(column) for column in zip(heads, *self._rows, strict=True)]
        widths = least = [
            max(cell_len(line) for cell in column for line in cell.plain.split("\n")) for column in columns
        ]
        if wraps:
            words = [
                max(cell_len(word) for cell in column for word in cell.plain.split() or [""]) for column in columns
            ]
            least = [max(word, -(-width // MAX_CELL_LINES)) for word, width in zip(words, widths, strict=True)]
        widths = list(widths)
        while sum(widths) + _GAP * (len(widths) - 1) > available:
            place = max(range(len(widths)), key=lambda one: (widths[one] > least[one], widths[one]))
            if widths[place] <= least[place]:
                return None
            widths[place] -= 1
        return widths

    def _lines(self, heads: CellRow, widths: Sequence[int], console: Console) -> Iterator[Text]:
        for row in (heads, *self._rows):
            cells = [
                cell.wrap(console, width) if cell.cell_len > width or "\n" in cell.plain else [cell]
                for cell, width in zip(row, widths, strict=True)
            ]
            for parts in zip_longest(*cells, fillvalue=Text()):
                line = Text(" " * self._indent)
                for part, width in zip(parts, widths, strict=True):
                    line.append_text(part).append(" " * (width - part.cell_len + _GAP))
                line.rstrip()
                yield line

    def _entries(self) -> Iterator[RenderableType]:
        """Yield each row as an entry: its first cells, then the others with their headers."""
        for row in self._rows:
            yield indented(Text("  ").join(row[: self._lead]), self._indent)
            others = [*zip(self._headers, row, strict=True)][self._lead :]
            labelled = ((header.lower() if header.isupper() else header, cell) for header, cell in others if cell)
            parts = [Text.assemble((f"{printable(header)} ", "dim"), cell) for header, cell in labelled]
            yield indented(Text(", ").join(parts), 5)


_BREAKS = re.compile(r"(?<=[a-zB])(?=[A-Z][a-z])| (?=\()")
"""Places between words where a header may wrap: `PDBViolations` becomes `PDB` above `Violations`."""

_GAP = 2
"""Blanks between two columns."""

MAX_CELL_LINES = 4
"""Maximum number of lines of a cell in a table: a table with more becomes a list."""


def indented(part: RenderableType, by: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, by), expand=False)


def format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {format_amount(name, value)}" for name, value in amounts.items())


def format_timestamp(time: str) -> str:
    """Format an RFC 3339 time to the second (`2026-03-01 12:00:00`); return any other text unchanged."""
    try:
        return format_time(parse_time(time)).replace("T", " ").removesuffix("Z")
    except ValueError:
        return time


MAX_SUMMARY_ROWS = 20
"""Maximum number of rows of a table in a summary."""

IN_JSON = "-o json shows all"
"""How to see the other rows of a summary."""


def summary_table(headers: Sequence[str], rows: Iterable[Sequence[object]], lead: int = 1) -> list[RenderableType]:
    """Return an empty line and a table of at most MAX_SUMMARY_ROWS; nothing without rows."""
    found = list(rows)
    return [Text(), AdaptiveTable(headers, found, lead, MAX_SUMMARY_ROWS, rest=IN_JSON)] if found else []


def facts_grid(facts: Iterable[tuple[str, str]]) -> RenderableType:
    """Return a line per fact that is not empty, after its name."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value:
            grid.add_row(Text(name, style="dim"), text(value))
    return indented(grid)


# --- the console ------------------------------------------------------------------------------------------------------

UNLIMITED_COLUMNS = 10_000
"""Console width for a file or a pipe: lines are neither truncated nor wrapped."""


def new_console(no_color: bool) -> Console:
    """Return the console of a report, as wide as the terminal; in a file or a pipe, lines never wrap."""
    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    if no_color or os.environ.get("NO_COLOR"):
        settings["color_system"] = None
    console = Console(**settings)
    return console if console.is_terminal else Console(**settings, width=UNLIMITED_COLUMNS)


_TRAILING_BLANKS = re.compile(r" +(?=(?:\x1b\[[0-9;]*m)*$)")
"""Blanks at the end of a line, before the codes that end its colors."""


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts of a report, without blanks at the ends of lines."""
    # rich pads lines to the width of the console, which a diff or a paste would show.
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    lines = (_TRAILING_BLANKS.sub("", line) for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=True)  # `new_console` has decided whether to use color
