"""The engine as single patch releases of a minor, each against its own verdicts: corpus/patches.jsonl.gz.

A line is a minimal scenario, as in the other files, with `why` it is there and `verdicts`: patch release -> what that
release says.
"""

import msgspec
import pytest

from extender import Snapshot
from extender.cluster.files.manifests import load_cluster
from extender.config.scheduler import kube_scheduler_of
from extender.k8s.version.minor import parse_version
from tests.parity.agreement import CORPUS, JSON, lines_of
from tests.parity.cycles import cycle_differences, is_told
from tests.parity.diagnoses import diagnosis_differences
from tests.parity.parity import Evaluated
from tests.parity.versions import normal_of

SCENARIOS = {one["id"]: one for one in map(msgspec.json.decode, lines_of(CORPUS / "patches.jsonl.gz"))}


def differences(scenario: JSON, patch: str) -> list[object]:
    """What the engine as this patch says otherwise than its own code does: verdict, cycle and diagnosis."""
    scheduler = kube_scheduler_of({}, version=patch, feature_gates=scenario.get("gates", {}))
    normal = normal_of(parse_version(patch).minor)
    snapshot = Snapshot.build(load_cluster(scenario["cluster"]), scheduler.features)
    one = Evaluated.of(scenario | {"expected": scenario["verdicts"][patch]}, scheduler, normal, snapshot)
    found = [*one.differences, *(cycle_differences(one) if is_told(one) else ())]
    found += diagnosis_differences(one, normal)
    return [] if one.excused(found) else found


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_patch_s_own_verdict_is_given(name):
    scenario = SCENARIOS[name]
    wrong = {patch: found for patch in scenario["verdicts"] if (found := differences(scenario, patch))}
    assert wrong == {}, scenario["why"]
