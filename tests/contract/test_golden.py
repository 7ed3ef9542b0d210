"""The contracts of every reader of the engine stay as they are: answers of the verbs, /decisions, why, simulate."""

import pytest

from tests.contract.golden import answers, expected, scenarios
from tests.profiles import by_profile

EXPECTED = expected()
SCENARIOS = [(number, *one) for number, one in enumerate(scenarios())][:: by_profile(4, 1, 1)]


@pytest.mark.parametrize(("number", "name", "minor", "scenario"), SCENARIOS)
def test_answers_are_what_they_were(number, name, minor, scenario):
    found = answers(number, minor, scenario)
    assert found.keys() == EXPECTED[name].keys()
    for part, value in found.items():
        assert value == EXPECTED[name][part], f"{name}: {part} changed"
