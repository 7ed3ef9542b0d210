"""What spreading and anti-affinity cost beside resources alone, on every node, where a tenth of the pods has terms.

Both pods ask for the same resources and fit nowhere; one spreads over zones and hosts and keeps away from its own.
"""

from collections.abc import Iterator

import msgspec

from benchmarks import generate
from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.world import World, change_a_pod
from extender.core.filtering import Filtering, meet, run_filters
from extender.core.preemption import dry_run
from extender.core.verdict import Code
from extender.k8s.objects import Pod

GROUP = "spread"
ROUNDS = 151
TIMES_RESOURCES = Limit("≤", 5)
AGAINST = "resources only"


def rows(world: World) -> Iterator[Row]:
    plain = world.pod
    spreading = msgspec.convert(generate.spreading(world.plan), Pod)
    first = ", first pod of its template (cold)"
    for what, work in (("filter", filter_all), ("exhaustive dry run", dry_run_all)):
        for which, forget in (("", False), (first, True)):
            own, others = in_turns([work(world, spreading, forget), work(world, plain, forget)], ROUNDS)
            yield Row(GROUP, f"{what}{which}", own, AGAINST, others, TIMES_RESOURCES)


def filter_all(world: World, pod: Pod, forget: bool) -> Work:
    """Nothing is remembered of pods from the same template, or all that can be."""
    return Work(lambda: run(world, pod), prepare=lambda: forget_selectors(world, forget))


def dry_run_all(world: World, pod: Pod, forget: bool) -> Work:
    """From verdicts that no dry run has seen: what pods take is yet to be laid out."""
    ready: list[Filtering] = []

    def prepare() -> None:
        forget_selectors(world, forget)
        ready[:] = [run(world, pod)]

    def try_all() -> None:
        (filtering,) = ready
        dry_run(filtering.incoming, filtering.checks, filtering.rows(Code.UNSCHEDULABLE))

    return Work(try_all, prepare)


def run(world: World, pod: Pod) -> Filtering:
    return run_filters(meet(world.snapshot, pod, world.profile))


def forget_selectors(world: World, forget: bool) -> None:
    """As before the first pod of any template since a pod changed: whom selectors mean is not known."""
    if forget:
        change_a_pod(world.snapshot)
