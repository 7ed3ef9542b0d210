"""The engine under feature gates that differ from a minor's defaults, against kube-scheduler's own verdicts.

corpus/gates.jsonl.gz: lines {"id", "minor", "gates", "cluster", "pod", "expected"} by v1.37 to v1.33, most of
which were kept because the gates make a difference there.
"""

from typing import TypedDict

import msgspec
import pytest

from tests.parity.agreement import CORPUS, JSON, lines_of, load
from tests.parity.cycles import cycle_differences, is_told
from tests.parity.versions import evaluated


class Gates(TypedDict):
    """A scenario without its cluster, which not every process that collects these tests needs to decode."""

    minor: int
    gates: dict[str, bool]


@pytest.fixture(scope="module")
def scenarios():
    return load("gates")


def gates_of(scenario: Gates | JSON) -> str:
    gates = ",".join(f"{name}={str(value).lower()}" for name, value in scenario["gates"].items())
    return f"1.{scenario['minor']} {gates}"


EVERY_GATES = [gates_of(msgspec.json.decode(line, type=Gates)) for line in lines_of(CORPUS / "gates.jsonl.gz")]


@pytest.mark.parametrize("gates", dict.fromkeys(EVERY_GATES))
def test_verdicts_under_changed_gates_are_kube_scheduler_s(gates, scenarios):
    wrong = {}
    for scenario in scenarios:
        if gates_of(scenario) == gates:
            one = evaluated(scenario, scenario["minor"])
            assert one.excuse is None
            if found := [*one.differences, *(cycle_differences(one) if is_told(one) else ())]:
                wrong[scenario["id"]] = found[:3]
    assert wrong == {}


@pytest.mark.slow
def test_most_of_them_are_judged_otherwise_with_default_gates(scenarios):
    differing = [one for one in scenarios if evaluated(one | {"gates": {}}, one["minor"]).differences]
    assert len(differing) > 40
    assert {
        "StorageCapacityScoring",
        "PodLevelResources",
        "VolumeAttributesClass",
        "DRAExtendedResource",
        "MatchLabelKeysInPodTopologySpread",
    } <= {name for one in differing for name in one["gates"]}
