"""Judge evictions: which pods kube-scheduler evicted for which pod, and which of them need not have gone.

Rule: the API server's audit log is the truth about pods, and a pod is leaving from the answer to its deletion on;
recorded calls say what kube-scheduler asked and what the extender answered. What neither of the two could know at the
time of a call is not a fault: room that appears later, and deletions that the extender's watch had not shown.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from extender.k8s.quantity import parse
from tests.e2e.control_plane.lab.audit_log import JSON, AuditEvent
from tests.e2e.control_plane.lab.call_recorder import ExtenderCall
from tests.e2e.control_plane.lab.plane import ControlPlane

_PREEMPTED = re.compile(r"Preempted by pod (\S+) on node (\S+)")

NEVER = float("inf")

BOUND_SECONDS = 0.3
"""Time in which the extender learns of a binding; the audit log does not tell its resourceVersion."""

APPLIED_SECONDS = 0.05
"""Time in which the extender applies an event that its watch has received."""


class Pod(msgspec.Struct, kw_only=True):
    """The life of one pod."""

    uid: str
    name: str
    """namespace/name."""
    priority: int = 0
    requests: dict[str, int] = {}
    created: float = 0.0
    node: str = ""
    bound: float = NEVER
    leaving: float = NEVER
    """Time of its deletion or eviction, when it may still be running."""
    leaving_version: int = 0
    gone: float = NEVER
    gone_version: int = 0


class Preemption(msgspec.Struct, kw_only=True):
    """Pods evicted for one pod on one node."""

    preemptor: str
    """UID."""
    node: str
    time: float
    """When the first victim was deleted."""
    victims: list[str]
    """UIDs."""


class Judgement(msgspec.Struct, kw_only=True):
    """What happened, and what should not have; each fault is a line of text."""

    preemptions: list[Preemption]
    needless_preemptions: list[str]
    """Preemptors for which pods were evicted on another node although their first eviction made room."""
    needless_evictions: list[str]
    """Evicted pods that need not have gone."""
    wrong_victims: list[str]
    """Evicted pods of equal or higher priority, of another node than chosen, or that were not answered."""
    unexplained: list[str]
    """Pods that a scheduler evicted, and neither an event nor a call says for which pod."""

    @property
    def faults(self) -> list[str]:
        return self.needless_preemptions + self.needless_evictions + self.wrong_victims

    @property
    def evictions(self) -> int:
        return sum(len(one.victims) for one in self.preemptions)


class History(msgspec.Struct):
    """Pods and nodes as the audit log shows them."""

    pods: dict[str, Pod]
    allocatable: dict[str, dict[str, int]]
    evicted: dict[str, float]
    """UID -> time of the deletion by a scheduler."""
    preemptors: dict[str, tuple[str, str]]
    """UID of a victim -> (UID of the preemptor, node), from Preempted events."""


def judge(
    events: Iterable[AuditEvent],
    calls: Sequence[ExtenderCall] = (),
    schedulers: Iterable[str] = ("system:kube-scheduler",),
    since: float = 0.0,
) -> Judgement:
    """Judge the evictions by the users `schedulers` since a time; without `calls`, by the audit log alone."""
    history = read_history(events, frozenset(schedulers))
    history.evicted = {uid: time for uid, time in history.evicted.items() if time >= since}
    preempt_calls = sorted((one for one in calls if one.verb == "preempt"), key=lambda one: one.time)
    unexplained: list[str] = []
    preemptions = _preemptions(history, preempt_calls, unexplained)
    return Judgement(
        preemptions=preemptions,
        needless_preemptions=_needless_preemptions(history, preemptions, calls),
        needless_evictions=_needless_evictions(history, preemptions, preempt_calls),
        wrong_victims=_wrong_victims(history, preemptions, preempt_calls),
        unexplained=unexplained,
    )


def judge_when_explained(plane: ControlPlane) -> Judgement:
    """Judge all evictions by the audit log, once it tells the preemptor of each.

    kube-scheduler writes its event Preempted after the eviction, and may bind the preemptor before that event arrives.
    """

    def explained() -> Judgement | None:
        judgement = judge(plane.audit_events())
        return None if judgement.unexplained else judgement

    return plane.wait_until(explained, 20, "an event Preempted of each evicted pod")


# --- what happened


def read_history(events: Iterable[AuditEvent], schedulers: frozenset[str]) -> History:
    history = History({}, {}, {}, {})
    names: dict[tuple[str, str], str] = {}
    for event in sorted(events, key=_time_of_effect):
        if event.status >= 300:
            continue
        if event.resource == "pods":
            _shown_on_node(history, event)
        match event.resource, event.subresource, event.verb:
            case "nodes", _, "create" | "update" | "patch":
                amounts = event.response.get("status", {}).get("allocatable", {})
                history.allocatable[event.response["metadata"]["name"]] = _amounts(amounts)
            case "pods", "", "create":
                pod = _created(event.response, event.completed)
                history.pods[pod.uid] = pod
                names[event.namespace, pod.name.partition("/")[2]] = pod.uid
            case "pods", "binding", "create":
                uid = event.request.get("metadata", {}).get("uid") or names.get((event.namespace, event.name), "")
                if uid in history.pods:
                    history.pods[uid].node = event.request["target"]["name"]
                    history.pods[uid].bound = event.completed
            case "pods", "", "delete":
                _deleted(history, event, names, schedulers)
            case "events", _, "create":
                _event(history, event.request)
    return history


def _time_of_effect(event: AuditEvent) -> float:
    """Others may act on an object before the response about its creation is complete."""
    return event.received if event.verb == "create" and not event.subresource else event.completed


def _created(raw: JSON, time: float) -> Pod:
    about, spec = raw["metadata"], raw["spec"]
    requests: dict[str, int] = defaultdict(int)
    for container in spec["containers"]:
        for name, amount in _amounts(container.get("resources", {}).get("requests", {})).items():
            requests[name] += amount
    node = spec.get("nodeName", "")
    return Pod(
        uid=about["uid"],
        name=f"{about.get('namespace', 'default')}/{about['name']}",
        priority=spec.get("priority") or 0,
        requests={**requests, "pods": parse("1")},
        created=time,
        node=node,
        bound=time if node else NEVER,
    )


def _shown_on_node(history: History, event: AuditEvent) -> None:
    """Take the node from a later response: a kube-scheduler that is stopped may give up a binding that succeeds."""
    pod = history.pods.get(event.response.get("metadata", {}).get("uid", ""))
    node = event.response.get("spec", {}).get("nodeName", "")
    if pod is not None and node and not pod.node:
        pod.node, pod.bound = node, event.completed


def _amounts(amounts: JSON) -> dict[str, int]:
    return {name: parse(amount) for name, amount in amounts.items()}


def _deleted(
    history: History, event: AuditEvent, names: dict[tuple[str, str], str], schedulers: frozenset[str]
) -> None:
    about = event.response.get("metadata", {})
    uid = about.get("uid") or names.get((event.namespace, event.name), "")
    pod = history.pods.get(uid)
    if pod is None:
        return
    version = int(about.get("resourceVersion") or 0)
    if event.completed < pod.leaving:
        pod.leaving, pod.leaving_version = event.completed, version
    if not about.get("deletionGracePeriodSeconds") and event.completed < pod.gone:
        pod.gone, pod.gone_version = event.completed, version
    if event.user in schedulers:
        history.evicted.setdefault(uid, event.completed)


def _event(history: History, event: JSON) -> None:
    found = _PREEMPTED.search(event.get("note") or event.get("message") or "")
    victim = (event.get("regarding") or event.get("involvedObject") or {}).get("uid")
    if event.get("reason") == "Preempted" and found and victim:
        history.preemptors[victim] = (found[1], found[2])


def _preemptions(history: History, calls: Sequence[ExtenderCall], unexplained: list[str]) -> list[Preemption]:
    """Evictions by preemptor, node and call, in the order of their first deletion."""
    found: dict[tuple[str, str, float], Preemption] = {}
    for victim, time in sorted(history.evicted.items(), key=lambda one: one[1]):
        preemptor = history.preemptors.get(victim) or _answered_for(victim, time, calls)
        if preemptor is None:
            unexplained.append(f"{history.pods[victim].name} was evicted for an unknown pod")
            continue
        uid, node = preemptor
        asked = max((call.time for call in calls if call.uid == uid and call.time <= time), default=0.0)
        one = found.setdefault((*preemptor, asked), Preemption(preemptor=uid, node=node, time=time, victims=[]))
        one.victims.append(victim)
    return list(found.values())


def _answered_for(victim: str, time: float, calls: Sequence[ExtenderCall]) -> tuple[str, str] | None:
    """Return the preemptor and node of the last answer before `time` that names the victim."""
    for call in reversed(calls):
        if call.time <= time:
            for node, victims in call.answered_victims.items():
                if victim in victims:
                    return call.uid, node
    return None


# --- what should not have happened


def _needless_preemptions(
    history: History, preemptions: Sequence[Preemption], calls: Sequence[ExtenderCall]
) -> list[str]:
    by_preemptor: dict[str, list[Preemption]] = defaultdict(list)
    for one in preemptions:
        by_preemptor[one.preemptor].append(one)
    lines = []
    for uid, of_pod in by_preemptor.items():
        pod = history.pods.get(uid)
        if pod is None or len(of_pod) == 1:
            continue
        first = of_pod[0]
        for later in of_pod[1:]:
            if any(_is_offered_in_vain(call, uid, first, later) for call in calls):
                why = f"kube-scheduler found that it fitted on {first.node}, and the extender did not"
            elif not calls and pod.node == first.node:
                why = f"it was bound to {first.node} after all"
            else:
                continue
            lines.append(
                f"{pod.name}: {_names(history, first.victims)} evicted on {first.node}, then "
                f"{_names(history, later.victims)} on {later.node} {later.time - first.time:.3f}s later, although {why}"
            )
    return lines


def _is_offered_in_vain(call: ExtenderCall, uid: str, first: Preemption, later: Preemption) -> bool:
    """Return whether /filter rejected the node of the first preemption before the later one."""
    answer = call.answer if isinstance(call.answer, dict) else {}
    return (
        call.verb == "filter"
        and call.uid == uid
        and first.time < call.time < later.time
        and first.node in call.nodes
        and first.node in {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}
    )


def _needless_evictions(
    history: History, preemptions: Sequence[Preemption], calls: Sequence[ExtenderCall]
) -> list[str]:
    lines = []
    for one in preemptions:
        preemptor, call = history.pods.get(one.preemptor), _call_of(one, calls)
        if preemptor is None or call is None:
            continue
        free = _candidate_without_eviction(history, calls, call, preemptor)
        if free is not None:
            why = f"all victims of the candidate {free} were leaving or gone at the time of the call"
        elif _had_room(history, preemptor, one, call):
            why = f"the pod was bound to {preemptor.node}, which was offered and had room at the time of the call"
        else:
            continue
        for victim in one.victims:
            lines.append(f"{history.pods[victim].name} was evicted for {_name(history, one.preemptor)}, although {why}")
    return lines


def _candidate_without_eviction(
    history: History, calls: Sequence[ExtenderCall], call: ExtenderCall, pod: Pod
) -> str | None:
    """Return a node sent to /preempt on which the pod fits once the victims have gone that were leaving already.

    Such a node counts if its victims are gone, or if it is the best one as kube-scheduler ranks them.
    """
    for node, victims in call.victims.items():
        pods = [history.pods[uid] for uid in victims if uid in history.pods]
        if len(pods) < len(victims) or not all(_is_leaving(history, one, call) for one in pods):
            continue
        if not all(_was_shown(call, one.gone, one.gone_version) for one in pods) and not _is_best(history, call, node):
            continue
        on = [
            one for one in history.pods.values() if one.node == node and one.bound <= call.time and one.uid != pod.uid
        ]
        staying = [one for one in on if not _is_leaving(history, one, call)]
        if _fits(history, pod, node, [*staying, *_nominated(history, calls, call, node)]):
            return node
    return None


def _is_leaving(history: History, pod: Pod, call: ExtenderCall) -> bool:
    """Return whether the pod was leaving at the time of the call, and the extender knew, by its watch or its answer."""
    was_answered = pod.uid in history.evicted and pod.leaving <= call.time
    return was_answered or _was_shown(call, pod.leaving, pod.leaving_version)


def _was_shown(call: ExtenderCall, time: float, version: int) -> bool:
    """Return whether the extender's watch had shown an event before the call."""
    return time + APPLIED_SECONDS <= call.time and version <= call.pod_version


