"""What a candidate costs: each criterion between two nodes that are otherwise equal, and by hand; several in order.

Where two nodes cost the same, the first one by name is taken: n1. So whatever speaks for n2 is what a case is about.
"""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.preemption.criteria import CRITERIA, TIE_BREAKERS, ranking_keys
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_IMPORTANCE,
    EXTRA_RANKING,
    PreemptionPolicy,
    Profile,
)
from extender.core.snapshot.pod_table import start_time
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.workloads import (
    ALREADY_BELOW_MINIMUM,
    NamespaceIndex,
    PodGroupIndex,
    WorkloadIndex,
)
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import COSCHEDULING, COSCHEDULING_LABEL, SCHEDULING
from extender.k8s.well_known import DELETION_COST, EVICTION_COST
from extender.k8s.workloads import PodGroup, PodGroupSpec, workload_of
from tests.builders import budget, built, cluster, incoming, node, placed, pod, thing, typed
from tests.profiles import SEEDS, by_profile, examples
from tests.property.generate import case

ALL = (*DEFAULT_RANKING, *EXTRA_RANKING)


def profile(*ranking, importance=DEFAULT_IMPORTANCE, keep=1):
    return Profile(
        keep_candidates=keep, preemption=PreemptionPolicy(ranking=ranking or DEFAULT_RANKING, importance=importance)
    )


def order_of(nodes, chosen, preemptor=None, **others):
    """The candidates, best first."""
    here = built(cluster(nodes, **others))
    sent = _offers(*(one.name for one in nodes))
    return [one.node for one in engine.preempt(here, typed(preemptor or incoming()), sent, keeping(chosen)).kept]


def keeping(chosen, keep=None):
    return Profile(keep_candidates=keep, preemption=chosen.preemption)


def _offers(*names):
    return {name: SentCandidate(()) for name in names}


def tried(here, preemptor, chosen):
    return Evaluation(here, preemptor, chosen).policies


def keys(nodes, *ranking, preemptor=None, **others):
    """Node -> what it costs."""
    run = tried(built(cluster(nodes, **others)), typed(preemptor or incoming()), profile(*ranking))
    places = np.flatnonzero(run.candidate)
    names = [run.snapshot.node_names[row] for row in run.rows[places]]
    return dict(zip(names, zip(*(key.tolist() for key in ranking_keys(run, places).flat), strict=True), strict=True))


def annotated(amount, key=DELETION_COST):
    return {"metadata": {"annotations": {key: str(amount)}}}


def owned(kind, name):
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]}


# --- one criterion ----------------------------------------------------------------------------------------------------


def one(**fields):
    """The pod of a node with room for no other one."""
    return [("x", fields)]


