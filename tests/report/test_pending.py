"""The pending pods of a cluster: what each waits for, would preemption help, one diagnosis for pods of a template."""

import pytest

from extender.core.profile import KubeScheduler, Limits, PreemptionPolicy, Profile
from extender.k8s.time import SECOND, human_duration
from extender.report import diagnose as diagnosing
from extender.report.facts.wording import brief_fact
from extender.report.lists import pending
from extender.report.lists.pending import pending_report
from tests.builders import JSON, NodeObject, built, cluster, incoming, node, pod, typed

SCHEDULER = KubeScheduler((Profile(),))
Nodes = dict[NodeObject, list[JSON]]
LABELS = {"app": "x"}
FULL: Nodes = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=5000)]}


def report(nodes, *waiting, scheduler=SCHEDULER, namespace=None, **objects):
    return pending_report(built(cluster(nodes, waiting=waiting, **objects)), scheduler, namespace=namespace)


def only(nodes, waiting, **options):
    (found,) = report(nodes, waiting, **options).pods
    return found


def test_pods_without_a_node_are_listed_and_no_others():
    done = incoming("done", status={"phase": "Succeeded"})
    found = report(FULL, incoming("new"), done, incoming("away", namespace="shop"))
    assert [one.pod for one in found.pods] == ["default/new", "shop/away"]
    assert [one.pod for one in report(FULL, incoming("away", namespace="shop"), namespace="shop").pods] == ["shop/away"]


def test_a_namespace_that_does_not_exist_is_told_from_one_without_pending_pods():
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    empty = report(FULL, namespace="shop", namespaces=[shop])
    assert (empty.why, empty.namespace_exists) == ("no pod is pending in namespace shop", True)
    assert report(FULL, namespace="default").why == "no pod is pending in namespace default"
    typo = report(FULL, namespace="shpo", namespaces=[shop])
    assert (typo.why, typo.namespace_exists) == ("the cluster has no namespace shpo (did you mean shop?)", False)
    snapshot = built(cluster(FULL))
    snapshot.unreadable_tables = frozenset({"namespaces"})
    unread = pending_report(snapshot, SCHEDULER, namespace="shpo")
    assert (unread.why, unread.namespace_exists) == ("no pod is pending in namespace shpo", True)


def test_causes_are_counted_the_commonest_first_and_the_oldest_pod_of_each_leads():
    created = {f"p{day}": {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"} for day in (3, 1, 2)}
    pods = [incoming(name, cpu="9", metadata=metadata) for name, metadata in created.items()]
    found = report(FULL, incoming("gated", schedulingGates=[{"name": "quota"}]), *pods)
    assert [(one.cause, one.pods, one.oldest) for one in found.causes] == [
        ("nodes with too little cpu", 3, "2026-01-01T00:00:00Z"),
        ("waiting for scheduling gates: [quota]", 1, None),
    ]
    assert [one.pod.removeprefix("default/") for one in found.pods] == ["p1", "p2", "p3", "gated"]
    assert found.why == (
        "4 pods are pending: 3 without a node that fits, 1 gated; commonest cause: nodes with too little cpu (3 pods)"
    )


def test_the_time_is_that_of_the_condition_or_else_of_the_creation():
    condition = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert only(FULL, incoming(metadata=metadata, status={"conditions": [condition]})).since == "2026-01-02T00:00:00Z"
    assert only(FULL, incoming(metadata=metadata)).since == "2026-01-01T00:00:00Z"
    assert only(FULL, incoming()).since is None


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(incoming(), ("MakesRoom", "", "n1", ["default/a"]), id="it evicts a pod"),
        pytest.param(
            incoming(preemptionPolicy="Never"), ("NotAllowed", "preemptionPolicy: Never", None, []), id="never"
        ),
        pytest.param(
            incoming(priority=-1),
            ("NoRoom", "No preemption victims found for incoming pod", None, []),
            id="all others are more important",
        ),
        pytest.param(incoming(cpu="0"), ("NotTried", "", "n1", []), id="it fits"),
        pytest.param(incoming(schedulingGates=[{"name": "x"}]), ("NotTried", "", None, []), id="gated"),
    ],
)
def test_would_preemption_help_and_what_stands_in_the_way(waiting, expected):
    found = only(FULL, waiting)
    assert (found.preemption, found.blocked_by, found.node, found.victims) == expected


