"""Versions of Kubernetes whose verdicts are known, and the older ones that kube-scheduler can emulate.

Rule: values only; which verdicts a version has is in `features`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OLDEST_MINOR: Final = 29
NEWEST_MINOR: Final = 38
DEFAULT_MINOR: Final = 37
"""Minor whose verdicts hold where nothing says which one: the newest that the corpus in tests/parity was judged by."""

NEWEST_PATCHES: Final[Mapping[int, int]] = {
    29: 14, 30: 14, 31: 14, 32: 13, 33: 13, 34: 12, 35: 8, 36: 5, 37: 2
}  # fmt: skip
"""Verified minor -> its newest patch whose code is known; a later one is taken for it."""

Backports = Mapping[int, int]
"""Minor -> its first patch that behaves as a later minor does from its first release on."""


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of Kubernetes 1.x: 1.36.2, or 1.36, which means the newest patch."""

    minor: int
    patch: int | None = None

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"

    def has(self, first: int, backports: Backports) -> bool:
        """Return whether a change of minor `first` is in this version, which may carry it back."""
        if self.minor >= first:
            return True
        # Without a patch the newest one is meant, which has all that was carried back.
        return self.minor in backports and (self.patch is None or self.patch >= backports[self.minor])


MAX_MINORS_EMULATED: Final = 3
"""Minors that --emulated-version may be older than kube-scheduler."""

OLDEST_EMULATED_MINOR: Final = 31


@dataclass(frozen=True, slots=True)
class Emulation:
    """The minors of kube-scheduler's --emulated-version and --min-compatibility-version; None: not set.

    They choose the stages and defaults of feature gates, and nothing else: behaviors without a gate, the gates that
    need one another and those that are removed are those of the program.
    """

    version: int | None = None
    min_compatibility: int | None = None

    def __str__(self) -> str:
        minors = {"emulates": self.version, "is compatible with": self.min_compatibility}
        return ", ".join(f"{what} 1.{minor}" for what, minor in minors.items() if minor is not None)

    def of(self, minor: int) -> tuple[int, int]:
        """Return (emulated minor, minor to be compatible with) of a kube-scheduler of this minor.

        Raises ValueError for what it refuses (effectiveVersion.Validate of component-base).
        """
        if minor < OLDEST_EMULATED_MINOR and self != NO_EMULATION:
            raise ValueError(f"1.{minor} emulates no version: 1.{OLDEST_EMULATED_MINOR} is the first that does")
        floor = max(minor - MAX_MINORS_EMULATED, OLDEST_EMULATED_MINOR)
        emulated = minor if self.version is None else self.version
        compatible = max(emulated - 1, floor) if self.min_compatibility is None else self.min_compatibility
        if self.version is not None and not floor <= emulated <= minor:
            raise ValueError(f"1.{minor} emulates 1.{floor} to 1.{minor}, not 1.{emulated}")
        if self.min_compatibility is not None and not floor <= compatible <= emulated:
            raise ValueError(f"1.{compatible} is not a version to be compatible with: 1.{floor} to 1.{emulated} are")
        return emulated, compatible


NO_EMULATION: Final = Emulation()
