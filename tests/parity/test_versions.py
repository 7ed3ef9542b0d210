"""The engine as each minor beside v1.36, against that minor's own verdicts: some by default, all in CI."""

from collections import Counter
from itertools import chain

import pytest

from tests.parity.cycles import cycle_differences, is_told
from tests.parity.diagnoses import diagnosis_differences
from tests.parity.judged import BASE_MINOR, base_minor
from tests.parity.parity import PAGE
from tests.parity.versions import (
    HEADER,
    MINORS,
    VERDICTS,
    VERSIONED,
    VersionAgreement,
    accepted,
    judged,
    minors_of,
    names_of,
    normal_of,
    row,
    verdicts,
    verdicts_file,
)
from tests.profiles import by_profile

EVERY = by_profile(100, 1, 1)
"""Compare each Nth scenario of which an older minor has a verdict of its own."""
EVERY_OF_NEWEST = by_profile(40, 1, 1)
"""Compare each Nth scenario of the newest minor."""


@pytest.mark.parametrize("category", VERSIONED)
def test_every_minor_s_own_verdicts_and_cycles_are_given(category):
    wrong: dict[str, list[object]] = {}
    compared: Counter[int] = Counter()
    exempt: Counter[int] = Counter()
    older = [minor for minor in minors_of(category) if minor < MINORS[-1]]
    for minor, scenario, one in chain(judged(category, older, EVERY), judged(category, MINORS[-1:], EVERY_OF_NEWEST)):
        compared[minor] += 1
        if one is None:
            differing: list[object] = [*accepted(scenario, minor)]
        else:
            exempt[minor] += one.excuse is not None
            differing = [*one.differences, *(cycle_differences(one) if is_told(one) else ())]
            differing += diagnosis_differences(one, normal_of(minor))
            differing = [] if one.excused(differing) else differing
        if differing:
            wrong[f"1.{minor} {scenario['id']}"] = differing[:3]
    assert wrong == {}
    assert compared.total() > 0
    if EVERY == 1:
        every = [VersionAgreement(category, minor, compared[minor], exempt[minor], {}) for minor in compared]
        assert row(every) in PAGE.read_text(encoding="utf-8"), "run `make parity`"


def test_every_file_of_verdicts_is_of_a_category_and_names_its_scenarios():
    assert {*VERDICTS.iterdir()} == {verdicts_file(one) for one in VERSIONED if base_minor(one) == BASE_MINOR}
    assert HEADER in PAGE.read_text(encoding="utf-8"), "run `make parity`"
    told = verdicts("wide/config")
    assert {minor for _, minor in told} == set(MINORS)
    assert {name for name, _ in told} <= {*names_of("wide/config")}
