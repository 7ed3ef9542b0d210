"""Run the CLI as `python -m extender`."""

from extender.cli import main

main()
