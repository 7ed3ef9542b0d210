"""The command line is built once for all tests.

typer builds it for each call, which takes longer than most commands.
"""

import gc
from functools import cache

import pytest
import typer.main
import typer.testing


@pytest.fixture(scope="package", autouse=True)
def built_once():
    with pytest.MonkeyPatch.context() as patch:
        get_command = cache(typer.main.get_command)
        patch.setattr(typer.main, "get_command", get_command)
        patch.setattr(typer.testing, "_get_command", get_command)
        yield


@pytest.fixture(autouse=True)
def nothing_frozen():
    """A command that reads a cluster begins with a garbage collection if an earlier one did: 0.4 s in this process."""
    gc.unfreeze()
