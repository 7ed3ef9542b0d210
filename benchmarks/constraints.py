"""What spreading and anti-affinity cost beside resources alone, on every node, where a tenth of the pods has terms.

Both pods ask for the same resources and fit nowhere; one spreads over zones and hosts and keeps away from its own.
"""

from collections.abc import Iterator

from benchmarks.measure import Limit, Row, in_turns
from benchmarks.works.decisions import filtering, preempting
from benchmarks.world import World

GROUP = "spread"
ROUNDS = 151
TIMES_RESOURCES = Limit("≤", 5)
AGAINST = "resources only"


def rows(world: World) -> Iterator[Row]:
    """Whom selectors mean is remembered; or to be looked at again, because a pod changed."""
    after = ", after a pod changed"
    for what, work in (("filter", filtering), ("dry run and ranking", preempting)):
        for which, changed in (("", False), (after, True)):
            own, others = in_turns([work(world, True, changed), work(world, False, changed)], ROUNDS)
            yield Row(GROUP, f"{what}{which}", own, AGAINST, others, TIMES_RESOURCES)
