"""Feature gates that are not at their default, as kube-scheduler's own code judges with them.

corpus/gates.jsonl.gz: lines {"id", "minor", "gates", "cluster", "pod", "expected"} by v1.36 and v1.33.
"""

from collections import Counter

from tests.parity.agreement import load
from tests.parity.versions import evaluated


def test_every_scenario_under_changed_gates_agrees():
    scenarios = load("gates")
    found = {one["id"]: evaluated(one, one["minor"]).differences[:3] for one in scenarios}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert len(scenarios) >= 60
    assert {"StorageCapacityScoring", "VolumeLimitScaling", "TaintTolerationComparisonOperators"} <= Counter(
        name for one in scenarios for name in one["gates"]
    ).keys()
