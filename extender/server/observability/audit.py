"""The audit lines of /preempt and /bind: preemptor, answer, victims, and the budgets that the victims count against.

`report.audit.schema` has their types; docs/audit.md documents every key.

Rule: an audit line recomputes nothing: the disruptions that a budget allows are the numbers that the decision used.
"""

import json
from collections import Counter
from operator import attrgetter
from typing import Any

import msgspec

from extender.cluster.cache.cache import ClusterCache
from extender.core.engine import Candidate, PreemptDecision
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import UNLIMITED
from extender.core.preemption.pdb.violations import budget_index
from extender.k8s.limits.limits import MAX_NAME_CHARACTERS
from extender.k8s.objects import Pod
from extender.report.audit.schema import AuditBudget, AuditCache, AuditKind, AuditNode, AuditPreemptor, AuditVictim
from extender.server.observability.cache_status import ClusterSource
from extender.utilities.text import shortened

MAX_DROPPED_NODES = 15_000
"""Maximum number of nodes that a line lists for one reason; kube-scheduler is tested with a third of that."""


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
