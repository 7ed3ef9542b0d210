"""Building blocks of reports: escaped text, tables, amounts, timestamps, and the console that prints them.

An AdaptiveTable adapts to the width of the terminal; a table of `format_table` never wraps, like kubectl's.

Rule: text from objects and clients goes into rich's Text, never into markup, and unprintable characters are escaped.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
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


def new_table(headers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for header in headers:
        table.add_column(Text("\n".join(map(printable, header.split("\n")))), overflow="fold")
    return table


class AdaptiveTable:
    """A table that wraps its headers if it is wider than the console, and becomes a list if it still does not fit."""

    def __init__(
        self, headers: Sequence[str], rows: Sequence[CellRow], lead: int = 1, limit: int | None = None
    ) -> None:
        """`limit`: maximum number of rows; `lead`: number of cells on the first line of a list entry."""
        self._headers = headers
        self._rows = rows[:limit]
        self._lead = lead
        self._left_out = len(rows) - len(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._table_that_fits(console, options) or (part for row in self._rows for part in self._entry(row))
        if self._left_out:
            yield indented(Text(f"and {more(self._left_out)} (use --all)", style="dim"))

    def _table_that_fits(self, console: Console, options: ConsoleOptions) -> list[Padding]:
        for headers in (self._headers, [_wrap_header(header) for header in self._headers]):
            table = new_table(headers)
            for row in self._rows:
                table.add_row(*row)
            needed = Measurement.get(console, options.update_width(_UNBOUNDED_COLUMNS), indented(table))
            fits_broken = headers is not self._headers and needed.minimum <= options.max_width
            if needed.maximum <= options.max_width or fits_broken:
                return [indented(table)]
        return []

    def _entry(self, row: CellRow) -> RenderResult:
        yield indented(Text("  ").join(row[: self._lead]))
        others = [*zip(self._headers, row, strict=True)][self._lead :]
        labelled = ((header.lower() if header.isupper() else header, cell) for header, cell in others if cell)
        parts = [Text.assemble((f"{printable(header)} ", "dim"), cell) for header, cell in labelled]
        yield indented(Text(", ").join(parts), 5)


_UNBOUNDED_COLUMNS = 100_000
"""Console width at which a table is measured, so that nothing wraps."""


def _wrap_header(header: str) -> str:
    """Break a header between words: `PDBViolations` becomes `PDB` above `Violations`."""
    return re.sub(r"(?<=[a-zB])(?=[A-Z][a-z])| (?=\()", "\n", header)


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


# --- kubectl's tables: columns of one width, nothing wrapped ----------------------------------------------------------


MAX_SUMMARY_ROWS = 20
"""Maximum number of rows of a table in a summary."""

TextRow = Sequence[str]

_STYLES = {"Warning": "yellow", "Preempted": "red", "Scheduled": "green", "≠": "bold yellow"}


def format_table(head: TextRow, rows: Iterable[TextRow], limit: int | None = None) -> list[Text]:
    """Return the lines of a table; every column but the last is padded to its widest cell."""
    shown = [tuple(map(printable, row)) for row in rows]
    left, shown = (shown[limit:], shown[:limit]) if limit is not None else ([], shown)
    widths = [max(len(cell) for cell in column) for column in zip(head, *shown, strict=True)]
    lines = [_format_line(head, widths, "dim")] + [_format_line(row, widths) for row in shown]
    return lines + ([Text(f"… and {more(len(left))}; -o json shows all", style="dim")] if left else [])


def summary_table(head: TextRow, rows: Iterable[TextRow]) -> list[Text]:
    """Return a table of at most MAX_SUMMARY_ROWS; empty without rows."""
    rows = list(rows)
    return format_table(head, rows, MAX_SUMMARY_ROWS) if rows else []


def separated(blocks: Iterable[Sequence[Text]]) -> Iterator[Text]:
    """Yield the lines of the nonempty blocks, with an empty line between blocks."""
    for place, block in enumerate(filter(None, blocks)):
        if place:
            yield Text()
        yield from block


def _format_line(row: TextRow, widths: Sequence[int], style: str = "") -> Text:
    line = Text(style=style)
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        is_last = place == len(row) - 1
        line.append(cell if is_last else cell.ljust(width + 3), style=_STYLES.get(cell, ""))
    line.rstrip()
    return line


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


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts of a report, without blanks at the ends of lines."""
    # rich pads lines to the width of the console, which a diff or a paste would show.
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=True)  # `new_console` has decided whether to use color