def test_policies_that_allow_no_eviction_are_named():
    policy = PreemptionPolicy(limits=Limits(evictions_per_minute=0))
    found = only(FULL, incoming(), scheduler=KubeScheduler((Profile(preemption=policy),)))
    assert found.preemption == "NotAllowed"
    assert "eviction rate limit (0 per minute)" in found.blocked_by


def test_a_pod_that_fits_waits_to_be_tried_again_and_its_condition_says_why_it_was_not():
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    found = only({node("n1"): []}, incoming(status={"conditions": [said]}))
    assert (found.verdict, found.cause) == ("Fits", "fits, and waits to be tried again")
    assert "every 5 minutes" in found.hint
    assert found.hint.endswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pod_that_was_never_tried_does_not_wait_for_another_try():
    nodes: Nodes = {node("n1"): []}
    found, alone = only(nodes, incoming()), diagnosing.diagnose(built(cluster(nodes)), typed(incoming()), SCHEDULER)
    assert (found.cause, found.hint, alone.hint) == ("fits, and has not been tried yet", None, None)


def test_nominated_pods_and_those_that_are_not_tried_are_shown_as_what_they_are():
    victim = pod(
        "v",
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    )
    victim["status"]["conditions"][0]["reason"] = "PreemptionByScheduler"
    nominated = incoming(status={"nominatedNodeName": "n1"})
    found = only({node("n1", cpu="1"): [victim]}, nominated)
    assert (found.preemption, found.blocked_by) == ("Waits", "pods that are still terminating on n1")
    assert found.cause == "nominated to a node, and waits until the pods evicted for it are gone"
    found = only({node("n1"): []}, nominated)
    assert (found.nominated_node, found.cause) == ("n1", "fits on its nominated node, and waits to be tried again")
    assert only(FULL, incoming(schedulerName="volcano")).cause == 'for another scheduler: "volcano"'
    assert only(FULL, incoming(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})).cause == "being deleted"


def test_the_node_of_a_daemon_set_s_pod_is_the_cause_not_the_nodes_to_which_it_is_not_pinned():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    nodes: Nodes = {node("n1", cpu="1"): [], **{node(f"n{number}"): [] for number in (2, 3, 4)}}
    found = only(nodes, incoming(cpu="2", affinity=affinity))
    assert (found.cause, found.cause_nodes) == ("nodes with too little cpu", 1)
    assert [(one.plugin, one.nodes) for one in found.reasons] == [("NodeAffinity", 3), ("NodeResourcesFit", 1)]


def test_the_cause_has_its_fact():
    tainted: Nodes = {node(f"n{number}", taints=[{"key": "gpu", "effect": "NoSchedule"}]): [] for number in range(120)}
    found = only(tainted, incoming())
    assert (found.cause, found.cause_nodes) == ("nodes with a taint that it does not tolerate", 120)
    assert [brief_fact(one) for one in found.cause_facts] == ["gpu:NoSchedule"]


# --- templates --------------------------------------------------------------------------------------------------------


@pytest.fixture
def diagnosed(monkeypatch):
    """Names of the pods that were diagnosed."""
    names = []

    def counting(snapshot, pod, *arguments, **options):
        names.append(pod.metadata.name)
        return diagnosing.diagnose(snapshot, pod, *arguments, **options)

    monkeypatch.setattr(pending, "diagnose", counting)
    return names


