"""The audit lines of /preempt and /bind: preemptor, answer, victims, and the budgets that the victims count against.

A line holds only names, UIDs, priorities and counts; docs/audit.md documents every key.

Rule: an audit line recomputes nothing: the disruptions that a budget allows are the numbers that the decision used.
"""

import json
from collections import Counter
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import field

from extender.cluster.cache.cache import ClusterCache
from extender.core.engine import Candidate, PreemptDecision
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import UNLIMITED
from extender.core.preemption.pdb.violations import budget_index
from extender.k8s.limits.limits import MAX_NAME_CHARACTERS
from extender.k8s.objects import Pod
from extender.server.observability.cache_status import ClusterSource
from extender.server.observability.decision_log import DecisionMode
from extender.utilities.text import shortened

MAX_DROPPED_NODES = 15_000
"""Maximum number of nodes that a line lists for one reason; kube-scheduler is tested with a third of that."""


class AuditStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of the audit types: keys in camelCase; a key with its default value is omitted."""


class AuditPod(AuditStruct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


class AuditPreemptor(AuditPod, frozen=True, kw_only=True):
    priority: int
    scheduler_name: str


class AuditVictim(AuditPod, frozen=True, kw_only=True):
    priority: int
    budgets: list[str]
    """`namespace/name` of the disruption budgets that its eviction counts against."""


class AuditBudget(AuditStruct, frozen=True, kw_only=True):
    name: str
    before: int | None
    """Disruptions allowed before the evictions, as the decision counted them; None if unlimited, as for unready pods
    with unhealthyPodEvictionPolicy AlwaysAllow."""
    after: int | None
    """Disruptions allowed after evicting the victims of this node; below 0 if the budget is violated."""


class AuditNode(AuditStruct, frozen=True, kw_only=True):
    node: str
    victims: list[AuditVictim]
    """Most important first."""
    num_pdb_violations: int = field(name="numPDBViolations")
    budgets: list[AuditBudget]
    """The budgets that the victims count against."""


class AuditKind(AuditStruct, frozen=True, kw_only=True):
    version: str
    age: float | None
    """Seconds since the last list, event or bookmark of this kind; None if it was never listed."""


class AuditCache(AuditStruct, frozen=True, kw_only=True):
    version: int
    """Number of changes of the cluster cache since the start; 0 if it was never filled."""
    kinds: dict[str, AuditKind] = {}
    """Kind -> state of its reflector; empty unless the source is a live cluster."""


class AuditLine(AuditStruct, frozen=True, kw_only=True):
    event: Literal["audit"]
    timestamp: str
    id: str
    """ID of the decision, as in X-Extender-Decision and /decisions."""
    verb: Literal["preempt", "bind"]
    mode: DecisionMode
    status: int
    """HTTP status of the answer."""


class PreemptLine(AuditLine, frozen=True, kw_only=True):
    answer: Literal["decided", "noVictims", "asSent", "error"]
    """The answer: the nodes of the decision (`decided`), no victims (`noVictims`), kube-scheduler's own
    candidates (`asSent`), or an error (`error`)."""
    milliseconds: float
    """Duration from the parsed request to the decision."""
    preemptor: AuditPreemptor | None = None
    """The preemptor; None if the call failed before its request was parsed."""
    sent: int = 0
    """Number of candidates that kube-scheduler sent."""
    kept: list[AuditNode] = []
    """Candidates of the decision, best first."""
    dropped: dict[str, list[str]] = {}
    """Reason -> sent candidates that were rejected for it."""
    vetoed: str | None = None
    """Reason why the decision evicts no pods."""
    error: str | None = None
    """Reason why the decision failed."""
    not_evaluated: list[str] = []
    """Filter plugins left to kube-scheduler."""
    scheduler_version: str | None = None
    """Minor version of kube-scheduler that the decision followed; None if the call failed before its request was
    parsed."""
    scheduler_release: str | None = None
    """Minor version and patch; the minor alone if the patch is unknown."""
    policies: list[str] = []
    """Keys of `preemption` that differ from kube-scheduler's own, with their values."""
    cache: AuditCache


