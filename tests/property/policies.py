"""Random policies of preemption, and the cases of `generate.py` with all that policies read; one seed, one question.

python -c 'from tests.property.policies import question; print(question(4711))'
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.core import engine
from extender.core.eviction_history import Attempt, Eviction, EvictionHistory
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_IMPORTANCE,
    EXTRA_RANKING,
    Limits,
    PreemptionPolicy,
    Profile,
    Protection,
)
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import COSCHEDULING_LABEL, LabelSelector
from extender.k8s.selectors import compile_label_selector
from extender.k8s.time import MINUTE, SECOND, parse_time
from extender.k8s.well_known import DELETION_COST, DO_NOT_DISRUPT, MINIMUM_PREEMPTABLE_PRIORITY, TOLERATION_SECONDS
from extender.k8s.workloads import workload_of
from tests.builders import JSON, built, candidates_sent_by_kube_scheduler, thing, typed
from tests.device_builders import undecided_claim, using_claims
from tests.property.generate import Draw, case

NOW = parse_time("2026-02-01T08:00:30Z")
"""Half a minute after the last pods of the generator have started."""

COSTS = ("0", "1", "-5", "100", "+1", "x")
OWNERS = (("ReplicaSet", "web-abc"), ("ReplicaSet", "db-abc"), ("StatefulSet", "web"), ("Job", "train"))
CLASSES = ("", "low", "tolerant", "strange")
GANGS = ("train", "sort")
TEAMS = (None, "red", "blue")


@dataclass(frozen=True, slots=True)
class Question:
    """All that a decision about preemption depends on."""

    seed: int
    cluster: JSON
    pod: JSON
    sent: Mapping[str, SentCandidate]
    profile: Profile
    history: EvictionHistory

    def ask(self, snapshot: Snapshot) -> engine.PreemptDecision:
        return engine.preempt(snapshot, typed(self.pod), self.sent, self.profile, self.history)


def question(seed: int, policy: PreemptionPolicy | None = None, keep: int | None = None) -> Question:
    """With any policy, unless one is given."""
    draw = Draw(seed + 1)
    cluster, pod = world(seed)
    if draw.maybe(0.08):
        pod = pod | {"spec": pod["spec"] | using_claims("gpu")}  # not evaluated: victims as offered
        cluster["items"] += undecided_claim("gpu", pod["metadata"]["namespace"])
    profile = Profile(keep_candidates=keep, preemption=some_policy(draw) if policy is None else policy)
    return Question(seed, cluster, pod, sent(draw, seed, cluster, pod), profile, history(draw, cluster, pod))


# --- clusters -------------------------------------------------------------------------------------------------------


def world(seed: int) -> tuple[JSON, JSON]:
    """A List and a waiting pod: the generator's, and what policies read."""
    one, draw = case(seed), Draw(seed + 2)
    cluster, pod = copy.deepcopy(one.cluster), copy.deepcopy(one.pod)
    ready, odd = draw.pick((0.2, 0.7, 1.0)), draw.pick((0.0, 0.3))
    for item in cluster["items"]:
        if item["kind"] == "Pod" and item["spec"].get("nodeName"):
            _of_pod(draw, item, ready, odd)
        elif item["kind"] == "PodDisruptionBudget":
            _of_budget(draw, item)
        elif item["kind"] == "Namespace":
            team = draw.pick(TEAMS)
            item["metadata"]["labels"] = {} if team is None else {"team": team}
    pod["metadata"]["creationTimestamp"] = draw.pick(("2026-02-01T08:00:00Z", "2026-02-01T08:00:29Z"))
    cluster["items"] += _classes(draw) + _gangs(draw)
    return cluster, pod


def _of_pod(draw: Draw, pod: JSON, ready: float, odd: float) -> None:
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    labels = dict(metadata.get("labels") or {})
    annotations = dict(metadata.get("annotations") or {})
    if draw.maybe(0.8):
        others = [one for one in status.get("conditions") or () if one["type"] != "Ready"]
        status["conditions"] = [*others, {"type": "Ready", "status": "True" if draw.maybe(ready) else "False"}]
    if draw.maybe(odd * 0.3):
        metadata["deletionTimestamp"] = ASSUMED_DELETION_TIMESTAMP
    elif draw.maybe(odd * 0.3) and status["phase"] == "Running":
        status["phase"] = "Pending"
    if draw.maybe(odd * 0.2):
        annotations["kubernetes.io/config.mirror"] = "x"
    for key, values in ((DELETION_COST, COSTS), ("shop/cost", COSTS), (DO_NOT_DISRUPT, ("true", "false"))):
        if draw.maybe(odd):
            annotations[key] = draw.pick(values)
    if draw.maybe(0.6):
        kind, name = draw.pick(OWNERS)
        metadata["ownerReferences"] = [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]
        if name == "web-abc":
            labels["pod-template-hash"] = "abc"
    if draw.maybe(0.5):
        spec["priorityClassName"] = draw.pick(CLASSES)
    if draw.maybe(odd):
        spec["terminationGracePeriodSeconds"] = draw.pick((0, 30, 600))
    if draw.maybe(0.3):
        if draw.maybe(0.5):
            labels[COSCHEDULING_LABEL] = draw.pick(GANGS)
        else:
            spec["schedulingGroup"] = {"podGroupName": draw.pick(GANGS)}
    metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels


def _of_budget(draw: Draw, budget: JSON) -> None:
    status = budget["status"]
    status["desiredHealthy"], status["currentHealthy"] = draw.pick((0, 0, 1, 1, 2, 3)), draw.pick((0, 1, 2, 3, 5))
    budget["metadata"]["generation"], status["observedGeneration"] = draw.pick(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2)))
    if draw.maybe(0.6):
        budget["spec"]["unhealthyPodEvictionPolicy"] = draw.pick(("IfHealthyBudget", "AlwaysAllow"))
    if draw.maybe(0.5):
        status["disruptionsAllowed"] = draw.pick((1, 2, 3))


