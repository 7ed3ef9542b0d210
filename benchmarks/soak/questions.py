"""What the schedulers ask, and whether an answer is right.

Eight of ten pods fit somewhere: /filter, then /prioritize of the nodes that are left. One fits nowhere: /filter, then
/preempt with the candidates that a dry run of the cluster as it was at the beginning gives. Nobody deletes its victims,
so that they can be offered again: the tenth pod is one of these once more, with no nomination, by which the extender
learns that the preemption did not come about. A few do not come again, and what is assumed of them has to expire.

Rule: every answer is checked, first as kube-scheduler would take it, then for what kube-scheduler trusts us with.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from benchmarks import generate
from benchmarks.bodies import compact, names_body, victims_body
from benchmarks.generate import JSON, Plan
from benchmarks.soak import population
from benchmarks.world import World
from extender.k8s.objects import Pod
from tests.contract.scheduler_eye import SchedulerDies, SchedulerEye, SchedulerRefuses

Verb = Literal["filter", "prioritize", "preempt"]

NAMES = 500
CANDIDATES = (100, 500)
"""As many as kube-scheduler offers by default: a tenth of the nodes, at least 100."""
NOWHERE = 0.2
COMES_AGAIN = 0.95
SPREADING = 0.25
"""Shares of the pods."""

CACHE_HEADER = "X-Extender-Cache"
"""A header of every answer that is a decision."""

MAX_SCORE = 10


class Wrong(Exception):
    """An answer that must not be given."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    is_decided: bool
    """It is a decision, not what is answered where nothing is decided."""


class Common:
    """What all schedulers of a process share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        world = World(plan, full=False)
        self.names = world.node_names
        sent = (json.loads(victims_body({}, [one]))["NodeNameToMetaVictims"] for one in world.candidates)
        self.sent: list[tuple[str, bytes]] = [
            (node, compact({node: victims})[1:-1]) for offer in sent for node, victims in offer.items()
        ]
        self.eye = SchedulerEye(population.known_pods(plan), ignorable=False)


class Asking:
    """One scheduler's pods, one after another."""

    def __init__(self, common: Common, scheduler: int) -> None:
        self._common = common
        self._chance = common.plan.chance("scheduler", scheduler)
        self._scheduler = scheduler
        self._number = 0
        self._again: JSON | None = None

    def next(self) -> "Cycle":
        self._number += 1
        plan, chance, kind = self._common.plan, self._chance, self._chance.random()
        names = chance.sample(self._common.names, min(NAMES, len(self._common.names)))
        is_nowhere = kind < NOWHERE
        if is_nowhere and self._again is not None:
            again, self._again = self._again, None
            return Cycle(self._common, again, names, None)
        if is_nowhere:
            pod = generate.incoming(plan)
        else:
            pod = generate.spreading(plan) if kind < NOWHERE + SPREADING else generate.undemanding(plan)
            cpu = chance.choice(("50m", "100m", "250m", "500m"))
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        uid = f"{self._scheduler:08x}-0000-4000-8000-{self._number:012x}"
        pod["metadata"] |= {"name": f"asked-{self._scheduler}-{self._number}", "uid": uid}
        if is_nowhere and chance.random() < COMES_AGAIN:
            self._again = pod
        return Cycle(self._common, pod, names, self._offered() if is_nowhere else None)

    def _offered(self) -> dict[str, bytes]:
        count = min(self._chance.randint(*CANDIDATES), len(self._common.sent))
        return dict(self._chance.sample(self._common.sent, count))


@dataclass(frozen=True)
class Cycle:
    """One pod's scheduling cycle."""

    common: Common
    pod: JSON
    names: Sequence[str]
    offered: Mapping[str, bytes] | None
    """Candidates of a pod that fits nowhere; None of others."""

    @cached_property
    def filter_body(self) -> bytes:
        return names_body(self.pod, self.names)

    def prioritize_body(self, names: Sequence[str]) -> bytes:
        return names_body(self.pod, names)

    @cached_property
    def preempt_body(self) -> bytes:
        victims = b",".join((self.offered or {}).values())
        pod = compact(self.pod)
        return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":{%b}}' % (pod, victims)

    # --- what is right: each raises Wrong ---

    def filtered(self, reply: Reply) -> list[str]:
        """The nodes that are left."""
        try:
            seen = self.common.eye.filter(self.filter_body, reply.status, reply.body)
        except SchedulerRefuses as refusal:
            raise Wrong(str(refusal)) from refusal
        sets = (set(seen.nodes), set(seen.failed), set(seen.unresolvable))
        if sum(map(len, sets)) != len(self.names) or set().union(*sets) != set(self.names):
            raise Wrong("the nodes answered are not a partition of those offered")
        left = set(seen.nodes)
        if seen.nodes != [name for name in self.names if name in left]:
            raise Wrong("the nodes that are left are not in the order offered")
        return seen.nodes

    def scored(self, names: Sequence[str], reply: Reply) -> None:
        try:
            scores = self.common.eye.prioritize(reply.status, reply.body)
        except SchedulerRefuses as refusal:
            raise Wrong(str(refusal)) from refusal
        if not reply.is_decided and not scores:
            return
        if scores.keys() != set(names):
            raise Wrong("the nodes scored are not those offered")
        if not all(0 <= score <= MAX_SCORE for score in scores.values()):
            raise Wrong("a score is not from 0 to 10")

    def preempted(self, reply: Reply) -> set[str]:
        """The nodes that are answered but were not offered."""
        try:
            answered = self.common.eye.preempt(reply.status, reply.body)
        except (SchedulerRefuses, SchedulerDies) as refusal:
            raise Wrong(f"{type(refusal).__name__}: {refusal}") from refusal
        priority = self.pod["spec"]["priority"]
        for node, victims in answered.items():
            priorities = [pod.priority for pod in victims.pods]
            if max(priorities) >= priority:
                raise Wrong(f"a victim on {node} is not of lower priority")
            if priorities != sorted(priorities, reverse=True):
                raise Wrong(f"the victims on {node} are not most important first")
            if len(set(map(_uid, victims.pods))) != len(victims.pods):
                raise Wrong(f"a victim on {node} is named twice")
        return answered.keys() - (self.offered or {}).keys()


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