def _is_best(history: History, call: ExtenderCall, node: str) -> bool:
    """Return whether the node's victims rank before those of all other nodes, by the criteria before the start time."""

    def key(candidate: str) -> tuple[int, int, int]:
        priorities = [history.pods[uid].priority for uid in call.victims[candidate] if uid in history.pods]
        total = sum(priority + 2**31 for priority in priorities)
        return call.violations.get(candidate, 0), max(priorities, default=-(2**31)), total

    return all(key(node) < key(other) for other in call.victims if other != node)


def _nominated(history: History, calls: Sequence[ExtenderCall], call: ExtenderCall, node: str) -> list[Pod]:
    """Return the pods that wait for room on the node, by the answers before the call, and go first."""
    nodes: dict[str, str] = {}
    for earlier in calls:
        if earlier.time < call.time and earlier.answered_victims:
            nodes[earlier.uid] = next(iter(earlier.answered_victims))
    pods = (history.pods[uid] for uid, on in nodes.items() if on == node and uid != call.uid and uid in history.pods)
    return [one for one in pods if one.bound + BOUND_SECONDS > call.time and one.priority >= call.priority]


def _fits(history: History, pod: Pod, node: str, others: Iterable[Pod]) -> bool:
    """Return whether the pod fits on the node beside the others, by its resources."""
    free = dict(history.allocatable.get(node, {}))
    for other in others:
        for name, amount in other.requests.items():
            free[name] = free.get(name, 0) - amount
    return all(amount <= free.get(name, 0) for name, amount in pod.requests.items())


