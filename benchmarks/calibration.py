"""Time a fixed loop on fixed arrays, as a measure of this machine's speed at work like the dry run's.

`python -m benchmarks.calibration` prints its milliseconds. Figures that were taken
elsewhere, or at another time, are scaled by this loop's time there and here.

Rule: the loop uses no code of the service and never changes, since its time is stored beside figures.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import start_over

RANKS, COLUMNS, NODES = 30, 4, 5000
SEED = 36
ROUNDS = 301
WARM_UP = 20


def loop(ranks: int = RANKS, columns: int = COLUMNS, nodes: int = NODES) -> Callable[[], int]:
    """Return a function that puts the pods of each rank on all nodes with room left, and counts those that stay.

    Arrays: demand [rank, column, node], room [column, node].
    """
    chance = np.random.default_rng(SEED)
    demand = chance.integers(0, 1000, (ranks, columns, nodes), dtype=np.int64)
    headroom = chance.integers(5_000, 15_000, (columns, nodes), dtype=np.int64)

    def run() -> int:
        use, stay = np.zeros_like(headroom), 0
        for k in range(ranks):
            trial = use + demand[k]
            ok = (trial <= headroom).all(axis=0)
            use = np.where(ok, trial, use)
            stay += int(np.count_nonzero(ok))
        return stay

    return run


def milliseconds(rounds: int = ROUNDS) -> float:
    """Return the median CPU time of one run of the loop in this thread."""
    run = loop()
    for _ in range(WARM_UP):
        run()
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    start_over("benchmarks.calibration")
    print(f"{milliseconds():.3f}")


if __name__ == "__main__":
    main()
