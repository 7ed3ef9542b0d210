"""Is there a placement that breaks nothing? Node by node, and on each set by set, by the truth and not by what is seen.

Rule: nothing of the engine is used here. A search that takes too long says so (None) and is counted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.storm.truth import Life, Truth
from extender.k8s.workloads import Workload

STEPS = 20_000
"""Sets looked at on one node before it is given up."""


@dataclass(frozen=True, slots=True)
class Removable:
    """A pod that may go, if the budgets that it charges have something left."""

    cpu: int
    memory: int
    charges: tuple[str, ...] = ()
    """Names of budgets; none: it may always go."""


def clean_placement(truth: Truth, preemptor: Life, resting: Collection[Workload] = ()) -> bool | None:
    """Could the preemptor run somewhere if some pods of lower priority went, no budget broken and no daemon evicted?

    No pod of a workload of `resting` may go. None: nobody knows, the search took too long.
    """
    left = {budget.limits.name: budget.left for budget in truth.budgets}
    undecided = False
    for node, here in truth.on_node.items():
        cpu, memory = _lacking(truth, preemptor, node)
        lower = (life for life in here.values() if life.template.priority < preemptor.template.priority)
        answer = frees(cpu, memory, list(_removable(lower, left, resting)), left)
        if answer:
            return True
        undecided |= answer is None
    return None if undecided else False


def _lacking(truth: Truth, preemptor: Life, node: str) -> tuple[int, int]:
    """Cpu and memory that the node has too little of, beside the others that are nominated to it."""
    room = truth.room[node]
    cpu, memory = preemptor.template.cpu - room.cpu, preemptor.template.memory - room.memory
    for other in truth.nominated.values():
        if other is not preemptor and other.pod.status.nominated_node_name == node:
            cpu, memory = cpu + other.template.cpu, memory + other.template.memory
    return cpu, memory


def _removable(lower: Iterable[Life], left: Mapping[str, int], resting: Collection[Workload]) -> Iterator[Removable]:
    """Those that may go, each looked at alone; what is on its way out already costs nothing."""
    for life in lower:
        template = life.template
        if template.is_protected or (template.workload in resting and not life.leaving):
            continue
        if life.healthy:
            charges = tuple(budget.limits.name for budget in life.budgets)
            if all(left[name] > 0 for name in charges):
                yield Removable(template.cpu, template.memory, charges)
        elif life.leaving or all(left[one.limits.name] >= 0 or one.limits.always_allow for one in life.budgets):
            yield Removable(template.cpu, template.memory)


def frees(cpu: int, memory: int, pods: Sequence[Removable], left: Mapping[str, int]) -> bool | None:
    """Is there a set of pods that frees so much of both, with no more pods of a budget than it has left?

    Those that charge nothing all go. The others are tried in turn, most cpu first, each gone before it stays; a branch
    ends where all that follow are not enough. None: not known after so many steps.
    """
    for pod in pods:
        if not pod.charges:
            cpu, memory = cpu - pod.cpu, memory - pod.memory
    charging = sorted((pod for pod in pods if pod.charges), key=lambda pod: (-pod.cpu, -pod.memory))
    following = [(0, 0)]
    for pod in reversed(charging):
        following.append((following[-1][0] + pod.cpu, following[-1][1] + pod.memory))
    following.reverse()
    return _Search(charging, following, dict(left)).go(0, cpu, memory)


@dataclass(slots=True)
class _Search:
    pods: Sequence[Removable]
    following: Sequence[tuple[int, int]]
    """[pod] -> cpu and memory of it and all after it."""
    left: dict[str, int]
    steps: int = 0

    def go(self, place: int, cpu: int, memory: int) -> bool | None:
        """Do some of the pods from this one on free so much?"""
        if cpu <= 0 and memory <= 0:
            return True
        all_cpu, all_memory = self.following[place]
        if cpu > all_cpu or memory > all_memory:
            return False
        self.steps += 1
        if self.steps > STEPS:
            return None
        pod = self.pods[place]
        gone: bool | None = False
        if all(self.left[name] > 0 for name in pod.charges):
            for name in pod.charges:
                self.left[name] -= 1
            gone = self.go(place + 1, cpu - pod.cpu, memory - pod.memory)
            for name in pod.charges:
                self.left[name] += 1
        return gone or self._without(gone, place, cpu, memory)

    def _without(self, gone: bool | None, place: int, cpu: int, memory: int) -> bool | None:
        """The pod stays; what was not known with it gone is known only if this is a yes."""
        stays = self.go(place + 1, cpu, memory)
        return stays or (None if gone is None else stays)
