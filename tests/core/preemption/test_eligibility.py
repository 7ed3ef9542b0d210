"""Which pods may not preempt at all: those that kube-scheduler never sends, and those that the cache knows better."""

import pytest

from extender.core import engine
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import UPSTREAM, PreemptionPolicy, Profile
from extender.k8s.candidates import SentCandidate
from tests.builders import STARTED, built, cluster, incoming, node, pod, typed

TERMINATING = {"deletionTimestamp": STARTED}
NODES = {node("n1", cpu="2"): [pod("a", cpu="2", priority=10), pod("done", phase="Succeeded")]}


def decide(preemptor, waiting=(), profile=UPSTREAM):
    snapshot = built(cluster(NODES, waiting=waiting))
    return engine.preempt(snapshot, typed(preemptor), {"n1": SentCandidate(("uid-a",))}, profile)


REFUSED = {
    "it has a node": (incoming(nodeName="n1"), (), "is assigned to node n1 already"),
    "it terminates": (incoming(metadata=TERMINATING), (), "skip schedule deleting pod: default/incoming"),
    "it has finished": (pod("incoming", phase="Failed", priority=100), (), "is Failed already"),
    "it is gated": (incoming(schedulingGates=[{"name": "g"}] * 2), (), "waits for 2 scheduling gates"),
    "it runs by the cache": (incoming("a"), (), "is assigned to node n1 already"),
    "it terminates by the cache": (incoming(), [incoming(metadata=TERMINATING)], "skip schedule deleting pod"),
    "it has finished by the cache": (incoming("done"), (), "is assigned to node n1 already"),
    "its UID runs": (incoming(metadata={"uid": "uid-a"}), (), "its UID is that of pod default/a, which runs already"),
}


@pytest.mark.parametrize(("preemptor", "waiting", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("candidates", ["Sent", "AllNodes"])
def test_H6_a_pod_that_does_not_wait_for_a_node_evicts_none(preemptor, waiting, reason, candidates):
    decision = decide(preemptor, waiting, Profile(preemption=PreemptionPolicy(candidates=candidates)))
    assert decision.kept == ()
    assert decision.vetoed is not None
    assert decision.vetoed.startswith("the pod may not preempt (")
    assert reason in decision.vetoed
    assert {one.code for one in decision.dropped.values()} == {RejectionReason.REFUSED}
    assert not decision.contradicts_scheduler


TAKEN = {
    "unknown": (incoming(), ()),
    "known": (incoming(), [incoming()]),
    "gated by the cache, which is behind": (incoming(), [incoming(schedulingGates=[{"name": "g"}])]),
    "another pod of its name, which terminates": (incoming(), [incoming(metadata=TERMINATING | {"uid": "uid-old"})]),
    "another pod of its name, which runs": (incoming("a", metadata={"uid": "uid-new"}), ()),
}


@pytest.mark.parametrize(("preemptor", "waiting"), TAKEN.values(), ids=TAKEN)
def test_every_other_pod_may_preempt(preemptor, waiting):
    decision = decide(preemptor, waiting)
    assert [[one.metadata.name for one in candidate.victims] for candidate in decision.kept] == [["a"]]
