"""What reports are made of: text in which nothing steers the terminal, tables that fit, amounts and times.

Rule: whatever was written by others is put into Text, never into markup, and what does not print is written out.
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


def text(value: object, style: str = "") -> Text:
    """As it is, but for what does not print."""
    return Text(printable(str(value)), style=style, overflow="fold")


def section(title: str) -> Iterator[RenderableType]:
    yield Text()
    yield text(title, "underline")


Row = Sequence[Text]


def new_table(headers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for header in headers:
        table.add_column(Text(_plain_lines(header)), overflow="fold")
    return table


class Rows:
    """A table; where it is too wide, the lines of its cells are broken between words, or it becomes a list."""

    def __init__(self, headers: Sequence[str], rows: Sequence[Row], lead: int = 1) -> None:
        """`lead`: so many cells stand in the first line of an entry of the list."""
        self._headers = headers
        self._rows = rows
        self._lead = lead

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for headers in (self._headers, [_in_lines(header) for header in self._headers]):
            table = indented(self._table(headers))
            needed = Measurement.get(console, options.update_width(_UNBOUNDED), table)
            fits_broken = headers is not self._headers and needed.minimum <= options.max_width
            if needed.maximum <= options.max_width or fits_broken:
                yield table
                return
        for row in self._rows:
            yield from self._entry(row)

    def _table(self, headers: Sequence[str]) -> Table:
        table = new_table(headers)
        for row in self._rows:
            table.add_row(*row)
        return table

    def _entry(self, row: Row) -> RenderResult:
        yield indented(Text("  ").join(row[: self._lead]))
        others = [*zip(self._headers, row, strict=True)][self._lead :]
        named = ((header.lower() if header.isupper() else header, cell) for header, cell in others if cell)
        parts = [Text.assemble((f"{printable(header)} ", "dim"), cell) for header, cell in named]
        yield indented(Text(", ").join(parts), 5)


_UNBOUNDED = 100_000


def _in_lines(header: str) -> str:
    """`PDBViolations` -> PDB and Violations below each other."""
    return re.sub(r"(?<=[a-zB])(?=[A-Z][a-z])| (?=\()", "\n", header)


def _plain_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def indented(part: RenderableType, by: int = 2) -> Padding:
    return Padding(part, (0, 0, 0, by), expand=False)


def and_more(count: int) -> RenderableType:
    return indented(Text(f"and {count} more: --all", style="dim"))


def named(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def several(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def amounts(of: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount(name, value)}" for name, value in of.items())


def amount(resource: str, value: int) -> str:
    """As manifests write it: 250m, 3, 4Gi."""
    if resource == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
            if abs(value) >= 1 << power:
                return f"{value / (1 << power):.1f}".removesuffix(".0") + unit
    return str(value)


def clock(time: str) -> str:
    """2026-03-01T12:00:00.123Z -> 2026-03-01 12:00:00; any other text as it is."""
    try:
        return format_time(parse_time(time)).replace("T", " ").removesuffix("Z")
    except ValueError:
        return time
