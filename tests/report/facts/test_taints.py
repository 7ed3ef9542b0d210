"""Facts about taints: every one that the pod does not tolerate, per node and counted over the nodes."""

from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.report.facts.nodes import taint_facts
from extender.report.facts.schema import FactCount, TaintFact
from tests.builders import built, cluster, incoming, node, typed
from tests.report.facts.cost import growth
from tests.report.facts.diagnosed import diagnosed

GPU = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
NOT_READY = {"key": "agent-not-ready", "effect": "NoExecute"}
SLOW = {"key": "slow", "effect": "PreferNoSchedule"}
GPU_FACT = TaintFact(key="gpu", value="true", effect="NoSchedule")
NOT_READY_FACT = TaintFact(key="agent-not-ready", effect="NoExecute")


def test_every_taint_that_is_not_tolerated_is_named_and_counted():
    found = diagnosed(
        [node("a", taints=[GPU, SLOW, NOT_READY]), node("b", taints=[GPU]), node("c", taints=[NOT_READY, GPU])]
    )
    assert {one.name: one.facts for one in found.nodes} == {
        "a": [GPU_FACT, NOT_READY_FACT],
        "b": [GPU_FACT],
        "c": [NOT_READY_FACT, GPU_FACT],
    }
    (reason,) = found.reasons
    assert reason.facts == [FactCount(fact=GPU_FACT, nodes=3), FactCount(fact=NOT_READY_FACT, nodes=2)]
    assert (
        "3 with a taint that it does not tolerate (gpu=true:NoSchedule; agent-not-ready:NoExecute on 2);" in found.why
    )


def test_a_tolerated_taint_is_no_fact():
    found = diagnosed(
        [node("a", taints=[GPU, NOT_READY])], incoming(tolerations=[{"key": "gpu", "operator": "Exists"}])
    )
    assert [one.facts for one in found.nodes] == [[NOT_READY_FACT]]
    assert (
        "default/incoming does not fit on a: node(s) had untolerated taint(s) (agent-not-ready:NoExecute);" in found.why
    )


def test_a_node_on_which_the_pod_fits_has_no_facts():
    assert [one.facts for one in diagnosed([node("a", taints=[SLOW])]).nodes] == [[]]


def test_the_cost_is_linear_in_the_taints_and_tolerations():
    def work_of(size):
        taints = [{"key": f"t{at}", "effect": "NoSchedule"} for at in range(size)]
        tolerations = [{"key": f"other{at}", "operator": "Exists"} for at in range(size)]
        snapshot = built(cluster({node("a", taints=taints): []}))
        evaluation = Evaluation(snapshot, typed(incoming(tolerations=tolerations)), Profile())
        assert evaluation.filter is not None, "the filters ran before"
        return lambda: taint_facts(evaluation)(0)

    assert growth(work_of, 100) < 2.5


def test_only_the_taints_of_nodes_that_are_asked_for_are_compared():
    def work_of(size):
        nodes = [node(f"n{at:03}", taints=[{"key": f"t{at}", "effect": "NoSchedule"}]) for at in range(size)]
        evaluation = Evaluation(built(cluster(dict.fromkeys(nodes, ()))), typed(incoming()), Profile())
        assert evaluation.filter is not None, "the filters ran before"
        return lambda: taint_facts(evaluation)(0)

    assert growth(work_of, 100) < 1.1
