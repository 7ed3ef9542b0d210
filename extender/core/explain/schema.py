"""One decision with all that led to it, as /decisions, `extender explain` and the page show it.

Amounts are in the scheduler's units: cpu in thousandths, the rest in bytes or pieces. Keys that are left out have the
default given here.

Rule: a shape, nothing else: `core.explain.render` fills it in.
"""

from typing import Literal

import msgspec

Verb = Literal["filter", "prioritize", "preempt"]

Amounts = dict[str, int]
"""Resource -> amount."""


class Shown(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Base of all parts: keys in camelCase, defaults left out."""


class PodShown(Shown, frozen=True, kw_only=True):
    key: str
    """`namespace/name`."""
    uid: str
    priority: int = 0
    requests: Amounts = {}


class VerdictShown(Shown, frozen=True, kw_only=True):
    """What the filters say. Of the `filters` of a decision those before `plugin` let the pod pass, and those after it
    were not asked."""

    code: str
    """Success, Unschedulable (evicting pods may help) or UnschedulableAndUnresolvable."""
    plugin: str = ""
    """Empty where no plugin speaks."""
    reasons: list[str] = []


Role = Literal["victim", "reprieved", "protected", "kept"]
"""Of a running pod: to be evicted; could be, but there is room; may not be, by a policy; is not less important."""


class RunningPod(Shown, frozen=True, kw_only=True):
    key: str
    uid: str
    role: Role
    priority: int = 0
    started: str | None = None
    """status.startTime."""
    order: int | None = None
    """1 for the pod that was put back first; None for those that were never taken off, and where the victims were not
    found by putting pods back in this order (`chosen_by`)."""
    violating: bool = False
    """Its loss would break a budget, as budgets are counted by the policies in effect."""
    budgets: list[str] = []
    """Disruption budgets that its loss charges."""
    named: bool = False
    """kube-scheduler had chosen it as a victim."""
    leaving: bool = False
    """It had a deletionTimestamp."""
    protected_by: list[str] = []
    requests: Amounts = {}


class BudgetShown(Shown, frozen=True, kw_only=True):
    name: str
    allowed: int
    """Disruptions allowed before."""
    charged: int
    """By the victims."""

    @property
    def after(self) -> int:
        return self.allowed - self.charged


Outcome = Literal[
    "accepted", "failed", "unresolvable",  # of /filter
    "scored", "unscored",  # of /prioritize: does the pod fit, or would it take an eviction?
    "chosen", "beaten", "ruledOut", "noRoom", "noVictims", "fits", "leftOut", "rejected", "vetoed",  # of /preempt
]  # fmt: skip
"""Of a node. `chosen`: in the answer; `beaten`: another candidate is better; `ruledOut`: a policy forbids the victims;
`noRoom`: not even with all evictable pods gone; `noVictims`: nobody there may be evicted; `fits`: without evicting
anybody; `leftOut`: not in the cluster picture, no eviction helps, or only kube-scheduler knows whose would; `rejected`:
by the guard; `vetoed`: the pod may evict nobody now."""


class NodeShown(Shown, frozen=True, kw_only=True):
    name: str
    outcome: Outcome
    offered: bool = True
    """False: kube-scheduler did not offer it, and a policy looks at all nodes."""
    why: str = ""
    filter: VerdictShown | None = None
    """Before anybody is evicted; None: it was not filtered."""

    # --- /prioritize ---
    score: int | None = None
    """0 to 10, as answered."""
    total: int | None = None
    """Sum of the weighted scores of the plugins, of a node on which the pod fits."""
    plugins: dict[str, int] = {}
    """Plugin -> weighted score."""

    # --- /preempt ---
    emptied: VerdictShown | None = None
    """With all evictable pods gone, where it does not fit even then."""
    rank: int | None = None
    """1: the best candidate."""
    keys: list[list[int]] = []
    """Per criterion of the ranking what is compared, the smaller the better."""
    shown: list[str] = []
    """The same for people."""
    loses_by: str | None = None
    """The first criterion by which it is worse than the best candidate."""
    victims: list[str] = []
    """Keys of the pods that would be evicted, most important first."""
    violations: int = 0
    """NumPDBViolations."""
    chosen_by: str = ""
    """How the victims were found; empty: by the reprieve. See `core.preemption.dry_run.WAYS`."""
    counts: dict[Role, int] = {}
    """How many pods of the node have which role."""
    budgets: list[BudgetShown] = []
    """Those that the victims charge."""

    # --- only where the pods are asked for ---
    pods: list[RunningPod] = []
    """Every pod of the node, most important first."""
    allocatable: Amounts = {}
    used: Amounts = {}
    """By running pods, before."""
    freed: Amounts = {}
    """By the victims."""
    nominated: list[PodShown] = []
    """Pods nominated to the node that the preemptor must yield to."""


class Ranking(Shown, frozen=True, kw_only=True):
    criteria: list[str]
    """In the order in which they are asked."""
    candidates: int
    decided_by: str | None = None
    """The criterion that left the best candidate alone; `named`, `name`: all costs are equal, and kube-scheduler had
    named its victims, or its name comes first; None: it is the only one, or there is none."""
    ties: list[str] = []
    """Candidates that cost the same as the best, the best included."""


class Summary(Shown, frozen=True, kw_only=True):
    """A line in the list of decisions."""

    id: str
    """`preempt-17`: the verb, and a number that counts from the start of the process."""
    verb: Verb
    time: str
    """When it was asked for, UTC."""
    milliseconds: float
    outcome: Literal["answered", "nobody", "vetoed", "observed", "handsOff", "failed"]
    """`nobody`: a preemption that evicts nobody; `observed`: in mode Observe, so it was not answered; `handsOff`: the
    kill switch was on, and nothing was decided."""
    sentence: str
    """What was decided and by what, in one sentence."""
    pod: str
    """Key of the pod that was to be scheduled."""
    uid: str
    priority: int = 0
    chosen: list[str] = []
    """Nodes in the answer, best first; of `/preempt` only."""
    victims: list[str] = []
    """Keys of the pods to be evicted."""


class Decision(Summary, frozen=True, kw_only=True):
    """All of it."""

    picture: str = ""
    """The state of the cluster that it was made on: version, and of a live cluster each kind's version and age."""
    policies: list[str] = []
    """Keys of `preemption` that differ from kube-scheduler's own, with their values."""
    incoming: PodShown
    filters: list[str] = []
    """Filter plugins in the order in which they are asked."""
    nodes: list[NodeShown] = []
    """Candidates best first, then the others by name; of `/filter` and `/prioritize` in the order asked."""
    ranking: Ranking | None = None
    """Of a preemption."""
    highest: int | None = None
    """Of `/prioritize`: the total of a node that is perfect for every plugin."""
    not_evaluated: list[str] = []
    """Plugins whose part is left to kube-scheduler."""
    rejected: dict[str, str] = {}
    """Node -> the rule of the guard that its candidate broke."""
    error: str | None = None
    """Why no decision could be made."""
