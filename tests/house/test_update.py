"""`python -m tests.house --update` lowers what became smaller, and raises nothing without --force."""

from tests.house.rows import ROWS, read
from tests.house.update import update_budgets, update_pins

NUMBERS = {key: 10.0 for key, row in ROWS.items() if row.is_pinned}


def test_pins_are_lowered_and_raised_only_by_force(tmp_path):
    path = tmp_path / "pins.toml"
    path.write_text("lrus = 7\nhelpers = 12\ncomments = 12\n", encoding="utf-8")
    left = update_pins(NUMBERS, path, raises=False)
    assert left == ["lrus: 10, pinned to 7", "comments: 10, pinned to 12"]
    assert read(path) == NUMBERS | {"lrus": 7, "comments": 12}
    assert update_pins(NUMBERS, path, raises=True) == []
    assert read(path) == NUMBERS


def test_budgets_are_lowered_and_raised_only_by_force(tmp_path):
    path = tmp_path / "budgets.toml"
    before = {"cli": "a", "core": "b", "gone": "c"}
    text = "".join(f'"{name}" = {{ lines = 9, reason = "{reason}" }}\n' for name, reason in before.items())
    path.write_text(text, encoding="utf-8")
    lines = {"cli": 8, "core": 10, "new": 1}
    assert update_budgets(lines, path, raises=False) == ["core: 10 lines, budget 9", "new: 1 lines, budget 0"]
    assert read(path) == {"cli": {"lines": 8, "reason": "a"}, "core": {"lines": 9, "reason": "b"}}
    update_budgets(lines, path, raises=True)
    assert {name: one["lines"] for name, one in read(path).items()} == lines
