"""Building blocks of reports: escaped text, tables that adapt to the width of the terminal, amounts and timestamps.

Rule: text from objects and clients goes into rich's Text, never into markup, and unprintable characters are escaped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from extender.errors import printable
from extender.k8s.time import format_time, parse_time
from extender.utilities.text import more


def text(value: object, style: str = "") -> Text:
    """Return `value` as Text with unprintable characters escaped, so that it cannot control the terminal."""
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
    """A table that wraps its headers when it is wider than the console, and becomes a list when that is not enough."""

    def __init__(
        self, headers: Sequence[str], rows: Sequence[CellRow], lead: int = 1, limit: int | None = None
    ) -> None:
        """`lead`: number of cells on the first line of an entry, where the table becomes a list; `limit`: of rows."""
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
"""Console width at which a table is measured without any wrapping."""


def _wrap_header(header: str) -> str:
    """Break a header between words: `PDBViolations` becomes `PDB` above `Violations`."""
    return re.sub(r"(?<=[a-zB])(?=[A-Z][a-z])| (?=\()", "\n", header)


def indented(part: RenderableType, by: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, by), expand=False)


def format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {format_amount(name, value)}" for name, value in amounts.items())


def format_amount(resource: str, value: int) -> str:
    """Format millicores, bytes or a count as manifests write it: 250m, 3, 4Gi."""
    if resource == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if abs(value) >= 1 << power:
                return f"{value / (1 << power):.1f}".removesuffix(".0") + unit
    return str(value)


def format_timestamp(time: str) -> str:
    """Format an RFC 3339 time to the second (`2026-03-01 12:00:00`); return any other text unchanged."""
    try:
        return format_time(parse_time(time)).replace("T", " ").removesuffix("Z")
    except ValueError:
        return time
