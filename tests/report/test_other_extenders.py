"""Extenders beside this one: which verdicts they leave uncertain, and where it is said (extender.go, v1.29 to v1.37).

Order of upstream: in-tree filters, extenders' filters on the nodes that are left, scores and extenders' scores,
preemption among candidates of the in-tree dry run with extenders' preempt, and an extender's bind before plugins.
"""

import pytest

import extender
from extender.core.profile import KubeScheduler, OtherExtender, Profile
from extender.report.diagnose import diagnose
from tests.builders import JSON, NodeObject, built, cluster, incoming, node, pod, typed

AT = "extenders[1] at https://vendor:443"
FREE: dict[NodeObject, list[JSON]] = {node("n1", cpu="4"): [], node("n2", cpu="8"): []}
ONE: dict[NodeObject, list[JSON]] = {node("n1", cpu="4"): []}
FULL = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=500)]}
FULL_FOR_GOOD = {node("n1", cpu="1"): [pod("a", priority=5000)]}


def scheduler(*verbs, managed=(), **profile):
    return KubeScheduler((Profile(other_extenders=(OtherExtender(AT, verbs, frozenset(managed)),), **profile),))


def reported(nodes, waiting, ours):
    return diagnose(built(cluster(nodes, waiting=[waiting])), typed(waiting), ours)


@pytest.mark.parametrize(
    ("nodes", "verbs", "verdict", "said"),
    [
        pytest.param(FREE, ("filter",), "Unknown", ["filter"], id="it filters the nodes that are left"),
        pytest.param(FREE, ("filter", "bind"), "Unknown", ["filter"], id="its bind decides nothing"),
        pytest.param(FREE, ("prioritize",), "Fits", [], id="a score moves the pod only"),
        pytest.param(FREE, ("bind",), "Fits", [], id="a bind"),
        pytest.param(FREE, ("preempt",), "Fits", [], id="nothing is preempted"),
        pytest.param(FULL, ("filter",), "Unknown", ["filter"], id="it is asked once the victims are gone"),
        pytest.param(FULL, ("preempt",), "Unknown", ["preempt"], id="it may choose other victims"),
        pytest.param(FULL, ("filter", "preempt"), "Unknown", ["preempt", "filter"], id="both"),
        pytest.param(FULL, ("prioritize", "bind"), "FitsAfterPreemption", [], id="neither is asked about candidates"),
        pytest.param(FULL_FOR_GOOD, ("filter", "preempt"), "DoesNotFit", [], id="no node is left to send"),
    ],
)
def test_the_verdict_where_another_extender_is_interested(nodes, verbs, verdict, said):
    found = reported(nodes, incoming(), scheduler(*verbs))
    assert (found.verdict, found.not_evaluated) == (verdict, [f"{AT}, {verb}" for verb in said]), found.why
    assert all(f"{AT}, {verb}" in found.why for verb in said), found.why
    assert found.notes == [
        f"{AT} is not evaluated: after its own filters, kube-scheduler calls its {', '.join(verbs)} for every pod"
    ]


def test_a_pod_that_waits_for_its_victims_is_sent_to_filters_once_they_are_gone():
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    going = pod("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=disrupted)
    waiting = incoming(status={"phase": "Pending", "nominatedNodeName": "n1"})
    verdicts = {
        verb: reported({node("n1", cpu="1"): [going]}, waiting, scheduler(verb)).verdict
        for verb in ("filter", "preempt", "prioritize")
    }
    assert verdicts == {"filter": "Unknown", "preempt": "FitsAfterPreemption", "prioritize": "FitsAfterPreemption"}


def with_resources(where, **resources):
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    own = {"name": "own", "resources": resources}
    if where == "pod":
        return incoming(containers=[main], resources=resources)
    containers: JSON = (
        {"initContainers": [own], "containers": [main]} if where == "init" else {"containers": [main, own]}
    )
    return incoming(**containers)


@pytest.mark.parametrize(
    ("waiting", "is_interested"),
    [
        pytest.param(incoming(), False, id="requests nothing of it"),
        pytest.param(with_resources("main", requests={"x.y/gpu": "1"}), True, id="a request"),
        pytest.param(with_resources("main", limits={"x.y/gpu": "1"}), True, id="a limit alone"),
        pytest.param(with_resources("main", requests={"x.y/gpu": "0"}), True, id="a request of nothing"),
        pytest.param(with_resources("init", requests={"x.y/gpu": "1"}), True, id="an init container"),
        pytest.param(with_resources("main", requests={"x.y/gpus": "1"}), False, id="another resource"),
        pytest.param(with_resources("pod", requests={"x.y/gpu": "1"}), False, id="resources of the pod itself"),
    ],
)
def test_an_extender_is_interested_in_pods_that_name_its_resources(waiting, is_interested):
    ours = scheduler("filter", managed=["x.y/gpu"], ignored_resources=frozenset({"x.y/gpu", "x.y/gpus"}))
    found = reported(FREE, waiting, ours)
    assert (found.verdict, bool(found.not_evaluated)) == (("Unknown", True) if is_interested else ("Fits", False))
    assert found.notes[0].endswith("pods that request x.y/gpu; a pod that requests none of them is not sent to it")


def test_nodes_that_the_filters_reject_are_not_sent():
    found = reported({**ONE, node("full", cpu="1"): [pod("a")]}, incoming(), scheduler("filter"))
    assert {one.name: one.not_evaluated for one in found.nodes} == {"n1": [f"{AT}, filter"], "full": []}


def test_a_score_may_move_the_pod_unless_one_node_is_left():
    ours = scheduler("prioritize", "bind")
    moved = reported(FREE, incoming(), ours).why
    assert f"without that of {AT}, prioritize, so it may be another one; {AT}, bind, binds it" in moved
    assert reported(ONE, incoming(), ours).why == f"default/incoming fits on 1 of 1 node: n1; {AT}, bind, binds it"


def test_evaluate_names_the_nodes_that_each_verb_gets():
    def named(nodes, *verbs):
        shown = extender.evaluate(cluster(nodes), incoming(), scheduler=scheduler(*verbs)).to_dict()
        return shown.get("notEvaluated", {})

    verbs = ("filter", "prioritize", "preempt", "bind")
    assert named(FREE, *verbs) == {f"{AT}, filter": ["n1", "n2"], f"{AT}, prioritize": ["n1", "n2"]}
    assert named(ONE, *verbs) == {f"{AT}, filter": ["n1"]}
    assert named(FULL, *verbs) == {f"{AT}, preempt": ["n1", "n2"]}
    assert named(FULL_FOR_GOOD, *verbs) == {}


def test_a_simulation_says_it_for_each_pod():
    result = extender.simulate(cluster(FREE), [incoming()], scheduler=scheduler("filter"))
    assert [one.not_evaluated for one in result.cycles] == [[f"{AT}, filter"]]
    assert result.notes[0].startswith(f"{AT} is not evaluated")
