"""What HOUSE.md counts, counted: the numbers, the invariants, and the budgets of lines.

`python -m tests.house` prints the table, `python -m tests.house ROW` what a row counts, `--root PATH` counts another
revision. `python -m tests.house --update` lowers the pins after a change that made a number smaller; what makes one
larger needs `--force`, and a reason.
"""
