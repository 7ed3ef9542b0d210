"""What a simulation found, as `extender simulate -o json` and `POST /simulate` show it.

Amounts are in the scheduler's units: cpu in thousandths, the rest in bytes or pieces.

Rule: a shape, nothing else: `core.simulator.simulator` fills it in.
"""

import msgspec

from extender.core.simulator.schedule_one import Outcome

Amounts = dict[str, int]
"""Resource -> amount."""


class Shown(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all parts: keys in camelCase."""


class ClusterShown(Shown, frozen=True):
    """Before anything happened."""

    nodes: int
    pods: int
    """All of them, those that wait or have finished among them."""


class ScoreShown(Shown, frozen=True):
    """Of the node that was taken."""

    total: int
    plugins: dict[str, int]
    tied: int
    """How many nodes had that total."""
    ties: list[str]
    """The first ten of them by name."""


class PostFilterShown(Shown, frozen=True):
    """What came of preemption, in kube-scheduler's words."""

    code: str
    """Success, Unschedulable or Error."""
    reasons: list[str]


class VictimShown(Shown, frozen=True):
    """A pod that was evicted."""

    pod: str
    uid: str
    priority: int
    node: str
    budgets: list[str]
    """Disruption budgets that its loss charges."""
    preemptor: str
    leaving: bool
    """It was on its way out already."""


class CycleShown(Shown, frozen=True):
    """One attempt to place one pod."""

    pod: str
    uid: str
    priority: int
    attempt: int
    outcome: Outcome
    node: str | None
    """Where it runs from now on; null if nowhere."""
    feasible: int
    """How many nodes took it; 1 if the nominated node did."""
    score: ScoreShown | None
    """Null where there was no choice."""
    message: str
    """kube-scheduler's, of a pod that got no node."""
    post_filter: PostFilterShown | None
    nominated_node: str | None
    victims: list[VictimShown]
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")
    vetoed: str | None
    """Why the policies let nobody be evicted, where kube-scheduler alone would have evicted somebody."""
    not_evaluated: list[str]
    """Filter plugins with a say about the pod that are not modelled: kube-scheduler may decide otherwise."""


class PendingShown(Shown, frozen=True):
    """A pod that has no node at the end."""

    pod: str
    uid: str
    priority: int
    attempts: int
    message: str
    nominated_node: str | None
    vetoed: str | None


class NodeShown(Shown, frozen=True):
    """A node on which pods came or went: what its pods request."""

    name: str
    before: Amounts
    after: Amounts
    allocatable: Amounts


class SummaryShown(Shown, frozen=True):
    scheduled: int
    """Pods that run at the end."""
    pending: int
    skipped: int
    evicted: int
    pdb_violations: int
    nodes: list[NodeShown]
    """Only those that changed."""


class Simulation(Shown, frozen=True):
    """All of it, in the order in which it happened."""

    cluster: ClusterShown
    profile: str
    """What the policies are called."""
    seed: int | None
    cycles: list[CycleShown]
    pending: list[PendingShown]
    evicted: list[VictimShown]
    summary: SummaryShown
