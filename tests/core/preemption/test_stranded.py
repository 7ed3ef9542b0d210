"""Victims that fit nowhere else afterwards: case by case, and against a cluster that is built as it will be then."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.preemption import stranded
from extender.core.preemption.criteria import CRITERIA, TIE_BREAKERS, best_candidates, known_ranking_keys, ranking_keys
from extender.core.preemption.ranking import NOT_COMPARED, RankingKeys
from extender.core.profile import DEFAULT_RANKING, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import key_of
from extender.k8s.objects import PodStatus
from tests.builders import JSON, NodeObject, built, cluster, incoming, node, pod, thing, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case

HOSTNAME = "kubernetes.io/hostname"


def tried(here, preemptor, *ranking):
    policy = PreemptionPolicy(ranking=ranking or (*DEFAULT_RANKING, "Stranded"))
    return Evaluation(here, preemptor, Profile(preemption=policy)).policies


def replaced(run):
    """The same dry run, of which nothing is counted yet."""
    return dataclasses.replace(run)


def counted(nodes, preemptor=None, **others):
    """Node -> victims that are stranded."""
    run = tried(built(cluster(nodes, **others)), typed(preemptor or incoming()))
    places = np.flatnonzero(run.candidate)
    found = dict(
        zip(
            (run.snapshot.node_names[row] for row in run.rows[places]),
            CRITERIA["Stranded"](run, places)[0].tolist(),
            strict=True,
        )
    )
    assert found == expected(run, places)
    return found


# --- the reference ----------------------------------------------------------------------------------------------------


def expected(run, places):
    """The same from a cluster that is built without the victims and with the preemptor on the node."""
    return {run.snapshot.node_names[run.rows[place]]: expected_on(run, place) for place in places.tolist()}


def expected_on(run, place):
    name, preemptor = run.snapshot.node_names[run.rows[place]], run.context.pod
    victims = [run.snapshot.pods[row] for row in run.victim_rows(np.array([place])).pods.tolist()]
    gone = {key_of("Pod", one) for one in (*victims, preemptor)}
    left = [_denominated(one, name, preemptor) for key, one in run.snapshot.objects.pods.items() if key not in gone]
    placed = replace(preemptor, spec=replace(preemptor.spec, node_name=name), status=PodStatus("Running"))
    objects = replace(run.snapshot.frozen(), pods=(*left, placed))
    after = Snapshot.build(objects, run.snapshot.features)
    return sum(
        not fits_somewhere(after, victim, run.context.profile)
        for victim in victims
        if victim.metadata.deletion_timestamp is None
    )


def _denominated(one, name, preemptor):
    """As kube-scheduler clears the nominations of less important pods to the node."""
    if one.spec.node_name or one.status.nominated_node_name != name or one.priority >= preemptor.priority:
        return one
    return replace(one, status=replace(one.status, nominated_node_name=""))


def fits_somewhere(after, victim, profile):
    waiting = replace(victim, spec=replace(victim.spec, node_name=""), status=PodStatus())
    return bool((run_filter_plugins(scheduling_context(after, waiting, profile)).codes == Code.SUCCESS).any())


def check(seed):
    """Return how many victims were counted, and how many of them are stranded."""
    one = case(seed)
    run = tried(built(one.cluster), typed(one.pod))
    places = np.flatnonzero(run.candidate)
    found = CRITERIA["Stranded"](run, places)[0].tolist()
    assert found == [*expected(run, places).values()], seed
    return len(run.victim_rows(places).pods), sum(found)


@examples(25, 400, 20_000)
@given(SEEDS)
def test_the_count_is_that_of_the_cluster_as_it_will_be(seed):
    check(seed)


def test_the_cases_strand_many_victims_and_not_all():
    victims, lost = map(sum, zip(*map(check, range(60)), strict=True))
    assert victims > 60
    assert 0.1 < lost / victims < 0.5


@examples(20, 200, 10_000)
@given(SEEDS)
def test_the_best_candidate_is_that_of_counting_all(seed):
    """And an explanation that has the counts of the decision alone puts it first, too."""
    one, chance = case(seed), random.Random(seed)
    every = (*DEFAULT_RANKING, "Workloads", "UnusedCapacity")
    ranking = ("Stranded", *chance.sample(every, chance.randint(0, 4)))
    ranking = tuple(chance.sample(ranking, len(ranking)))
    run, again = (tried(built(one.cluster), typed(one.pod), *ranking) for _ in range(2))
    places = np.flatnonzero(run.candidate)
    first = places[ranking_keys(again, places, TIE_BREAKERS).order]
    for limit in (1, 2):
        run = replaced(run)
        best = best_candidates(run, limit).tolist()
        assert best == first[:limit].tolist()
        assert places[known_ranking_keys(run, places, TIE_BREAKERS).order][: len(best)].tolist() == best


# --- how many are looked at -------------------------------------------------------------------------------------------


def bound(name, to, **fields):
    return pod(name, nodeSelector={HOSTNAME: to}, **fields)


def looked_at(run, limit=1):
    """The nodes whose victims were counted for the best candidates, and these."""
    best = best_candidates(run, limit)
    names = run.snapshot.node_names
    known = np.flatnonzero(run.stranded != NOT_COMPARED)
    return {names[run.rows[place]] for place in known}, [names[run.rows[place]] for place in best]


ROOM: dict[NodeObject, list[JSON]] = {node("n9", "1"): []}
"""For any victim of one core, and not for the preemptor."""


def test_no_more_candidates_are_looked_at_once_one_strands_none():
    nodes = {node(f"n{n}", "2"): [pod(f"p{n}", priority=n)] for n in (1, 2, 3)} | ROOM
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "Stranded", "HighestPriority")
    assert looked_at(run) == ({"n1"}, ["n1"])


def test_those_that_strand_some_are_passed_over():
    nodes = {node(f"n{n}", "2"): [bound(f"p{n}", f"n{n}", priority=n)] for n in (1, 2)}
    nodes |= {node(f"n{n}", "2"): [pod(f"p{n}", priority=n)] for n in (3, 4)} | ROOM
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "Stranded", "HighestPriority")
    assert looked_at(run) == ({"n1", "n2", "n3"}, ["n3"])


def test_a_criterion_before_it_leaves_nothing_to_look_at():
    nodes = {node(f"n{n}", "2"): [pod(f"p{n}", priority=n)] for n in (1, 2)} | ROOM
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "HighestPriority", "Stranded")
    assert looked_at(run) == (set(), ["n1"])


def test_where_no_node_has_room_for_a_victim_it_is_known_without_a_filter_run():
    """All strand one: the first is the best, and its own count shows that no other can be better."""
    nodes = {node(f"n{n}", "2"): [pod(f"p{n}", "2", priority=n)] for n in (1, 2, 3)}
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "Stranded", "HighestPriority")
    assert looked_at(run) == ({"n1"}, ["n1"])


def test_filter_runs_are_limited(monkeypatch):
    """n3 would be the best; it is not reached, and of those that were looked at the first one is."""
    monkeypatch.setattr(stranded, "MAX_FILTER_RUNS", 2)
    nodes = {node(f"n{n}", "2"): [bound(f"p{n}", f"n{n}", priority=n)] for n in (1, 2)}
    nodes |= {node("n3", "2"): [pod("p3", priority=3)]} | ROOM
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "Stranded", "HighestPriority")
    assert looked_at(run) == ({"n1", "n2"}, ["n1"])


def test_pods_of_a_template_are_filtered_once(monkeypatch):
    monkeypatch.setattr(stranded, "MAX_FILTER_RUNS", 1)
    nodes = {node(f"n{n}", "2"): [pod(f"p{n}-{m}", "500m", labels={}) for m in (1, 2)] for n in (1, 2, 3)} | ROOM
    run = tried(built(cluster(nodes)), typed(incoming(cpu="2")), "Stranded")
    assert CRITERIA["Stranded"](run, np.flatnonzero(run.candidate))[0].tolist() == [0, 0, 0]


def test_terminating_victims_do_not_count():
    leaving = bound("a", "n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert counted({node("n1", "2"): [leaving, bound("b", "n1")], node("n2", "1"): []}, incoming(cpu="2")) == {"n1": 1}


def test_the_answer_is_the_node_whose_victim_can_run_elsewhere():
    nodes = {node("n1", "2"): [bound("a", "n1")], node("n2", "2"): [pod("b")]}
    profile = Profile(preemption=PreemptionPolicy(ranking=(*DEFAULT_RANKING, "Stranded")))
    sent = {name: SentCandidate(()) for name in ("n1", "n2")}
    decision = engine.preempt(built(cluster(nodes)), typed(incoming(cpu="2")), sent, profile)
    assert [one.node for one in decision.kept] == ["n2"]


# --- cases ------------------------------------------------------------------------------------------------------------

TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
ON_N1: JSON = {"nodeSelector": {HOSTNAME: "n1"}}


def term(key, **labels):
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


def required(kind, key, **labels):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(key, **labels)]}}}


def spread(key, skew=1, **labels):
    own = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [own | {"labelSelector": {"matchLabels": labels}}]}


def on_node(name):
    """Node affinity as the DaemonSet controller sets it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def port(number):
    return {"ports": [{"hostPort": number, "containerPort": number}]}