@pytest.mark.parametrize(
    ("criterion", "worse", "better"),
    [
        pytest.param("PDBViolations", one(labels={"app": "kept"}), one(), id="1: a broken budget"),
        pytest.param("HighestPriority", one(priority=2), one(priority=1), id="2: the highest priority"),
        pytest.param(
            "HighestPriority",
            [("x", {"priority": 3}), ("y", {"priority": -9})],
            [("x", {"priority": 2}), ("y", {"priority": 2})],
            id="3: of several the highest one",
        ),
        pytest.param(
            "PrioritySum",
            [("x", {"priority": 5}), ("y", {"priority": 5})],
            [("x", {"priority": 7}), ("y", {"priority": 2})],
            id="4: the sum: 10 is more than 9",
        ),
        pytest.param("PrioritySum", [("x", {"priority": -5}), ("y", {})], one(priority=9), id="5: one more costs more"),
        pytest.param("VictimCount", [("x", {}), ("y", {})], one(priority=900), id="6: how many"),
        pytest.param(
            "LatestStartTime", one(), one(start="2026-01-01T00:00:01Z"), id="7: who started later is less of a loss"
        ),
        pytest.param(
            "LatestStartTime",
            [("x", {"priority": 5}), ("y", {"start": "2026-01-03T00:00:00Z"})],
            [("x", {"priority": 5, "start": "2026-01-02T00:00:00Z"}), ("y", {"start": "2025-01-01T00:00:00Z"})],
            id="8: only those of the highest priority",
        ),
        pytest.param(
            "LatestStartTime",
            [("x", {}), ("y", {"start": "2026-01-05T00:00:00Z"})],
            [("x", {"start": "2026-01-02T00:00:00Z"}), ("y", {"start": "2026-01-02T00:00:00Z"})],
            id="9: of these the one that started first",
        ),
        pytest.param("PodDeletionCost", one(**annotated(1)), one(), id="10: deletion costs"),
        pytest.param("PodDeletionCost", one(), one(**annotated(-1)), id="11: below zero"),
        pytest.param(
            "PodDeletionCost",
            [("x", annotated(3)), ("y", annotated(3))],
            [("x", annotated(5)), ("y", {})],
            id="12: their sum: 6 is more than 5",
        ),
        pytest.param(
            "PodDeletionCost",
            [("x", annotated(2**31 - 1)), ("y", annotated(2**31 - 1))],
            one(**annotated(2**31 - 1)),
            id="13: sums beyond 32 bits",
        ),
        pytest.param("EvictionCost", one(**annotated(1, EVICTION_COST)), one(**annotated(9)), id="14: eviction costs"),
        pytest.param(
            "QoSClass",
            [("x", {"status": {"qosClass": "Guaranteed"}}), ("y", {"status": {"qosClass": "BestEffort"}})],
            [("x", {"status": {"qosClass": "Burstable"}}), ("y", {"status": {"qosClass": "Burstable"}})],
            id="15: the best quality of service among them",
        ),
        pytest.param(
            "GracePeriod",
            [("x", {"terminationGracePeriodSeconds": 60}), ("y", {"terminationGracePeriodSeconds": 0})],
            [("x", {"terminationGracePeriodSeconds": 59}), ("y", {"terminationGracePeriodSeconds": 59})],
            id="16: until the last one has stopped",
        ),
        pytest.param(
            "Workloads",
            [("x", {}), ("y", {})],
            [("x", {"metadata": owned("Job", "w")}), ("y", {"metadata": owned("Job", "w")})],
            id="17: how many workloads lose a pod",
        ),
    ],
)
def test_a_criterion_decides_between_two_nodes(criterion, worse, better):
    """Whichever comes first by name."""
    nodes = {"n1": worse, "n2": better}
    turned = {"n1": better, "n2": worse}
    nodes, turned = ({_core(name): _full(name, pods) for name, pods in one.items()} for one in (nodes, turned))
    given = {"budgets": [budget(app="kept")]}
    assert order_of(nodes, profile(criterion), **given) == ["n2", "n1"]
    assert order_of(turned, profile(criterion), **given) == ["n1", "n2"]


def _core(name):
    return node(name, cpu="1")


def _full(where, pods):
    """Pods that take equal parts of one core, so that all of them have to go."""
    return [pod(f"{where}-{name}", f"{1000 // len(pods)}m", **fields) for name, fields in pods]


@pytest.mark.parametrize("criterion", ALL)
def test_nodes_that_are_equal_stay_equal_and_go_by_name(criterion):
    nodes = {node(name, cpu="1"): [pod(f"{name}-x")] for name in ("n3", "n1", "n2")}
    assert order_of(nodes, profile(criterion)) == ["n1", "n2", "n3"]
    assert len(set(keys(nodes, criterion).values())) == 1


def test_every_criterion_that_may_be_named_is_there():
    assert set(CRITERIA) == {*ALL, *TIE_BREAKERS}


# --- several ----------------------------------------------------------------------------------------------------------

THREE = {
    node("n1", cpu="1"): [pod("a", priority=5, **annotated(1))],
    node("n2", cpu="1"): [pod("b", priority=5, start="2026-01-02T00:00:00Z", **annotated(3))],
    node("n3", cpu="1"): [pod("c", priority=1, **annotated(2))],
}


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        pytest.param(("HighestPriority",), ["n3", "n1", "n2"], id="1: priority, then by name"),
        pytest.param(("HighestPriority", "LatestStartTime"), ["n3", "n2", "n1"], id="2: priority, then start"),
        pytest.param(("LatestStartTime", "HighestPriority"), ["n2", "n3", "n1"], id="3: start, then priority"),
        pytest.param(("PodDeletionCost", "HighestPriority"), ["n1", "n3", "n2"], id="4: cost goes before priority"),
        pytest.param(("HighestPriority", "PodDeletionCost"), ["n3", "n1", "n2"], id="5: priority goes before cost"),
        pytest.param(("VictimCount", "QoSClass", "PodDeletionCost"), ["n1", "n3", "n2"], id="6: after two ties"),
        pytest.param(("VictimCount", "Workloads"), ["n1", "n2", "n3"], id="7: all are equal"),
    ],
)
def test_the_next_criterion_is_asked_of_those_that_are_equal(ranking, expected):
    assert order_of(THREE, profile(*ranking)) == expected


