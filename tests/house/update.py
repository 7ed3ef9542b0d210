"""Write pins.toml, budgets.toml and exceptions.toml from what the tree has; only ever lower, unless told to raise."""

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
    return _update_pins(tree, raises) + _update_budgets(tree, raises) + _update_exceptions(tree, raises) or [
        "up to date"
    ]


def _update_pins(tree: Tree, raises: bool) -> list[str]:
    before, text, left = read(PINS), PINS_HEAD, []
    for key, count in measure(tree).items():
        if ROWS[key].is_pinned:
            pin = before.get(key)
            is_worse = pin is not None and ROWS[key].is_worse(count.number, pin)
            if is_worse and not raises:
                left.append(f"{key}: {count.number:g}, pinned to {pin:g}")
            text += f"{key} = {pin if is_worse and not raises else count.number:g}\n"
    PINS.write_text(text, encoding="utf-8")
    return left


def _update_budgets(tree: Tree, raises: bool) -> list[str]:
    before, text, left = read(BUDGETS), BUDGETS_HEAD, []
    for package, lines in sorted(package_lines(tree).items()):
        known = before.get(package, {})
        if lines > known.get("lines", 0) and not raises:
            left.append(f"{package}: {lines} lines, budget {known.get('lines', 0)}")
        size = lines if raises else min(lines, known.get("lines", 0))
        name = f'"{package}"'
        text += f'{name:26} = {{ lines = {size:4}, reason = "{known.get("reason", NO_REASON)}" }}\n'
    BUDGETS.write_text(text, encoding="utf-8")
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