def test_pods_of_one_template_share_a_diagnosis_also_with_claims_and_affinity(diagnosed):
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
    templates: list[JSON] = [{"cpu": "2"}, {"cpu": "3"}, {"affinity": affinity}, {"volumes": [volume]}]
    pods = [
        incoming(f"p{kind}-{number}", labels=LABELS, **template)
        for number in range(10)
        for kind, template in enumerate(templates)
    ]
    found = report(FULL, *pods)
    assert sorted(diagnosed) == ["p0-0", "p1-0", "p2-0", "p3-0"]
    assert len(found.pods) == 40


def test_pods_that_are_not_evaluated_in_time_are_counted(diagnosed):
    pods = [incoming(f"p{number}", cpu=str(9 + number % 3), labels=LABELS) for number in range(7)]
    found = pending_report(built(cluster(FULL, waiting=pods)), SCHEDULER, is_time_over=lambda: len(diagnosed) == 2)
    assert [one.pod.removeprefix("default/") for one in found.pods] == ["p0", "p1", "p3", "p4", "p6"]
    assert (diagnosed, found.omitted) == (["p0", "p1"], 2)
    assert found.why == (
        "7 pods are pending: 5 without a node that fits, 2 not evaluated in time; "
        "commonest cause: nodes with too little cpu (5 pods)"
    )
    none = pending_report(built(cluster(FULL, waiting=pods[:1])), SCHEDULER, is_time_over=lambda: True)
    assert (none.why, none.pods, none.omitted) == ("1 pod is pending: 1 not evaluated in time", [], 1)


def test_every_pod_has_the_answer_that_why_gives_it(diagnosed):
    pods = [incoming(f"p{number}", cpu=str(number % 3), priority=number % 2, labels=LABELS) for number in range(12)]
    here = built(cluster(FULL, waiting=pods))
    shared = {one.pod: one for one in pending_report(here, SCHEDULER).pods}
    assert len(diagnosed) == 6
    for key, waiting in here.objects.pods.items():
        if not waiting.spec.node_name:
            own = diagnosing.diagnose(here, waiting, SCHEDULER)
            one = shared["/".join(key)]
            reasons = [(each.plugin, each.reason, each.nodes, each.candidates, each.examples) for each in own.reasons]
            assert (one.verdict, one.message) == (own.verdict, own.message)
            assert reasons == [
                (each.plugin, each.reason, each.nodes, each.candidates, each.examples) for each in one.reasons
            ]
            evicted = [] if own.preemption is None else own.preemption.victims
            assert one.victims == [each.pod for each in evicted]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"status": {"nominatedNodeName": "n1"}}, id="a nomination"),
        pytest.param({"volumes": [{"name": "scratch", "ephemeral": {}}]}, id="an ephemeral volume"),
        pytest.param({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, id="a resource claim"),
    ],
)
def test_pods_with_something_of_their_own_are_diagnosed_each(diagnosed, own):
    report(FULL, incoming("p1", labels=LABELS, **own), incoming("p2", labels=LABELS, **own))
    assert sorted(diagnosed) == ["p1", "p2"]


def test_policies_that_read_the_pod_s_own_age_need_a_diagnosis_of_each(diagnosed):
    policy = PreemptionPolicy(min_pending_duration=SECOND)
    report(
        FULL,
        incoming("p1", labels=LABELS),
        incoming("p2", labels=LABELS),
        scheduler=KubeScheduler((Profile(preemption=policy),)),
    )
    assert sorted(diagnosed) == ["p1", "p2"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (330, "5m30s"), (600, "10m"), (10_799, "179m"),
        (10_800, "3h"), (12_000, "3h20m"), (28_800, "8h"), (30_000, "8h"), (172_799, "47h"), (172_800, "2d"),
        (187_200, "2d4h"), (691_200, "8d"), (63_071_999, "729d"), (63_072_000, "2y"), (64_000_000, "2y10d"),
    ],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds, shown):
    assert human_duration(seconds * SECOND) == shown