def _had_room(history: History, pod: Pod, preemption: Preemption, call: ExtenderCall) -> bool:
    """Return whether the pod fitted, by its resources, on the offered or nominated node to which it was bound later.

    Room that appears only after the call is not a fault: kube-scheduler binds there rather than wait for its victims.
    """
    if pod.node == preemption.node or pod.node not in {*call.victims, call.nominated_node}:
        return False
    sent = call.victims.get(pod.node, ())  # kube-scheduler may have placed them before the API server knows
    others = [one for one in history.pods.values() if one.node == pod.node and one.uid != pod.uid]
    others = [one for one in others if one.bound <= call.time or one.uid in sent]
    held = [one for one in others if not _was_shown(call, one.gone, one.gone_version)]
    return _fits(history, pod, pod.node, held)


def _wrong_victims(history: History, preemptions: Sequence[Preemption], calls: Sequence[ExtenderCall]) -> list[str]:
    lines = []
    for one in preemptions:
        preemptor = history.pods.get(one.preemptor)
        call = _call_of(one, calls)
        of_pod = [other.answered_victims.get(one.node, ()) for other in calls if other.uid == one.preemptor]
        answered = {uid for uids in of_pod for uid in uids} if call else None
        for uid in one.victims:
            victim = history.pods[uid]
            about = f"{victim.name} on {victim.node}, evicted for {_name(history, one.preemptor)}"
            if preemptor is not None and victim.priority >= preemptor.priority:
                lines.append(f"{about}, has priority {victim.priority} against {preemptor.priority}")
            if victim.node not in ("", one.node):  # "": kube-scheduler assumed it there, and it never was bound
                lines.append(f"{about}, is not on the chosen node {one.node}")
            if answered is not None and uid not in answered:
                lines.append(f"{about}, is not among the answered victims on {one.node}")
    return lines


def _call_of(preemption: Preemption, calls: Sequence[ExtenderCall]) -> ExtenderCall | None:
    """Return the call whose answer the preemption followed: the pod's last before the first deletion."""
    before = [one for one in calls if one.uid == preemption.preemptor and one.time <= preemption.time]
    return before[-1] if before and before[-1].status == 200 else None


def _name(history: History, uid: str) -> str:
    pod = history.pods.get(uid)
    return pod.name if pod else uid


def _names(history: History, uids: Iterable[str]) -> str:
    return ", ".join(_name(history, uid) for uid in uids)
