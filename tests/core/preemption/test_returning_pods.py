"""Pods that would come back to the node from which they are evicted: protected, with the reason."""

import random

import pytest
from hypothesis import given

from extender.cluster.files.manifests import load_cluster
from extender.core import engine
from extender.core.framework.filter import scheduling_context
from extender.core.preemption.protections.protections import protection_reasons
from extender.core.preemption.protections.returning_pods import ReturningPodIndex, returning_pods
from extender.core.profile import PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.server.guard.guard import guard_preempt
from tests.builders import JSON, built, cluster, drop_messages, incoming, node, placed, pod, thing, typed
from tests.core.preemption.test_stranded import HOSTNAME, on_node
from tests.profiles import SEEDS, examples

PROFILE = Profile(preemption=PreemptionPolicy(returning_pods=True))
ONLY_N1 = "protected by returningPods: its replacement can only run on node n1"


def owned(kind="StatefulSet", name="web", **metadata):
    reference = {"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"metadata": {"ownerReferences": [reference]} | metadata}


def affine(**labels):
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def mounting(claim):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def stored(name, **labels):
    """A bound claim and its volume, on nodes with the labels only."""
    claim = thing("PersistentVolumeClaim", name, namespace="default", spec={"volumeName": f"pv-{name}"})
    spec = {"nodeAffinity": {"required": affine(**labels)["affinity"]["nodeAffinity"][REQUIRED]}} if labels else {}
    return [claim, thing("PersistentVolume", f"pv-{name}", spec=spec)]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
N1: JSON = {"nodeSelector": {HOSTNAME: "n1"}}
STORED = [*stored("local", **{HOSTNAME: "n1"}), *stored("zonal", zone="a"), *stored("anywhere")]


def protected(a, waiting=(), others=(), beside=()):
    """The reasons that protect pod `a` on n1, one of two nodes in its zone."""
    nodes = {node("n1", labels={"zone": "a"}): [a, *beside], node("n2", labels={"zone": "a"}): []}
    here = built(cluster(nodes, waiting=waiting, others=[*STORED, *others]))
    context = scheduling_context(here, typed(incoming()), PROFILE)
    running = next(one for one in here.pods if one.metadata.name == "a")
    reasons = protection_reasons(context, running)
    assert bool(reasons) == returning_pods(context, len(here.pods))[here.running_row(running)]
    return reasons


CASES = {
    "a pod for any node": ({}, False),
    "the hostname is selected": (N1, True),
    "what both nodes have is": ({"nodeSelector": {"zone": "a"}}, False),
    "affinity to the hostname": (affine(**{HOSTNAME: "n1"}), True),
    "to the zone": (affine(zone="a"), False),
    "a DaemonSet's affinity": (on_node("n1"), True),
    "a local volume": (mounting("local"), True),
    "a volume of the zone": (mounting("zonal"), False),
    "a volume without affinity": (mounting("anywhere"), False),
    "a claim that does not exist": (mounting("missing"), False),
    "its node has lost the label": ({"nodeSelector": {"zone": "b"}}, False),
}


@pytest.mark.parametrize(("fields", "returns"), CASES.values(), ids=CASES)
def test_a_pod_comes_back_where_its_spec_and_its_volumes_leave_one_node(fields, returns):
    assert protected(pod("a", **fields, **owned())) == ((ONLY_N1,) if returns else ())


def test_without_a_controller_nobody_recreates_it():
    assert protected(pod("a", **N1)) == ()


def test_a_mirror_pod_is_not_recreated():
    assert protected(pod("a", **N1, **owned("Node", "n1", annotations={"kubernetes.io/config.mirror": "x"}))) == ()


def test_a_terminating_pod_is_not_protected():
    leaving = pod("a", **N1, **owned(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert [one.node for one in decide({node("n1", "1"): [leaving]}, victims=("uid-a",)).kept] == ["n1"]


# --- another pod of the workload is about to run there ----------------------------------------------------------------


def pending(name="b", to="n1", workload="web", **status):
    about = {"nominatedNodeName": to} | status if to else status
    return pod(name, start=None, phase="Pending", status=about, **owned(name=workload))


def starting(name="b", workload="web"):
    return pod(name, start=None, phase="Pending", **owned(name=workload))


NEXT = "protected by returningPods: default/b of the same workload is about to run on node n1"


@pytest.mark.parametrize(
    ("waiting", "beside", "reasons"),
    [
        pytest.param([pending()], [], (NEXT,), id="nominated to the node"),
        pytest.param([pending(to="n2")], [], (), id="to another one"),
        pytest.param([pending(to="n9")], [], (), id="to one that is not known"),
        pytest.param([pending(to="")], [], (), id="not nominated"),
        pytest.param([pending(workload="db")], [], (), id="of another workload"),
        pytest.param([pod("b", start=None, phase="Pending", status={"nominatedNodeName": "n1"})], [], (), id="of none"),
        pytest.param([], [starting()], (NEXT,), id="bound and not started"),
        pytest.param([pending("c")], [starting("d"), starting()], (NEXT,), id="several: the first by name"),
        pytest.param([], [starting(workload="db")], (), id="of another workload, not started"),
        pytest.param([], [pod("b", **owned())], (), id="both run"),
    ],
)
def test_a_pod_comes_back_where_another_of_its_workload_is_about_to_run(waiting, beside, reasons):
    assert protected(pod("a", **owned()), waiting=waiting, beside=beside) == reasons


def test_whatever_is_protected_has_a_reason():
    """A mirror pod of a workload, which only annotations make: protected as its neighbours are."""
    odd = pod("a", **owned(annotations={"kubernetes.io/config.mirror": "x"}))
    assert protected(odd, waiting=[pending()]) == (NEXT,)


def test_a_pod_that_is_about_to_run_does_not_protect_itself():
    assert protected(starting("a")) == ()


def test_the_preemptor_protects_no_pod_of_its_own_workload():
    own = incoming("incoming", status={"nominatedNodeName": "n1"}, **owned())
    assert protected(pod("a", **owned()), waiting=[own]) == ()


# --- decisions --------------------------------------------------------------------------------------------------------


def decide(nodes, profile=PROFILE, victims=()):
    here, preemptor = built(cluster(nodes)), typed(incoming())
    sent = {one.name: SentCandidate(victims) for one in nodes}
    decision = engine.preempt(here, preemptor, sent, profile)
    assert guard_preempt(here, preemptor, sent, decision.kept, profile=profile).rejected == {}
    return decision


def test_another_node_is_chosen():
    nodes = {node("n1", "1"): [pod("a", **N1, **owned())], node("n2", "1"): [pod("b", priority=900, **owned())]}
    assert [one.node for one in decide(nodes).kept] == ["n2"]
    assert [one.node for one in decide(nodes, Profile()).kept] == ["n1"]


def test_a_veto_names_the_pod_and_why_it_would_come_back():
    (message,) = drop_messages(decide({node("n1", "1"): [pod("a", **N1, **owned())]})).values()
    assert message.endswith(f"not evictable: default/a is {ONLY_N1}")


def test_protections_follow_the_cluster():
    """A node with the same label, its removal, another pod's nomination and its end."""
    zone: JSON = {"nodeSelector": {"zone": "a"}}
    here = built(cluster({node("n1", "2", labels={"zone": "a"}): [pod("a", **zone, **owned())]}))
    row, preemptor = here.running_row(here.pods[0]), typed(incoming())
    assert row is not None

    def returns():
        here.refresh_layout()
        context = scheduling_context(here, preemptor, PROFILE)
        assert bool(protection_reasons(context, here.pods[row])) == returning_pods(context, len(here.pods))[row]
        return bool(returning_pods(context, len(here.pods))[row])

    found = [returns()]
    other = built(cluster({node("n2", labels={"zone": "a"}): []})).objects.nodes["", "n2"]
    here.put("Node", other)
    found.append(returns())
    here.put("Pod", typed(pending()))
    found.append(returns())
    here.put("Pod", typed(placed(pod("b", **owned()), "n1")))
    found.append(returns())
    here.remove("Node", ("", "n2"))
    found.append(returns())
    assert found == [True, False, True, False, True]


def test_protections_follow_claims_and_volumes():
    """The claim comes, is bound to a volume that comes later, and goes."""
    here = built(cluster({node("n1"): [pod("a", **mounting("local"), **owned())], node("n2"): []}))
    row, preemptor = here.running_row(here.pods[0]), typed(incoming())
    claims = load_cluster({"kind": "List", "items": STORED})
    found = []
    for change in (
        lambda: here.put("PersistentVolumeClaim", claims.claims[0]),
        lambda: here.put("PersistentVolume", claims.volumes[0]),
        lambda: here.remove("PersistentVolumeClaim", ("default", "local")),
    ):
        change()
        here.refresh_layout()
        found.append(bool(returning_pods(scheduling_context(here, preemptor, PROFILE), len(here.pods))[row]))
    assert found == [False, True, False]


def in_any(*expressions):
    terms = [{"matchExpressions": [one]} for one in expressions]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


ASKED: list[JSON] = [
    {},
    *({"nodeSelector": {"zone": zone}} for zone in "ab"),
    *({"nodeSelector": {"zone": "a", HOSTNAME: name}} for name in ("n1", "n2")),
    affine(**{HOSTNAME: "n1"}),
    in_any({"key": "zone", "operator": "NotIn", "values": ["a"]}),
    in_any(
        {"key": "zone", "operator": "In", "values": ["a"]}, {"key": HOSTNAME, "operator": "In", "values": ["n3", "n4"]}
    ),
    in_any({"key": "fast", "operator": "Exists"}),
    in_any({"key": "zone", "operator": "In", "values": ["a"]}, {"key": "fast", "operator": "Exists"}),
    mounting("local"),
    mounting("zonal"),
]


@examples(20, 300, 5_000)
@given(SEEDS)
def test_after_any_changes_of_nodes_pods_and_claims_it_is_as_if_built_then(seed):
    chance, here = random.Random(seed), built(cluster({}))
    here.index(ReturningPodIndex)
    stored = load_cluster({"kind": "List", "items": STORED})
    names = [f"n{number}" for number in range(1, 5)]

    def change():
        name, number = chance.choice(names), chance.randrange(8)
        match chance.randrange(8):
            case 0 | 1 | 2:
                labels = {"zone": chance.choice("ab")} | chance.choice(({}, {"fast": ""}))
                here.put("Node", built(cluster({node(name, labels=labels): []})).objects.nodes["", name])
            case 3 if name in here.node_row:
                here.remove("Node", ("", name))
            case 4 | 5 if ("default", f"p{number}") not in here.objects.pods:
                here.put("Pod", typed(placed(pod(f"p{number}", **chance.choice(ASKED), **owned()), name)))
            case 6 if ("default", f"p{number}") in here.objects.pods:
                here.remove("Pod", ("default", f"p{number}"))
            case 7:
                claim, volume = chance.choice(stored.claims), chance.choice(stored.volumes)
                if ("default", claim.metadata.name) in here.objects.claims and chance.random() < 0.5:
                    here.remove("PersistentVolumeClaim", ("default", claim.metadata.name))
                else:
                    here.put("PersistentVolumeClaim", claim)
                here.put("PersistentVolume", volume)

    for _ in range(30):
        for _ in range(chance.randint(1, 4)):
            change()
        here.refresh_layout()
        again = Snapshot.build(here.frozen(), here.features)
        found, wanted = (
            {
                one.metadata.name
                for row, one in snapshot.running_pods()
                if snapshot.index(ReturningPodIndex).pinned(row + 1)[row]
            }
            for snapshot in (here, again)
        )
        assert found == wanted, seed
