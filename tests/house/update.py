"""Write pins.toml, budgets.toml and exceptions.toml from what the tree has; only ever lower, unless told to raise."""

from collections.abc import Mapping
from pathlib import Path

from tests.house import exceptions
from tests.house.rows import BUDGETS, EXCEPTIONS, PINS, ROWS, measure, read
from tests.house.sizes import package_lines
from tests.house.tree import Tree

NO_REASON = "say why"
"""Reason of what --force added, for a person to replace."""

PINS_HEAD = (
    "# The numbers of `python -m tests.house`; `--update` lowers them. Only with a reason in the commit they go up.\n\n"
)
BUDGETS_HEAD = """\
# Package -> lines that it may have, and why it may have more than it had before; deeper packages count where they lie.
# `python -m tests.house --update` lowers the lines to what is there.
"""
EXCEPTIONS_HEAD = """\
# What does not follow an invariant of HOUSE.md, and why. A list only shrinks: an entry that is not needed fails a test,
# and `python -m tests.house --update` takes it out.
"""


def update(tree: Tree, *, raises: bool) -> list[str]:
    """Write the files; return what is still worse than they allow."""
    return [
        *update_pins({key: count.number for key, count in measure(tree).items()}, PINS, raises=raises),
        *update_budgets(package_lines(tree), BUDGETS, raises=raises),
        *_update_exceptions(tree, raises),
    ] or ["up to date"]


def update_pins(numbers: Mapping[str, float], path: Path, *, raises: bool) -> list[str]:
    before, text, left = read(path), PINS_HEAD, []
    for key in (key for key, row in ROWS.items() if row.is_pinned):
        number = numbers[key]
        pin = before.get(key, number)
        if ROWS[key].is_worse(number, pin) and not raises:
            left.append(f"{key}: {number:g}, pinned to {pin:g}")
            number = pin
        text += f"{key} = {number:g}\n"
    path.write_text(text, encoding="utf-8")
    return left


def update_budgets(packages: Mapping[str, int], path: Path, *, raises: bool) -> list[str]:
    before, text, left = read(path), BUDGETS_HEAD, []
    for package, lines in sorted(packages.items()):
        known = before.get(package, {"lines": 0, "reason": NO_REASON})
        if lines > known["lines"] and not raises:
            left.append(f"{package}: {lines} lines, budget {known['lines']}")
        if package in before or raises:
            name, size = f'"{package}"', lines if raises else min(lines, known["lines"])
            text += f'{name:26} = {{ lines = {size:4}, reason = "{known["reason"]}" }}\n'
    path.write_text(text, encoding="utf-8")
    return left


def _update_exceptions(tree: Tree, raises: bool) -> list[str]:
    before, text, left = read(EXCEPTIONS), EXCEPTIONS_HEAD, []
    for section, heading in exceptions.HEADINGS.items():
        found, known = exceptions.found(tree, section), before.get(section, {})
        new = sorted(found - known.keys())
        left += [] if raises else [f"{section}: {name} is new" for name in new]
        text += f"\n# {heading}\n[{section}]\n"
        for name in sorted(found if raises else found & known.keys()):
            text += f'"{name}" = "{known.get(name, NO_REASON)}"\n'
    EXCEPTIONS.write_text(text, encoding="utf-8")
    return left