def zoned(name, zone, cpu="2", **fields):
    return node(name, cpu, labels={"zone": zone}, **fields)


FULL: JSON = {"priority": 5000}
"""Stays."""

CASES = {
    "there is no room": ({node("n1", "2"): [pod("a")], node("n2", "1"): [pod("z", **FULL)]}, 1),
    "a DaemonSet's pod": ({node("n1", "2"): [pod("a", **on_node("n1"))], node("n2", "1"): []}, 1),
    "the hostname is selected": ({node("n1", "2"): [pod("a", **ON_N1)], node("n2", "1"): []}, 1),
    "there is room elsewhere": ({node("n1", "2"): [pod("a")], node("n2", "1"): []}, 0),
    "the other node is tainted": ({node("n1", "2"): [pod("a")], node("n2", "1", taints=[TAINT]): []}, 1),
    "which is tolerated": (
        {node("n1", "2"): [pod("a", tolerations=[{"operator": "Exists"}])], node("n2", "1", taints=[TAINT]): []},
        0,
    ),
    "the other node is cordoned": ({node("n1", "2"): [pod("a")], node("n2", "1", unschedulable=True): []}, 1),
    "its port is taken there": (
        {node("n1", "2"): [pod("a", **port(80))], node("n2", "2"): [pod("z", **port(80), **FULL)]},
        1,
    ),
    "another port is": (
        {node("n1", "2"): [pod("a", **port(80))], node("n2", "2"): [pod("z", **port(81), **FULL)]},
        0,
    ),
    "it is repelled there": (
        {
            node("n1", "2"): [pod("a")],
            node("n2", "2"): [pod("z", **required("podAntiAffinity", HOSTNAME, app="a"), **FULL)],
        },
        1,
    ),
    "it repels another there": (
        {
            node("n1", "2"): [pod("a", **required("podAntiAffinity", HOSTNAME, app="z"))],
            node("n2", "2"): [pod("z", **FULL)],
        },
        1,
    ),
    "what it needs stays in the zone": (
        {
            zoned("n1", "a"): [pod("a", **required("podAffinity", "zone", app="z"))],
            zoned("n2", "a"): [pod("z", **FULL)],
            zoned("n3", "b"): [],
        },
        0,
    ),
    "what it needs is in no zone with room": (
        {
            zoned("n1", "a"): [pod("a", **required("podAffinity", "zone", app="z"))],
            zoned("n2", "a", "1"): [pod("z", **FULL)],
            zoned("n3", "b", "1"): [],
        },
        1,
    ),
    "spread lets it nowhere else": (
        {
            zoned("n1", "a"): [pod("a", labels={"app": "s"}, **spread("zone", app="s"))],
            zoned("n2", "b"): [pod("z", labels={"app": "s"}, **FULL)],
        },
        1,
    ),
    "a wider spread does": (
        {
            zoned("n1", "a"): [pod("a", labels={"app": "s"}, **spread("zone", 2, app="s"))],
            zoned("n2", "b"): [pod("z", labels={"app": "s"}, **FULL)],
        },
        0,
    ),
    "a bare pod and one of a workload count alike": (
        {
            node("n1", "2"): [
                pod("a", "500m", **ON_N1),
                pod(
                    "b",
                    "500m",
                    **ON_N1,
                    metadata={"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]},
                ),
            ],
            node("n2", "1"): [],
        },
        2,
    ),
}


@pytest.mark.parametrize(("nodes", "stranded"), CASES.values(), ids=CASES)
def test_a_victim_is_stranded_where_its_replacement_passes_no_filter(nodes, stranded):
    """On n1, whose room the preemptor takes."""
    wanted = next(iter(nodes)).raw["status"]["allocatable"]["cpu"]
    assert counted(nodes, incoming(cpu=wanted))["n1"] == stranded


def test_the_preemptors_own_anti_affinity_keeps_victims_out_of_its_zone():
    """The only other node with room is in the zone that the preemptor comes to."""
    wanted = incoming(cpu="2", **required("podAntiAffinity", "zone", app="a"))
    nodes = {zoned("n1", "a"): [pod("a")], zoned("n2", "a", "1"): [], zoned("n3", "b", "500m"): []}
    assert counted(nodes, wanted) == {"n1": 1}


def test_the_preemptor_may_be_what_a_victim_needs():
    wanted = incoming("app", cpu="2")
    nodes = {zoned("n1", "a"): [pod("a", **required("podAffinity", "zone", app="app"))], zoned("n2", "a", "1"): []}
    assert counted(nodes, wanted) == {"n1": 0}


def test_a_claim_that_only_one_pod_may_use_is_free_once_its_pod_is_gone():
    claim = thing("PersistentVolumeClaim", "data", namespace="default")
    claim |= {"spec": {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]}, "status": {"phase": "Bound"}}
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    volume = thing("PersistentVolume", "pv", spec={"accessModes": ["ReadWriteOncePod"]})
    user = pod("a", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    nodes = {node("n1", "2"): [user], node("n2", "1"): []}
    assert counted(nodes, incoming(cpu="2"), others=[claim, volume]) == {"n1": 0}
    here = {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n1"]}]}]}
    local = volume | {"spec": volume["spec"] | {"nodeAffinity": {"required": here}}}
    assert counted(nodes, incoming(cpu="2"), others=[claim, local]) == {"n1": 1}


def test_candidates_that_were_not_compared_by_it_are_compared_by_what_follows():
    """Not counted on either side, on one side, and counted on both."""
    one = RankingKeys({"Stranded": [np.array([NOT_COMPARED, NOT_COMPARED, 0, 2])], "next": [np.array([1, 1, 3, 1])]})
    other = RankingKeys({"Stranded": [np.array([NOT_COMPARED, 0, NOT_COMPARED, 1])], "next": [np.array([2, 2, 2, 2])]})
    assert one.is_better(other).tolist() == [True, True, False, False]
    assert [RankingKeys(one.by_criterion).decided_by(2, place) for place in (0, 3)] == ["Stranded", "Stranded"]
    assert one.decided_by(0, 2) == "next"
