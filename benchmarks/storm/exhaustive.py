"""Search for a placement that breaks no budget, node by node and set by set, on the actual and not the observed state.

Rule: the engine is not used here. A search that exceeds MAX_STEPS returns None, which is counted as undecided.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.storm.truth import Life, Truth
from extender.k8s.workloads import Workload

MAX_STEPS = 20_000
"""Maximum number of sets tried on one node."""


@dataclass(frozen=True, slots=True)
class Removable:
    """A pod that may be evicted while the budgets it counts against have disruptions left."""

    cpu: int
    memory: int
    charges: tuple[str, ...] = ()
    """Names of the budgets that its eviction counts against; without any, it may always be evicted."""


def clean_placement(truth: Truth, preemptor: Life, resting: Collection[Workload] = ()) -> bool | None:
    """Return whether evicting lower-priority pods places the preemptor, with no budget broken and no daemon evicted.

    Pods of the workloads in `resting` may not be evicted. None: undecided, the search took too long.
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
    """Return the CPU and memory that the node lacks for the preemptor beside its other nominated pods."""
    room = truth.room[node]
    cpu, memory = preemptor.template.cpu - room.cpu, preemptor.template.memory - room.memory
    for other in truth.nominated.values():
        if other is not preemptor and other.pod.status.nominated_node_name == node:
            cpu, memory = cpu + other.template.cpu, memory + other.template.memory
    return cpu, memory


def _removable(lower: Iterable[Life], left: Mapping[str, int], resting: Collection[Workload]) -> Iterator[Removable]:
    """Yield the pods that may be evicted individually; terminating pods count against no budget."""
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
    """Return whether some set of pods frees that much CPU and memory within the disruptions left of each budget.

    Pods that count against no budget are all evicted. The others are tried most CPU first, evicted before kept; a
    branch ends where all following pods together are not enough. None: undecided after MAX_STEPS.
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
    """[pod]: CPU and memory of this pod and all after it."""
    left: dict[str, int]
    steps: int = 0

    def go(self, place: int, cpu: int, memory: int) -> bool | None:
        """Return whether some of the pods from `place` on free that much."""
        if cpu <= 0 and memory <= 0:
            return True
        all_cpu, all_memory = self.following[place]
        if cpu > all_cpu or memory > all_memory:
            return False
        self.steps += 1
        if self.steps > MAX_STEPS:
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
        """Try the branch that keeps the pod; if evicting it was undecided, only success here decides."""
        stays = self.go(place + 1, cpu, memory)
        return stays or (None if gone is None else stays)
