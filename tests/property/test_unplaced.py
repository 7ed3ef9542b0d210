"""A pod that has its node is judged as in a cluster where it never got one, and the snapshot is afterwards as before.

python -c 'from tests.property.test_unplaced import check; check(4711)'
"""

from hypothesis import given
from msgspec.structs import replace

from extender.core.evaluation import Evaluation
from extender.core.profile import UNCONFIGURED, UPSTREAM
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import PodStatus
from extender.report.diagnose import diagnose, node_diagnoses
from tests.builders import stored_cluster
from tests.profiles import SEEDS, examples
from tests.property.generate import case

MAX_PODS = 4
"""Pods of a cluster that are judged."""


def check(seed: int) -> None:
    objects = stored_cluster(case(seed).cluster)
    snapshot = Snapshot.build(objects)
    running = [pod for pod in objects.pods if snapshot.running_row(pod) is not None]
    for pod in running[:: len(running) // MAX_PODS + 1]:
        if pod.metadata.deletion_timestamp is not None or UNCONFIGURED.profile_of(pod) is None:
            continue
        found = diagnose(snapshot, pod, UNCONFIGURED)
        status = PodStatus(phase="Pending")
        waiting = replace(pod, spec=replace(pod.spec, node_name=""), status=status)
        others = tuple(waiting if one is pod else one for one in objects.pods)
        without = Snapshot.build(replace(objects, pods=others))
        evaluation = Evaluation(without, waiting, UPSTREAM)
        # Facts may name the same pods in another order.
        judged, expected = ([replace(one, facts=[]) for one in of] for of in (found.nodes, node_diagnoses(evaluation)))
        assert judged == expected, "a placed pod is judged otherwise than without its node"
    assert snapshot.frozen() == Snapshot.build(objects).frozen(), "the snapshot is changed"
    rebuilt = Snapshot.build(objects)
    for name in snapshot.node_names:
        assert snapshot.pods_on(name) == rebuilt.pods_on(name), "a node has other pods than before"


@given(SEEDS)
@examples(4, 200, 20_000)
def test_a_placed_pod_is_judged_as_if_it_had_no_node(seed):
    check(seed)
