"""extender config: look at the configuration."""

import typer

from extender.cli import help_pages
from extender.cli.options import ConfigOption, configuration

app = typer.Typer(help="Look at the configuration.", cls=help_pages.Group, no_args_is_help=True, rich_markup_mode=None)


@app.command(cls=help_pages.Command)
def show(config: ConfigOption = None) -> None:
    """Print the configuration in effect, each key with its meaning.

    The values are those after file and environment. What is printed is a configuration file again.
    """
    from extender.config import render

    typer.echo(render(configuration(config)), nl=False)


@app.command(cls=help_pages.Command)
def check(config: ConfigOption = None) -> None:
    """Check a configuration, with what the environment puts over it."""
    configuration(config)
    typer.echo(f"{config or 'the default configuration'}: valid")
