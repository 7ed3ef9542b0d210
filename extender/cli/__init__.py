"""The `extender` command.

Rule: an ExtenderError or OSError of a command becomes one message on stderr and exit code 2, never a traceback.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from extender.cli.commands import cluster, config
from extender.cli.commands.explain import explain
from extender.cli.commands.openapi import openapi
from extender.cli.commands.replay import replay
from extender.cli.commands.serve import serve
from extender.cli.commands.simulate import simulate
from extender.cli.commands.why import why
from extender.cli.help_pages import PlainTextCommand, new_group
from extender.errors import ExtenderError
from extender.version import __version__

app = new_group(
    """Run and inspect a scheduler extender that filters, ranks and preempts exactly as kube-scheduler does.

    \b
    Examples:
      # Why a pod is pending
      extender why shop/cart-9
      # Serve the example cluster that ships with the package
      extender serve
      # Why a pod was evicted, or where it fits
      extender explain shop/cart-9
      # Create a configuration file
      extender config show > extender.yaml

    Exit codes: 0 for success, 1 if something was not found, changed or is out of date, and 2 for an invalid option,
    setting, file or address, which standard error names.

    See README.md, docs/install.md and docs/configuration.md.
    """,
    name="extender",
)
for command in (serve, why, explain, simulate, replay):
    app.command(cls=PlainTextCommand)(command)
app.add_typer(cluster.app, name="cluster")
app.add_typer(config.app, name="config")
app.command(cls=PlainTextCommand)(openapi)


def kubectl_why() -> NoReturn:
    """Run `extender why` as a kubectl plugin: `kubectl extender-why`."""
    # An application of one command, so that the usage has no further name.
    plugin = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, rich_markup_mode=None)
    plugin.command(cls=PlainTextCommand)(why)
    main(name="kubectl extender-why", command_line=plugin)


def main(
    arguments: Sequence[str] | None = None, name: str | None = None, command_line: typer.Typer | None = None
) -> NoReturn:
    """Run the command line, or another one under that name; console entry point."""
    try:
        (command_line or app)(arguments, prog_name=name)
    except (ExtenderError, OSError) as error:
        from extender.cli import logs

        for line in str(error).splitlines():
            logs.print_message(line)
        sys.exit(2)
    sys.exit(0)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"extender {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
