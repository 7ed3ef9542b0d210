"""Plain text for `--help`: the same on a terminal, in a pipe and on paper, in at most 80 columns.

Rule: the docstring of a command ends with examples, which work if the files that they name exist, and with the pages in
docs/ that cover the rest.
"""

from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer._click import Context, HelpFormatter
else:  # typer bundles its own copy of click, whose module path is private
    Context = TyperCommand.context_class
    HelpFormatter = Context.formatter_class

_NON_BREAKING_HYPHEN = "\u2011"
"""Placeholder for hyphens while lines are wrapped, so that `--ca-file` and kube-scheduler stay whole."""


class PlainTextFormatter(HelpFormatter):
    """Help text whose lines are wrapped only at blanks."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _NON_BREAKING_HYPHEN))

    def write_dl(self, rows: "Sequence[tuple[str, str]]", col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(term, text.replace("-", _NON_BREAKING_HYPHEN)) for term, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_NON_BREAKING_HYPHEN, "-")


class _Context(Context):
    formatter_class = PlainTextFormatter


class PlainTextCommand(TyperCommand):
    context_class = _Context


class PlainTextGroup(TyperGroup):
    context_class = _Context


def new_group(description: str, name: str | None = None) -> typer.Typer:
    """Return a group of commands, with plain-text help and `-h`."""
    settings = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(
        name=name,
        help=description,
        cls=PlainTextGroup,
        context_settings=settings,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
