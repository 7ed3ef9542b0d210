"""How many random cases a test tries: a few before a commit, more in CI, many by hand.

    fast    `make test`: the same cases each time
    ci      `make test-all`: the same cases each time
    long    `make test ARGS="--hypothesis-profile=long"`: new cases each time; the header of the run prints the
            `--hypothesis-seed` that repeats it, and a failure is kept in .hypothesis, to be tried first the next time

A seed that failed becomes an `@example`, which every profile tries.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**48)
"""One seed, one generated case."""

# A busy machine is not a fault of what is tested.
_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
_REPEATED = settings(_COMMON, derandomize=True, database=None)
settings.register_profile("fast", _REPEATED, max_examples=25)
settings.register_profile("ci", _REPEATED)
settings.register_profile("long", _COMMON, print_blob=True)
settings.load_profile("fast")


def by_profile(fast: int, ci: int, long: int) -> int:
    return {"fast": fast, "ci": ci, "long": long}[_profile()]


def examples(fast: int, ci: int, long: int) -> settings:
    """Settings for a property of seeds: how many, by profile. A smaller seed is not simpler: nothing is shrunk."""
    phases = Phase.explicit, Phase.reuse, Phase.generate
    return settings(max_examples=by_profile(fast, ci, long), phases=phases)


def in_long(test):
    """Decorator of a test that takes minutes."""
    return pytest.mark.skipif(_profile() != "long", reason="takes minutes: --hypothesis-profile=long")(test)


class Seeds:
    """Seeds for a test that counts what it met; its report names the one at which it failed."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.current: int | None = None

    def __call__(self, fast: int, ci: int, long: int) -> Iterator[int]:
        for seed in range(self._first, self._first + by_profile(fast, ci, long)):
            self.current = seed
            yield seed
        self.current = None


def _profile() -> str:
    return settings.get_current_profile_name().partition("-with-")[0]  # --hypothesis-verbosity makes one of its own
