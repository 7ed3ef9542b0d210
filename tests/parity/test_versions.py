"""The engine as kube-scheduler v1.29 to v1.35, against each minor's own verdicts: a few by default, all in CI."""

import pytest

from tests.parity.agreement import CORPUS
from tests.parity.versions import MINORS, VERDICTS, VERSIONED, differences, minors_of, scenarios, verdicts
from tests.profiles import by_profile

EVERY = by_profile(100, 1, 1)
"""Compare each Nth scenario that differs from v1.36."""


@pytest.mark.parametrize("category", VERSIONED)
def test_every_minor_s_own_verdicts_are_given(category):
    wrong, compared = {}, 0
    for minor in minors_of(category):
        for scenario in scenarios(category, minor, EVERY):
            compared += 1
            if found := differences(scenario, minor):
                wrong[f"1.{minor} {scenario['id']}"] = found[:3]
    assert wrong == {}
    assert compared > 0


def test_every_file_of_verdicts_is_of_a_category_and_names_its_scenarios():
    categories = {category.removeprefix("wide/") for category in VERSIONED}
    assert {path.name.removesuffix(".jsonl.gz") for path in VERDICTS.glob("*.jsonl.gz")} == categories
    assert {path.name for path in CORPUS.glob("versions/*")} == {path.name for path in VERDICTS.glob("*.jsonl.gz")}
    told = verdicts("wide/config")
    assert {minor for _, minor in told} == set(MINORS)
    assert {name for name, _ in told} <= {scenario["id"] for scenario in scenarios("wide/config", 36)}
