"""How fast this machine is at work of the dry run's kind: the time of a fixed loop on fixed arrays.

`python -m benchmarks.calibration` prints its milliseconds. Figures that were taken
elsewhere, or at another time, are scaled by this loop's time there and here.

Rule: nothing of the service is in it, and it does not change: its time is kept beside figures.
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
    """Put the pods of every rank on all nodes at once, wherever there is still room; how many stay.

    The arrays: demand [rank, column, node], room [column, node].
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
    """CPU time of one run of the loop in this thread: the median of many."""
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
