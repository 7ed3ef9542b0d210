"""Calls of the schedulers, and the checks of their responses.

Eight of ten pods fit somewhere: /filter, then /prioritize of the remaining nodes. One fits nowhere: /filter, then
/preempt with candidates from a dry run of the initial cluster. Its victims are never deleted, so that they can be sent
again: the tenth pod is such a pod once more, without a nomination, which shows the extender that the preemption did not
happen. A few are not retried, and their assumed preemptions must expire.

Rule: every response is checked, first as kube-scheduler would, then for what kube-scheduler does not check.
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
from tests.contract.scheduler_eye import SchedulerEye, SchedulerRefuses

Verb = Literal["filter", "prioritize", "preempt"]

NAMES = 500
CANDIDATES = (100, 500)
"""Range of the number of sent candidates; kube-scheduler's default is a tenth of the nodes, at least 100."""
UNSCHEDULABLE_SHARE = 0.2
RETRIED_SHARE = 0.95
SPREADING_SHARE = 0.25
"""Share of the pods that have topology spread constraints."""

CACHE_HEADER = "X-Extender-Cache"
"""Header of every response that contains a decision."""

MAX_SCORE = 10


class WrongAnswer(Exception):
    """The response violates a requirement."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Response to a call."""

    status: int
    body: bytes
    is_decided: bool
    """Whether it is a decision, not a passthrough response."""


class Common:
    """Data shared by all schedulers of a process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        world = World(plan, full=False)
        self.names = world.node_names
        sent = (json.loads(victims_body({}, [one]))["NodeNameToMetaVictims"] for one in world.candidates)
        self.sent: list[tuple[str, bytes]] = [
            (node, compact({node: victims})[1:-1]) for one in sent for node, victims in one.items()
        ]
        self.eye = SchedulerEye(population.known_pods(plan), ignorable=False)


class CycleGenerator:
    """Generates the scheduling cycles of one scheduler, one after another."""

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
        is_nowhere = kind < UNSCHEDULABLE_SHARE
        if is_nowhere and self._again is not None:
            again, self._again = self._again, None
            return Cycle(self._common, again, names, None)
        if is_nowhere:
            pod = generate.incoming(plan)
        else:
            pod = (
                generate.spreading(plan) if kind < UNSCHEDULABLE_SHARE + SPREADING_SHARE else generate.undemanding(plan)
            )
            cpu = chance.choice(("50m", "100m", "250m", "500m"))
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        uid = f"{self._scheduler:08x}-0000-4000-8000-{self._number:012x}"
        pod["metadata"] |= {"name": f"incoming-{self._scheduler}-{self._number}", "uid": uid}
        if is_nowhere and chance.random() < RETRIED_SHARE:
            self._again = pod
        return Cycle(self._common, pod, names, self._sent_candidates() if is_nowhere else None)

    def _sent_candidates(self) -> dict[str, bytes]:
        count = min(self._chance.randint(*CANDIDATES), len(self._common.sent))
        return dict(self._chance.sample(self._common.sent, count))


@dataclass(frozen=True)
class Cycle:
    """One pod's scheduling cycle."""

    common: Common
    pod: JSON
    names: Sequence[str]
    sent: Mapping[str, bytes] | None
    """Sent candidates of a pod that fits nowhere; None for other pods."""

    @cached_property
    def filter_body(self) -> bytes:
        return names_body(self.pod, self.names)

    def prioritize_body(self, names: Sequence[str]) -> bytes:
        return names_body(self.pod, names)

    @cached_property
    def preempt_body(self) -> bytes:
        victims = b",".join((self.sent or {}).values())
        pod = compact(self.pod)
        return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":{%b}}' % (pod, victims)

    # --- checks: each raises WrongAnswer ---

    def filtered(self, reply: Reply) -> list[str]:
        """Check a /filter response; return the remaining nodes."""
        try:
            seen = self.common.eye.filter(self.filter_body, reply.status, reply.body)
        except SchedulerRefuses as refusal:
            raise WrongAnswer(str(refusal)) from refusal
        sets = (set(seen.nodes), set(seen.failed), set(seen.unresolvable))
        if sum(map(len, sets)) != len(self.names) or set().union(*sets) != set(self.names):
            raise WrongAnswer("the returned nodes are not a partition of the requested nodes")
        left = set(seen.nodes)
        if seen.nodes != [name for name in self.names if name in left]:
            raise WrongAnswer("the remaining nodes are not in the requested order")
        return seen.nodes

    def scored(self, names: Sequence[str], reply: Reply) -> None:
        try:
            scores = self.common.eye.prioritize(reply.status, reply.body)
        except SchedulerRefuses as refusal:
            raise WrongAnswer(str(refusal)) from refusal
        if not reply.is_decided and not scores:
            return
        if scores.keys() != set(names):
            raise WrongAnswer("the scored nodes are not the requested nodes")
        if not all(0 <= score <= MAX_SCORE for score in scores.values()):
            raise WrongAnswer("a score is not from 0 to 10")

    def preempted(self, reply: Reply) -> set[str]:
        """Check a /preempt response; return its nodes that were not sent as candidates."""
        try:
            answered = self.common.eye.preempt(reply.status, reply.body)
        except SchedulerRefuses as refusal:
            raise WrongAnswer(f"{type(refusal).__name__}: {refusal}") from refusal
        priority = self.pod["spec"]["priority"]
        for node, victims in answered.items():
            priorities = [pod.priority for pod in victims.pods]
            if max(priorities) >= priority:
                raise WrongAnswer(f"a victim on {node} is not of lower priority")
            if priorities != sorted(priorities, reverse=True):
                raise WrongAnswer(f"the victims on {node} are not most important first")
            if len(set(map(_uid, victims.pods))) != len(victims.pods):
                raise WrongAnswer(f"a victim on {node} is named twice")
        return answered.keys() - (self.sent or {}).keys()


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
