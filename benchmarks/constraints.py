"""What spreading and anti-affinity cost beside resources alone, on every node, where a tenth of the pods has terms.

Both pods ask for the same resources and fit nowhere; one spreads over zones and hosts and keeps away from its own.
"""

from collections.abc import Iterator

from benchmarks.measure import Limit, Row, Work, in_turns
from benchmarks.works.decisions import filter_all, filtering
from benchmarks.world import World, change_a_pod
from extender.core.filtering import Filtering
from extender.core.preemption import dry_run
from extender.core.verdict import Code

GROUP = "spread"
ROUNDS = 151
TIMES_RESOURCES = Limit("≤", 5)
AGAINST = "resources only"


def rows(world: World) -> Iterator[Row]:
    """Whom selectors mean is remembered; or to be looked at again, because a pod changed."""
    after = ", after a pod changed"
    for what, work in (("filter", filtering), ("exhaustive dry run", dry_run_all)):
        for which, changed in (("", False), (after, True)):
            own, others = in_turns([work(world, True, changed), work(world, False, changed)], ROUNDS)
            yield Row(GROUP, f"{what}{which}", own, AGAINST, others, TIMES_RESOURCES)


def dry_run_all(world: World, mixed: bool, changed: bool) -> Work:
    """From verdicts that no dry run has seen: what pods take is yet to be laid out."""
    pod = world.spreading if mixed else world.pod
    ready: list[Filtering] = []

    def prepare() -> None:
        if changed:
            change_a_pod(world.snapshot)
        ready[:] = [filter_all(world, pod)]

    def try_all() -> None:
        (verdicts,) = ready
        dry_run(verdicts.incoming, verdicts.checks, verdicts.rows(Code.UNSCHEDULABLE))

    return Work(try_all, prepare)
