"""Render rows of figures as one plain-text table with aligned columns."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = ("what", "runs", "median", "min .. max", "p75/p25", "mean", "p99", "against", "ratio", "limit", "met")
_TEXT = ("what", "against", "met")
QUIET = 1.3
"""Quotient of the upper and lower quartile from which a row counts as noisy: measure again on a quieter machine."""


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Render all rows, given as `Row.to_dict` returns them."""
    return aligned([HEADINGS, *map(cells, rows)], _TEXT)


def aligned(lines: Sequence[Sequence[str]], text: Sequence[str]) -> str:
    """Align lines of cells, headings first; the columns named in `text` are left-aligned, all others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = [heading in text for heading in lines[0]]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in (lines[0], rule, *lines[1:])
    )


def one_line(row: Mapping[str, Any]) -> str:
    """Render a row for progress output on stderr."""
    return f"{title(row)}: {number(row['median'])} {row['unit']}"


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['group']}: {title(row)}",
        str(row["runs"]),
        f"{number(row['median'])} {row['unit']}",
        f"{number(row['min'])} .. {number(row['max'])}",
        quartiles(row),
        number(row["mean"]),
        "" if row["p99"] is None else number(row["p99"]),
        row["against"] or "",
        ratio(row),
        row["limit"] or "",
        {True: "yes", False: "NOT MET", None: ""}[row["met"]],
    )


def quartiles(row: Mapping[str, Any]) -> str:
    """Render how far the quartiles of a row are apart, and whether that is too far."""
    if row["quartiles"] is None:
        return ""
    return f"{row['quartiles']:.2f}{' noisy' if row['quartiles'] >= QUIET else ''}"


def title(row: Mapping[str, Any]) -> str:
    """Return the row's name with its requirement, its own cluster size if it has one, and its note."""
    requirement = f"{row['requirement']}: " if row["requirement"] else ""
    nodes = "" if row["nodes"] is None else f", {row['nodes']:,} nodes"
    note = f" ({row['note']})" if row["note"] else ""
    return f"{requirement}{row['name']}{nodes}{note}"


def ratio(row: Mapping[str, Any]) -> str:
    if row["ratio"] is None:
        return ""
    return f"{number(row['ratio'])}{' x faster' if row['faster'] else ''}"


def number(value: float) -> str:
    """Format with three significant digits."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 4)}f}"