@examples(6, 60, 5_000)
@given(SEEDS)
def test_to_keep_some_is_to_keep_the_first_of_all(seed):
    """Whatever is left out for speed when one node is asked for."""
    chance, sample = random.Random(seed), case(seed)
    chosen = profile(*chance.sample(ALL, chance.randint(1, 5)))
    here, preemptor = built(sample.cluster), typed(sample.pod)
    sent = _offers(*here.node_names)
    every = engine.preempt(here, preemptor, sent, keeping(chosen)).kept
    for keep in (1, 2, 3):
        assert engine.preempt(here, preemptor, sent, keeping(chosen, keep)).kept == every[:keep], (
            "the kept candidates are not the best ones"
        )


def plain_costs(run, place):
    """Upstream's five of one candidate (framework/preemption, pickOneNodeForPreemption), in plain Python."""
    victims = run.victims_on(place)
    top = max(victim.priority for victim in victims)
    return [
        int(run.violations[place]),
        top,
        sum(victim.priority + 2**31 for victim in victims),
        len(victims),
        -min(start_time(victim) for victim in victims if victim.priority == top),
    ]


def test_by_default_a_candidate_costs_what_upstream_makes_of_it():
    """On any cases; the most important victim comes first in some orders of importance, and in others it does not."""
    seen = 0
    for seed in range(by_profile(60, 250, 5_000)):
        chance, sample = random.Random(seed), case(seed)
        every = (*DEFAULT_IMPORTANCE, *EXTRA_IMPORTANCE)
        importance = DEFAULT_IMPORTANCE if seed % 2 else tuple(chance.sample(every, chance.randint(1, 3)))
        run = tried(built(sample.cluster), typed(sample.pod), profile(importance=importance))
        places = np.flatnonzero(run.candidate)
        found = [list(one) for one in zip(*(key.tolist() for key in ranking_keys(run, places).flat), strict=True)]
        assert found == [plain_costs(run, place) for place in places.tolist()]
        seen += len(places)
    assert seen > 40


# --- unused capacity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wanted", "expected"),
    [
        pytest.param([("4", None)], ("4", None), 0, id="1: 4 cores for 4"),
        pytest.param([("4", None)], ("1", None), 3 / 4, id="2: 4 of 4 cores for 1"),
        pytest.param([("4", "2Gi")], ("1", None), 3 / 4 + 2 / 8, id="3: and 2 of 8 GiB for none"),
        pytest.param([("4", "2Gi")], ("1", "1Gi"), 3 / 4 + 2 / 8, id="4: there were 6 GiB left, of which 1 is taken"),
        pytest.param([("4", "8Gi")], ("1", "1Gi"), 3 / 4 + 7 / 8, id="5: 8 of 8 GiB for 1"),
        pytest.param([("3", None)], ("2", None), 2 / 4, id="6: 3 cores beside 1 that was left: 2 are not used"),
        pytest.param([(None, "8Gi")], ("4", "4Gi"), 4 / 8, id="7: memory is short, cpu is not freed"),
        pytest.param([("4", None)], (None, None), None, id="8: nothing is wanted, no pod goes"),
    ],
)
def test_what_is_freed_and_not_used_is_a_share_of_the_node(there, wanted, expected):
    """A node of 4 cores and 8 GiB: what its victims free and is left after the preemptor has come."""
    pods = [pod(f"p{number}", cpu, memory) for number, (cpu, memory) in enumerate(there)]
    found = keys({node("n1"): pods}, "UnusedCapacity", preemptor=incoming(cpu=wanted[0], memory=wanted[1]))
    assert found == ({} if expected is None else {"n1": (round(expected * 10**6),)})


def test_the_share_counts_and_not_the_amount():
    """1 of 2 cores is more than 2 of 8."""
    nodes = {node("n1", cpu="2"): [pod("a", "2")], node("n2", cpu="8"): [pod("b", "3"), pod("c", "5", priority=2000)]}
    assert order_of(nodes, profile("UnusedCapacity")) == ["n2", "n1"]


def test_a_node_that_has_none_of_a_resource_wastes_none_of_it():
    """The node has no memory, and no pod requests any."""
    assert keys({node("n1", cpu="2", memory="0"): [pod("a", "2")]}, "UnusedCapacity") == {"n1": (500_000,)}


