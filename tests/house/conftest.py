"""The repository, read once."""

import pytest

from tests.house.tree import Tree


@pytest.fixture(scope="session")
def tree():
    return Tree()
