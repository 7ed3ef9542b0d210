"""Print the table of HOUSE.md: `python -m tests.house [ROW] [--root PATH] [--update [--force]]`.

ROW prints what a row counts, one line each. --root counts another revision, a git worktree. --update lowers the pins
(pins.toml), the budgets of lines (budgets.toml) and the lists of exceptions (exceptions.toml) to what the repository
has; --force also raises them.
"""

import argparse
import sys
from pathlib import Path

from tests.house.rows import ROWS, measure
from tests.house.tree import ROOT, Tree
from tests.house.update import update


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.partition("\n")[0])
    parser.add_argument("row", nargs="?", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--root", type=Path, default=ROOT, help="another revision; default: this one")
    parser.add_argument("--update", action="store_true", help="lower pins, budgets and exceptions")
    parser.add_argument("--force", action="store_true", help="with --update: raise them, too")
    given = parser.parse_args()
    tree = Tree(given.root.resolve())
    if given.update and tree.root != ROOT:
        parser.error("--update is about this repository")
    lines = (
        update(tree, raises=given.force) if given.update else table(tree) if given.row is None else one(tree, given.row)
    )
    sys.stdout.write("\n".join(lines) + "\n")


def table(tree: Tree) -> list[str]:
    return [
        f"{key:21} {count.number:>8g}  {ROWS[key].goal:8}  {ROWS[key].title}" for key, count in measure(tree).items()
    ]


def one(tree: Tree, key: str) -> list[str]:
    count = ROWS[key].count(tree)
    return [*count.items, f"{key}: {count.number:g} {ROWS[key].title} {ROWS[key].goal and f'(goal {ROWS[key].goal})'}"]


if __name__ == "__main__":
    main()
