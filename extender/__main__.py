"""`python -m extender` is the same as `extender`."""

from extender.cli import main

main()