def _classes(draw: Draw) -> list[JSON]:
    found = []
    for name in CLASSES[1:]:
        annotations = {}
        if draw.maybe(0.6):
            annotations[TOLERATION_SECONDS[0]] = draw.pick(("-1", "0", "60", "600", "x"))
        if draw.maybe(0.6):
            annotations[MINIMUM_PREEMPTABLE_PRIORITY[0]] = draw.pick(("5", "1000", "10000", "x"))
        found.append(
            thing("PriorityClass", name, metadata={"annotations": annotations}, value=draw.pick((0, 10, 1000)))
        )
    return found


def _gangs(draw: Draw) -> list[JSON]:
    found = []
    for name in GANGS:
        minimum = draw.pick((1, 2, 3))
        spec: JSON
        if draw.maybe(0.7):
            spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
            found.append(
                thing("PodGroup", name, namespace="default", spec=spec, apiVersion="scheduling.k8s.io/v1alpha2")
            )
        if draw.maybe(0.7):
            spec = {"minMember": minimum}
            found.append(
                thing("PodGroup", name, namespace="default", spec=spec, apiVersion="scheduling.x-k8s.io/v1alpha1")
            )
    return found


# --- what kube-scheduler offers, and when ---------------------------------------------------------------------------


def sent(draw: Draw, seed: int, cluster: JSON, pod: JSON) -> dict[str, SentCandidate]:
    """Mostly what kube-scheduler finds in this cluster, on some of the nodes; at times anything at all."""
    if draw.maybe(0.15):
        given = case(seed).sent.items()
        return {
            node: SentCandidate(tuple(meta["UID"] for meta in one["Pods"]), one["NumPDBViolations"])
            for node, one in given
        }
    snapshot = built(cluster)
    found = candidates_sent_by_kube_scheduler(snapshot, typed(pod))
    return dict(draw.some(list(found.items()), draw.pick((0.4, 0.8, 1.0))))


def every_node(snapshot: Snapshot, pod: JSON) -> dict[str, SentCandidate]:
    """All nodes, with the pods that kube-scheduler would evict there."""
    return dict.fromkeys(snapshot.node_names, SentCandidate(())) | candidates_sent_by_kube_scheduler(
        snapshot, typed(pod)
    )


def history(draw: Draw, cluster: JSON, pod: JSON) -> EvictionHistory:
    running = [typed(item) for item in cluster["items"] if item["kind"] == "Pod" and item["spec"].get("nodeName")]
    ages = sorted(draw.below(2 * MINUTE) for _ in range(draw.pick((0, 0, 1, 3)) if running else 0))
    evictions = tuple(Eviction(age, workload_of(draw.pick(running))) for age in ages)
    uids = [draw.pick((pod["metadata"]["uid"], "uid-another")) for _ in range(draw.pick((0, 0, 2)))]
    return EvictionHistory(NOW, evictions, tuple(Attempt((age + 1) * MINUTE, uid) for age, uid in enumerate(uids)))


# --- policies -------------------------------------------------------------------------------------------------------


def some_policy(draw: Draw) -> PreemptionPolicy:
    """Every policy by itself as likely as not."""
    return PreemptionPolicy(
        disruption_budgets="Strict" if draw.maybe(0.5) else "BestEffort",
        budget_accounting="Live" if draw.maybe(0.5) else "Reported",
        empty_selector="Everything" if draw.maybe(0.5) else "Nothing",
        candidates="AllNodes" if draw.maybe(0.4) else "Sent",
        importance=_in_some_order(draw, DEFAULT_IMPORTANCE, EXTRA_IMPORTANCE),
        ranking=_in_some_order(draw, DEFAULT_RANKING, EXTRA_RANKING),
        eviction_cost_annotation="shop/cost",
        protections=some_protections(draw) if draw.maybe(0.4) else (),
        preemption_toleration=draw.maybe(0.3),
        tenant_label="team" if draw.maybe(0.2) else None,
        min_pending_duration=10 * SECOND if draw.maybe(0.1) else 0,
        limits=some_limits(draw) if draw.maybe(0.4) else Limits(),
    )


def _in_some_order(draw: Draw, default: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return (
        tuple(default) if draw.maybe(0.5) else tuple(draw.some(draw.shuffled([*default, *more]), 0.6)) or ("Priority",)
    )


def some_protections(draw: Draw, share: float = 0.4) -> tuple[Protection, ...]:
    tier = compile_label_selector(LabelSelector({"tier": "x"}))
    known = (
        Protection("jobs", owner_kinds=frozenset({"Job"})),
        Protection("marked", annotations=((DO_NOT_DISRUPT, "true"),)),
        Protection("young", selector=tier, min_runtime=60 * SECOND),
        Protection("shop", namespaces=frozenset({"shop"}), unless_priority_at_least=1000),
        Protection("classed", priority_classes=frozenset({"tolerant"}), unless_priority_at_least=2000),
    )
    return tuple(draw.some(known, share))


def some_limits(draw: Draw) -> Limits:
    return Limits(
        max_victims=draw.pick((None, None, 1, 2)),
        evictions_per_minute=draw.pick((None, None, 2, 4)),
        namespace_evictions_per_minute=draw.pick((None, None, 1, 3)),
        workload_cooldown=draw.pick((0, 0, MINUTE, 5 * MINUTE)),
        max_attempts=draw.pick((None, None, 1, 3)),
    )
