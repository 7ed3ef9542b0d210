"""What admission makes of a manifest is what a real API server made of it."""

import pytest

from tests.parity.admission.comparison import Pair
from tests.parity.admission.pairs import NEWEST, OLDER, differences, pairs

KNOWN = {
    "no-image-0": "people leave the image out in a what-if: it is named, and refused with --strict only",
    "system-fields-given-0": "an object with a UID is taken for one that an API server has stored",
    "job-generate-name-0": "the label job-name has the generated name, which is random",
}
"""Id of a pair that differs -> why."""

_DROPPED = "a 1.34 API server drops the field, whose feature gate is off there; its kube-scheduler does not read it"
KNOWN_OLDER = {34: dict.fromkeys(("slice-0", "slice-request-policy-0", "slice-taint-effect-0"), _DROPPED)}
"""Minor -> id of a pair that differs there only -> why."""


@pytest.mark.parametrize(
    "pair",
    [pair for minor in (NEWEST, *OLDER) for pair in pairs(minor)],
    ids=lambda pair: f"1.{pair['minor']}-{pair['id']}",
)
def test_an_object_is_admitted_as_an_api_server_does(pair: Pair):
    found = differences(pair)
    if pair["id"] in KNOWN or pair["id"] in KNOWN_OLDER.get(pair["minor"], {}):
        assert found, "agrees: take it out of KNOWN"
    else:
        assert not found, "\n".join(found)


def test_known_differences_are_pairs():
    assert {pair["id"] for pair in pairs()} >= KNOWN.keys()
    assert all(KNOWN.values()), "each has its reason"