# --- workloads --------------------------------------------------------------------------------------------------------


def test_workloads_are_counted_once_each():
    """2 of a Deployment, 1 of a StatefulSet of that name, 1 of that name elsewhere, 2 bare pods: 5 workloads."""
    template = {"labels": {"pod-template-hash": "7"}, "metadata": owned("ReplicaSet", "web-7")}
    pods = [
        pod("d1", **template),
        pod("d2", **template),
        pod("s", metadata=owned("StatefulSet", "web")),
        pod("e", namespace="other", **template),
        pod("b1"),
        pod("b2"),
    ]
    elsewhere = {node("n2", cpu="2"): [pod("f1"), pod("f2")]}
    found = keys({node("n1", cpu="6"): pods} | elsewhere, "Workloads", preemptor=incoming(cpu="6"))
    assert found == {"n1": (5,)}
    found = keys({node("n1", cpu="2"): pods[:2]} | elsewhere, "Workloads", preemptor=incoming(cpu="2"))
    assert found == {"n1": (1,), "n2": (2,)}


# --- pod groups -------------------------------------------------------------------------------------------------------


def member(name, gang="train", **fields):
    """A member of a group of scheduling.k8s.io."""
    return pod(name, schedulingGroup={"podGroupName": gang}, **fields)


def labelled(name, gang="train", **fields):
    """A member of a group of scheduling.x-k8s.io."""
    return pod(name, labels={COSCHEDULING_LABEL: gang}, **fields)


def group(minimum, name="train", where="default"):
    policy = {} if minimum is None else {"gang": {"minCount": minimum}}
    spec = {"schedulingPolicy": policy or {"basic": {}}}
    return thing("PodGroup", name, namespace=where, apiVersion="scheduling.k8s.io/v1alpha2", spec=spec)


def coscheduled(minimum, name="train", where="default"):
    version = "scheduling.x-k8s.io/v1alpha1"
    return thing("PodGroup", name, namespace=where, apiVersion=version, spec={"minMember": minimum})


LEAVING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("here", "elsewhere", "groups", "expected"),
    [
        pytest.param([pod("a")], [], [], (0, 1), id="1: of no gang"),
        pytest.param([member("a")], [member("b"), member("c")], [group(2)], (0, 1), id="2: 1 of 3, 2 needed"),
        pytest.param([member("a")], [member("b"), member("c")], [group(3)], (1, 0), id="3: 1 of 3, 3 needed"),
        pytest.param([member("a"), member("b")], [member("c")], [group(2)], (1, 0), id="4: 2 of 3, 2 needed"),
        pytest.param([member("a"), member("b")], [member("c")], [group(1)], (0, 2), id="5: 2 of 3, 1 needed"),
        pytest.param([member("a"), pod("b")], [], [group(1)], (1, 1), id="6: all there are, and another pod"),
        pytest.param([member("a")], [member("b")], [], (1, 0), id="7: no such object: all are needed"),
        pytest.param([member("a")], [member("b")], [group(2, "other")], (1, 0), id="8: an object of another name"),
        pytest.param([member("a")], [member("b")], [group(1, where="x")], (1, 0), id="9: of another namespace"),
        pytest.param([member("a")], [member("b")], [coscheduled(1)], (1, 0), id="10: of another API group"),
        pytest.param([member("a")], [member("b")], [group(1), coscheduled(2)], (0, 1), id="11: of both API groups"),
        pytest.param([labelled("a")], [labelled("b")], [group(1), coscheduled(2)], (1, 0), id="12: by the label"),
        pytest.param([labelled("a")], [member("b")], [group(1), coscheduled(1)], (1, 0), id="13: one gang each"),
        pytest.param([member("a")], [member("b")], [group(3)], (0, 1), id="14: below its minimum already"),
        pytest.param([member("a"), member("b")], [], [group(3)], (0, 2), id="15: all of one that is below it"),
        pytest.param([member("a"), member("b")], [], [group(None)], (0, 2), id="16: pods that run one by one"),
        pytest.param([labelled("a"), labelled("b")], [], [coscheduled(0)], (0, 2), id="17: a minimum of none"),
        pytest.param(
            [member("a"), labelled("b")], [], [group(1), coscheduled(1)], (2, 0), id="18: two gangs of one name"
        ),
        pytest.param(
            [member("a"), member("b", namespace="x")], [], [group(1), group(1, where="x")], (2, 0), id="19: elsewhere"
        ),
        pytest.param([member("a")], [member("b", phase="Succeeded")], [group(1)], (1, 0), id="20: who has finished"),
        pytest.param([member("a")], [member("b", **LEAVING)], [group(1)], (1, 0), id="21: who is leaving is lost"),
        pytest.param(
            [member("a", **LEAVING)], [member("b")], [group(1)], (0, 1), id="22: and lost already, if it is a victim"
        ),
        pytest.param([member("a", **LEAVING)], [member("b")], [], (0, 1), id="23: also without the object"),
        pytest.param([member("a"), member("b"), member("c")], [], [group(2)], (1, 0), id="24: a gang breaks once"),
        pytest.param(
            [member("a", labels={COSCHEDULING_LABEL: "other"})], [member("b")], [group(1)], (0, 1), id="25: spec first"
        ),
    ],
)
def test_pod_groups_that_fall_below_their_minimum_are_counted(here, elsewhere, groups, expected):
    """(pod groups, victims outside them); all pods that run on n1 have to go."""
    nodes = {node("n1", cpu=str(len(here))): here, node("n2", unschedulable=True): elsewhere}
    found = keys(nodes, "PodGroups", preemptor=incoming(cpu=str(len(here))), others=groups)
    assert found == {"n1": expected}


