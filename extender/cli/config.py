"""`extender config`: print and check the configuration."""

import typer

from extender.cli.help_pages import PlainTextCommand, new_group
from extender.cli.options import ConfigOption, read_configuration

app = new_group("""Print and check the configuration.

    \b
    Examples:
      # Create a configuration file
      extender config show > extender.yaml
      # Validate a file before deploying it
      extender config check --config extender.yaml

    See docs/configuration.md.
    """)


@app.command(cls=PlainTextCommand)
def show(config: ConfigOption = None) -> None:
    """Print the effective configuration, with a comment for each key.

    Values come from the file and the environment. The output is a valid configuration file.

    \b
    Examples:
      # Every setting with its default
      extender config show
      # The effective settings of a file
      extender config show --config extender.yaml

    See docs/configuration.md and docs/policies.md.
    """
    from extender.config import render

    typer.echo(render(read_configuration(config)), nl=False)


@app.command(cls=PlainTextCommand)
def check(config: ConfigOption = None) -> None:
    """Validate the configuration, including environment overrides.

    \b
    Examples:
      # Validate a file before deploying it
      extender config check --config extender.yaml
      # Validate a setting of the environment
      EXTENDER_LOG__FORMAT=JSON extender config check

    See docs/configuration.md.
    """
    read_configuration(config)
    typer.echo(f"{config or 'the default configuration'}: valid")