class BindLine(AuditLine, frozen=True, kw_only=True):
    milliseconds: float
    """Duration from the parsed request to the last response of the API server."""
    pod: AuditPod | None = None
    """The pod to bind; None if the call failed before its request was parsed."""
    node: str | None = None
    outcome: Literal["bound", "refused", "unknown"] | None = None
    """Outcome of the binding; None if the call failed before a Binding was sent."""
    error: str = ""
    """The error in the answer; empty if the pod is bound."""
    tries: int = 0
    """Number of Bindings sent."""


def encode_line(line: object) -> bytes:
    """Encode one line of JSON in ASCII, so that no name can send control characters to a terminal."""
    try:
        raw = msgspec.json.encode(line)
    except UnicodeEncodeError:  # a lone surrogate, which json escapes
        raw = b"\xff"
    if not raw.isascii():
        raw = json.dumps(msgspec.to_builtins(line), ensure_ascii=True, separators=(",", ":")).encode()
    return raw.replace(b"\x7f", rb"\u007f") + b"\n"


# --- parts ------------------------------------------------------------------------------------------------------------


def preemptor(pod: Pod) -> AuditPreemptor:
    metadata, name = pod.metadata, pod.spec.scheduler_name
    return AuditPreemptor(
        namespace=shorten(metadata.namespace),
        name=shorten(metadata.name),
        uid=shorten(metadata.uid),
        priority=pod.priority,
        scheduler_name=shorten(name),
    )


def shorten(name: str) -> str:
    """Return a name from a request, cut to MAX_NAME_CHARACTERS: a caller may send a longer one."""
    return shortened(name, MAX_NAME_CHARACTERS)


def cache_state(cache: ClusterCache, source: ClusterSource) -> AuditCache:
    """Return the current state of the cluster cache."""
    kinds = {
        one.kind: AuditKind(version=one.version, age=None if one.age is None else round(one.age, 3))
        for one in source.reflector_statuses()
    }
    return AuditCache(version=cache.version, kinds=kinds)


def decision_fields(decision: PreemptDecision) -> dict[str, Any]:
    """Return the keys of a line that depend on the decision; call it before the decision is applied to the cache."""
    dropped: dict[str, list[str]] = {}
    for node, why in decision.dropped.items():
        dropped.setdefault(why.message, []).append(shorten(node))
    for nodes in dropped.values():
        if (more := len(nodes) - MAX_DROPPED_NODES) > 0:
            nodes[MAX_DROPPED_NODES:] = [f"… {more} more"]
    kept: list[AuditNode] = []
    if decision.evaluation is not None and decision.kept:
        context = decision.evaluation.context
        index = budget_index(context.snapshot, context.profile.preemption)
        kept = [_kept_node(candidate, index) for candidate in decision.kept]
    return {
        "kept": kept,
        "dropped": dropped,
        "vetoed": None if decision.kept else decision.no_candidate_reason,
        "not_evaluated": list(decision.not_evaluated),
    }


def _kept_node(candidate: Candidate, index: BudgetIndex) -> AuditNode:
    victims, evictions = [], Counter[int]()
    for pod in candidate.victims:
        row, metadata = index.snapshot.running_row(pod), pod.metadata
        budgets = [] if row is None else sorted(index.budgets_of(row))
        evictions.update(budgets)
        names = [index.names[budget] for budget in budgets]
        victims.append(
            AuditVictim(
                namespace=metadata.namespace, name=metadata.name, uid=metadata.uid, priority=pod.priority, budgets=names
            )
        )
    counted = []
    # A budget that counts ready and unready pods separately has two entries.
    for budget, count in evictions.items():
        allowed = index.allowed[budget]
        before, after = (allowed, allowed - count) if allowed < UNLIMITED else (None, None)
        counted.append(AuditBudget(name=index.names[budget], before=before, after=after))
    return AuditNode(
        node=candidate.node,
        victims=victims,
        num_pdb_violations=candidate.num_pdb_violations,
        budgets=sorted(counted, key=attrgetter("name")),
    )
