"""Tables as kubectl prints them: columns of one width, nothing wrapped.

Rule: every cell is plain text with unprintable characters escaped.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from extender.errors import printable
from extender.utilities.text import more

MAX_SUMMARY_ROWS = 20
"""Rows of each table of a summary."""

TextRow = Sequence[str]

_STYLES = {"Warning": "yellow", "Preempted": "red", "Scheduled": "green", "≠": "bold yellow"}


def format_table(head: TextRow, rows: Iterable[TextRow], limit: int | None = None) -> list[Text]:
    """Pad every column but the last to its widest cell; nothing is wrapped."""
    shown = [tuple(map(printable, row)) for row in rows]
    left, shown = (shown[limit:], shown[:limit]) if limit is not None else ([], shown)
    widths = [max(len(cell) for cell in column) for column in zip(head, *shown, strict=True)]
    lines = [_format_line(head, widths, "dim")] + [_format_line(row, widths) for row in shown]
    return lines + ([Text(f"… and {more(len(left))}; -o json shows all", style="dim")] if left else [])


def summary_table(head: TextRow, rows: Iterable[TextRow]) -> list[Text]:
    """Return a table of limited length; nothing without rows."""
    rows = list(rows)
    return format_table(head, rows, MAX_SUMMARY_ROWS) if rows else []


def separated(blocks: Iterable[Sequence[Text]]) -> Iterator[Text]:
    """Yield the lines of the blocks with an empty line between two that have any."""
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
