"""extender config: look at the configuration."""

import typer

from extender.cli.options import ConfigOption, configuration

app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)


@app.command()
def show(config: ConfigOption = None) -> None:
    """Print the configuration in effect: every key, its meaning, its value after file and environment.

    What is printed is a configuration file again.

    [bold]Example[/bold]

      extender config show > extender.yaml
    """
    from extender.config import render

    typer.echo(render(configuration(config)), nl=False)


@app.command()
def check(config: ConfigOption = None) -> None:
    """Say whether file and environment are a valid configuration; exit code 2 and every mistake with its line if not.

    [bold]Example[/bold]

      extender config check --config extender.yaml
    """
    configuration(config)
    typer.echo(f"{config or 'the default configuration'}: valid")
