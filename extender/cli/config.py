"""`extender config`: print and check the configuration."""

import typer

from extender.cli import help_pages
from extender.cli.options import ConfigOption, read_configuration

app = typer.Typer(
    help="Print and check the configuration.",
    cls=help_pages.DocumentedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=help_pages.DocumentedCommand)
def show(config: ConfigOption = None) -> None:
    """Print the effective configuration, with a comment for each key.

    Values come from the file and the environment. The output is a valid configuration file.
    """
    from extender.config import render

    typer.echo(render(read_configuration(config)), nl=False)


@app.command(cls=help_pages.DocumentedCommand)
def check(config: ConfigOption = None) -> None:
    """Validate the configuration, including environment overrides."""
    read_configuration(config)
    typer.echo(f"{config or 'the default configuration'}: valid")