def test_the_node_where_fewer_pod_groups_break_is_taken():
    """On n1 two groups lose a pod, on n2 one group loses two and breaks, on n3 two pods without a group go."""
    nodes = {
        node("n1", cpu="2"): [member("a", "left"), member("b", "right")],
        node("n2", cpu="2"): [member("c", "left"), member("d", "left")],
        node("n3", cpu="2"): [pod("e", priority=9), pod("f", priority=9)],
    }
    assert order_of(nodes, profile("PodGroups"), incoming(cpu="2")) == ["n3", "n2", "n1"]
    assert order_of(nodes, profile("HighestPriority", "PodGroups"), incoming(cpu="2")) == ["n2", "n1", "n3"]


def test_of_as_many_pod_groups_the_node_with_fewer_other_victims_is_taken():
    nodes = {
        node("n1", cpu="2"): [member("a", "left"), pod("b")],
        node("n2", cpu="2"): [member("c", "right", priority=5), member("d", "right")],
    }
    chosen = profile("PodGroups", "HighestPriority")
    assert order_of(nodes, chosen, incoming(cpu="2")) == ["n2", "n1"]
    (kept,) = engine.preempt(built(cluster(nodes)), typed(incoming(cpu="2")), _offers("n1", "n2"), chosen).kept
    assert kept.node == "n2"


def test_a_pod_group_that_breaks_goes_as_a_whole_rather_than_others():
    """2 of 3 cores are wanted: the group of two breaks anyway, so that the other pod need not go."""
    nodes = {node("n1", cpu="3"): [member("a", priority=3), pod("x", priority=2), member("b", priority=1)]}
    here = built(cluster(nodes))
    (kept,) = engine.preempt(here, typed(incoming(cpu="2")), {"n1": SentCandidate(())}, profile("PodGroups")).kept
    assert sorted(victim.metadata.name for victim in kept.victims) == ["a", "b"]


# --- who belongs together, in a changing cluster ----------------------------------------------------------------------

WHERE = ("default", "other")


def some_pod(chance, name, where):
    kind = chance.choice(("alone", "spec", "label", "owned"))
    metadata = owned(*chance.choice((("Job", "sort"), ("StatefulSet", "db")))) if kind == "owned" else {}
    if chance.random() < 0.2:
        metadata = metadata | LEAVING["metadata"]
    fields = {"namespace": where, "metadata": metadata, "phase": chance.choice(("Running",) * 9 + ("Failed",))}
    gang = chance.choice(("train", "sort"))
    made = {"spec": member, "label": labelled}.get(kind)
    raw = pod(name, **fields) if made is None else made(name, gang, **fields)
    return typed(placed(raw, chance.choice(("n1", "n2"))))


def step(here, chance, number):
    what = chance.choice(("pod", "pod", "change", "gone", "gone", "group", "group gone"))
    kind = chance.choice(("PodGroup", f"PodGroup.{COSCHEDULING}"))
    key = (chance.choice(WHERE), chance.choice(("train", "sort")))
    if what == "pod":
        here.put("Pod", some_pod(chance, f"p{number}", key[0]))
    elif what == "group":
        metadata = replace(typed(pod(key[1])).metadata, namespace=key[0])
        here.put(kind, PodGroup(metadata, PodGroupSpec(min_member=chance.choice((0, 1, 3, 8, 12)))))
    elif what == "group gone" and key in here.objects.of(kind):
        here.remove(kind, key)
    elif here.objects.pods and what in ("change", "gone"):
        held = chance.choice(list(here.objects.pods))
        if what == "gone":
            here.remove("Pod", held)
        else:
            here.put("Pod", some_pod(chance, held[1], held[0]))


