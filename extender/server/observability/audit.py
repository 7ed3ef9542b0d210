"""What one audit line says: of a /preempt or a /bind, who asked, what was answered, and what that costs whom.

Only names, UIDs, priorities and counts; nothing that decisions do not need. docs/audit.md is for those who read it.

Rule: nothing is decided or counted anew; what a budget allows is what the decision charged.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import msgspec
from msgspec import field

from extender.cluster.cache.cache import ClusterCache
from extender.core.engine import Candidate, PreemptDecision
from extender.core.explain.render import policies
from extender.core.preemption.pdb.index import Charging
from extender.core.preemption.pdb.live import UNLIMITED
from extender.core.preemption.pdb.violations import charging_of
from extender.core.profile import Profile
from extender.k8s.objects import Pod
from extender.server.observability.cache_status import Source

Mode = Literal["answered", "observed", "handsOff", "failed"]


class Part(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Keys in camelCase; those that are left out have the default given here."""


class PodSaid(Part, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


class Preemptor(PodSaid, frozen=True, kw_only=True):
    priority: int
    scheduler_name: str


class Victim(PodSaid, frozen=True, kw_only=True):
    priority: int
    budgets: list[str]
    """`namespace/name` of those that its loss charges."""


class BudgetSaid(Part, frozen=True, kw_only=True):
    name: str
    before: int | None
    """Disruptions that it allows, as the decision counted them; None: as many as there are unready pods."""
    after: int | None
    """Without the victims of this node; below 0 where it is broken."""


class KeptNode(Part, frozen=True, kw_only=True):
    node: str
    victims: list[Victim]
    """Most important first."""
    num_pdb_violations: int = field(name="numPDBViolations")
    budgets: list[BudgetSaid]
    """Those that the victims charge."""


class KindSaid(Part, frozen=True, kw_only=True):
    version: str
    age: float | None
    """Seconds since the API server last proved that it is current; None: it never did."""


class Picture(Part, frozen=True, kw_only=True):
    version: int
    """How often it has changed since the start; 0: there is none."""
    kinds: dict[str, KindSaid] = {}
    """Of a live cluster."""


class PreemptLine(Part, frozen=True, kw_only=True):
    event: Literal["audit"]
    timestamp: str
    id: str
    """As in X-Extender-Decision and /decisions."""
    verb: Literal["preempt"]
    mode: Mode
    status: int
    """Of HTTP."""
    answer: Literal["decided", "nobody", "asOffered", "error"]
    """What kube-scheduler was told: these nodes; to evict nobody; its own choice; that there is no answer."""
    milliseconds: float
    """From the request that was read to what was decided."""
    preemptor: Preemptor | None = None
    """None: it failed before the request was read."""
    offered: int = 0
    """How many nodes kube-scheduler offered."""
    kept: list[KeptNode] = []
    """Nodes of the decision, best first."""
    dropped: dict[str, list[str]] = {}
    """Why -> the offered nodes that are not in the decision for that reason."""
    vetoed: str | None = None
    """Why the decision evicts nobody."""
    error: str | None = None
    """Why there is no decision."""
    not_evaluated: list[str] = []
    """Plugins whose part is left to kube-scheduler."""
    policies: list[str] = []
    """Keys of `preemption` that differ from kube-scheduler's own, with their values."""
    picture: Picture


class BindLine(Part, frozen=True, kw_only=True):
    event: Literal["audit"]
    timestamp: str
    id: str
    verb: Literal["bind"]
    mode: Mode
    status: int
    milliseconds: float
    """From the request that was read to the last word of the API server."""
    pod: PodSaid | None = None
    """None: it failed before the request was read."""
    node: str | None = None
    outcome: Literal["bound", "refused", "unknown"] | None = None
    """None: it failed before anything was sent."""
    error: str = ""
    """As answered; empty: bound."""
    tries: int = 0
    """Bindings sent."""


AuditLine = PreemptLine | BindLine


def encoded(line: object) -> bytes:
    """One line of JSON in ASCII, with its newline: nothing in it steers a terminal, whatever names hold."""
    try:
        raw = msgspec.json.encode(line)
    except UnicodeEncodeError:  # a lone surrogate
        raw = b"\xff"
    if not raw.isascii():
        raw = json.dumps(msgspec.to_builtins(line), ensure_ascii=True, separators=(",", ":")).encode()
    return raw.replace(b"\x7f", rb"\u007f") + b"\n"


# --- parts ------------------------------------------------------------------------------------------------------------


def preemptor(pod: Pod) -> Preemptor:
    metadata, name = pod.metadata, pod.spec.scheduler_name
    return Preemptor(
        namespace=metadata.namespace, name=metadata.name, uid=metadata.uid, priority=pod.priority, scheduler_name=name
    )


def picture(cache: ClusterCache, source: Source) -> Picture:
    """The state of the cluster that is decided on now."""
    kinds = {
        one.kind: KindSaid(version=one.version, age=None if one.age is None else round(one.age, 3))
        for one in source.streams()
    }
    return Picture(version=cache.version, kinds=kinds)


def of_decision(decision: PreemptDecision) -> dict[str, Any]:
    """The keys of a line that a decision fills in, before anything follows from it."""
    return {
        "kept": kept_nodes(decision),
        "dropped": by_reason(decision.dropped),
        "vetoed": None if decision.kept else decision.why_nobody,
        "not_evaluated": list(decision.not_evaluated),
    }


def by_reason(dropped: Mapping[str, str]) -> dict[str, list[str]]:
    """Node -> why, the other way round: thousands of nodes have few reasons."""
    found: dict[str, list[str]] = {}
    for why, of_one in groupby(dropped.items(), key=itemgetter(1)):
        found.setdefault(why, []).extend(map(itemgetter(0), of_one))
    return found


def kept_nodes(decision: PreemptDecision) -> list[KeptNode]:
    """With their victims and budgets."""
    if decision.working is None or not decision.kept:
        return []
    incoming = decision.working.incoming
    charging = charging_of(incoming.snapshot, incoming.profile.preemption)
    charging.refresh()
    return [_kept(candidate, charging) for candidate in decision.kept]


def _kept(candidate: Candidate, charging: Charging) -> KeptNode:
    rows = [charging.snapshot.running_row(victim) for victim in candidate.victims]
    charged = [() if row is None else charging.charged_by(row) for row in rows]
    victims = [
        Victim(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            priority=pod.priority,
            budgets=[charging.names[one] for one in budgets],
        )
        for pod, budgets in zip(candidate.victims, charged, strict=True)
    ]
    return KeptNode(
        node=candidate.node,
        victims=victims,
        num_pdb_violations=candidate.num_pdb_violations,
        budgets=_budgets(charging, (one for budgets in charged for one in budgets)),
    )


def _budgets(charging: Charging, charges: Iterable[int]) -> list[BudgetSaid]:
    """By name; of a budget that ready and unready pods charge apart, one for each."""
    found = []
    for budget, count in Counter(charges).items():
        allowed = charging.allowed[budget]
        is_limited = allowed < UNLIMITED
        before, after = (allowed, allowed - count) if is_limited else (None, None)
        found.append(BudgetSaid(name=charging.names[budget], before=before, after=after))
    return sorted(found, key=lambda one: one.name)


def policies_of(profile: Profile) -> list[str]:
    """What of `preemption` is not kube-scheduler's own."""
    return policies(profile)
