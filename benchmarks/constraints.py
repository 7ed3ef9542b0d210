"""Compare spreading and anti-affinity with resources alone, on every node, where a tenth of the pods has terms.

Both pods request the same resources and fit nowhere; one has topology spread constraints over zones and hosts, and
anti-affinity to its own app.
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
    """Yield rows with cached selector matches, and with matches recomputed after a pod changed."""
    after = ", after a pod changed"
    for what, work in (("filter", filtering), ("dry run and ranking", preempting)):
        for which, changed in (("", False), (after, True)):
            own, others = in_turns([work(world, True, changed), work(world, False, changed)], ROUNDS)
            yield Row(GROUP, f"{what}{which}", own, AGAINST, others, TIMES_RESOURCES)
