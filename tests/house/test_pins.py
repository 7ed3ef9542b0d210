"""The numbers of `python -m tests.house` only improve (HOUSE.md, I6 and I8)."""

from tests.house.rows import BUDGETS, PINS, ROWS, measure, read
from tests.house.sizes import package_lines

PINNED = {key for key, row in ROWS.items() if row.is_pinned}
LOWER = "lower the pin in the same change: python -m tests.house --update"


def test_I6_no_number_gets_worse(tree):
    """Functions and returns of a call among them; a better number is pinned at once, so that it stays."""
    pins, counts, found = read(PINS), measure(tree), []
    for key in sorted(PINNED & pins.keys()):
        number, pin = counts[key].number, pins[key]
        if ROWS[key].is_worse(number, pin):
            found.append(f"{key}: {number:g}, pinned to {pin:g}: {ROWS[key].title}; see python -m tests.house {key}")
        elif number != pin:
            found.append(f"{key}: {number:g}, pinned to {pin:g}: {LOWER}")
    assert not found, "\n".join(found)


def test_every_pinned_row_has_a_pin_and_nothing_else_has():
    assert read(PINS).keys() == PINNED


ROOM = {"core.framework": 120}
"""Package -> lines beside its budget: a filter plugin can be added in four files (CONTRIBUTING.md)."""


def test_I8_no_package_has_more_lines_than_its_budget(tree):
    found, budgets = package_lines(tree), {name: one["lines"] for name, one in read(BUDGETS).items()}
    over = [f"{name}: {n} of {budgets[name]}" for name, n in found.items() if n > budgets[name] + ROOM.get(name, 0)]
    assert not over, f"write less, or raise the budget with its reason in {BUDGETS.name}: {over}"


def test_I8_every_package_has_a_budget_with_a_reason(tree):
    budgets = read(BUDGETS)
    assert budgets.keys() == package_lines(tree).keys(), "python -m tests.house --update --force, and say why"
    assert all(len(one["reason"].split()) > 2 for one in budgets.values())