def plain_spares(here):
    """Pod group -> how many pods it may lose, in plain Python."""
    tables = {SCHEDULING: here.objects.pod_groups, COSCHEDULING: here.objects.coscheduling_groups}
    found = {}
    for _, running in here.running_pods():
        if running.pod_group:
            api_group, name = running.pod_group
            where = running.metadata.namespace
            members = [other for _, other in here.running_pods() if other.pod_group == running.pod_group]
            members = [other for other in members if other.metadata.namespace == where]
            lasting = sum(other.metadata.deletion_timestamp is None for other in members)
            known = tables[api_group].get((where, name))
            spare = lasting - ((known.minimum or 0) if known else lasting)
            found[api_group, where, name] = spare if spare >= 0 else ALREADY_BELOW_MINIMUM
    return found


@examples(2, 25, 5_000)
@given(SEEDS)
def test_members_are_known_in_a_changing_cluster(seed):
    """Numbers are given away and taken again, and more than 64 pods run at times."""
    chance, here = random.Random(seed), built(cluster({node("n1"): [], node("n2"): []}))
    workloads, spaces, gangs = here.index(WorkloadIndex), here.index(NamespaceIndex), here.index(PodGroupIndex)
    for number in range(300):
        if number == 150:
            for extra in range(80):
                here.put("Pod", some_pod(chance, f"more{extra}", chance.choice(WHERE)))
        step(here, chance, number)
        if number % 10:
            continue
        here.refresh_layout()
        running = dict(here.running_pods())
        for index, of in ((workloads, workload_of), (spaces, lambda one: one.metadata.namespace)):
            expected = {row: of(one) for row, one in running.items()}
            assert {row: index.groups[int(index.of_pod[row])] for row in running} == expected, (
                "a pod is in another group"
            )
            assert {thing: set(index.rows_of(thing).tolist()) for thing in index.groups.values()} == {
                thing: {row for row in running if expected[row] == thing} for thing in expected.values()
            }
        named = {row: one.spec.scheduling_group for row, one in running.items()}
        in_groups = {row for row, group in named.items() if group is not None and group.pod_group_name}
        assert set(gangs.evicted_whole(has_objects=False).tolist()) == in_groups, "other pods are evicted as a whole"
        assert {gang: gangs.spare(number) for number, gang in gangs.groups.items()} == plain_spares(here), (
            "a gang can spare another number"
        )
        assert_breaks_as_counted(here, gangs, chance)


def assert_breaks_as_counted(here, gangs, chance):
    spares = plain_spares(here)
    drawn = [(row, place) for row, _ in here.running_pods() for place in range(3) if chance.random() < 0.5]
    lost = Counter(
        (place, gangs.groups[int(gangs.of_pod[row])])
        for row, place in drawn
        if int(gangs.of_pod[row]) in gangs.groups and here.pods[row].metadata.deletion_timestamp is None
    )
    expected = {(place, gang): count for (place, gang), count in lost.items() if count > spares[gang]}
    pods, places = (np.array(column, np.int64) for column in (list(zip(*drawn, strict=True)) or [(), ()]))
    found = zip(*(column.tolist() for column in gangs.below_minimum(pods, places)), strict=True)
    assert {(place, gangs.groups[gang]): count for place, gang, count in found} == expected


def test_a_group_that_comes_changes_and_goes_counts_at_once():
    here = Snapshot.build(built(cluster({node("n1", cpu="2"): [member("a"), member("b")]})).frozen())
    gangs = here.index(PodGroupIndex)
    key, (number,) = ("default", "train"), gangs.groups
    assert gangs.spare(number) == 0
    for minimum, spare in ((1, 1), (2, 0), (3, ALREADY_BELOW_MINIMUM), (0, 2)):
        here.put("PodGroup", PodGroup(replace(typed(pod("train")).metadata), PodGroupSpec(min_member=minimum)))
        assert gangs.spare(number) == spare
    here.remove("PodGroup", key)
    assert gangs.spare(number) == 0
