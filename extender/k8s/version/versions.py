"""Versions of Kubernetes 1.x: the verified versions, and the parsing of version texts.

Settings, /version and image tags spell a version as "1.33", "v1.33.2+k3s1" or "1.33+". A vendor's suffix does not
count: the patch is still upstream's.

Rule: values only; the verdicts that differ between versions are in `features`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OLDEST_MINOR: Final = 29
NEWEST_MINOR: Final = 38
# Minor that is assumed if none is set or found: the newest minor that judged the corpus in tests/parity.
DEFAULT_MINOR: Final = 37

# Verified minor -> newest patch whose code was compared; later patches are treated like it.
NEWEST_PATCHES: Final[Mapping[int, int]] = {
    29: 14, 30: 14, 31: 14, 32: 13, 33: 13, 34: 12, 35: 8, 36: 5, 37: 2
}  # fmt: skip

Backports = Mapping[int, int]
"""Minor -> first patch with a backport of a change that a later minor has from its first release on."""

# Major, minor and an optional patch, then the "+" of a vendor's /version, a pre-release or a build.
_FOUND: Final = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.(?P<patch>[0-9]{1,3})(?![0-9]))?(?:\+|(?:[.+_-].*))?")
# As _FOUND, but stricter: in a setting, "1.36.x" is a mistake and not a vendor's image tag.
_SET: Final = re.compile(r"v?([0-9]{1,3})\.(0|[1-9][0-9]{0,2})(?:\.(?P<patch>0|[1-9][0-9]{0,2}))?(?:[+-].*)?")
# The tag follows the last slash and precedes the digest; a colon before that slash belongs to the registry's port.
_IMAGE_TAG: Final = re.compile(r"(?:.*/)?[^/:@]+:(?P<tag>[^/:@]+)(?:@.*)?")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of Kubernetes 1.x: 1.36.2, or 1.36, which means the newest patch."""

    minor: int
    patch: int | None = None

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"

    def has(self, first: int, backports: Backports) -> bool:
        """Return whether this version has a change introduced in minor `first`, by itself or by a backport."""
        if self.minor >= first:
            return True
        # Without a patch the newest patch is meant, which has every backport.
        return self.minor in backports and (self.patch is None or self.patch >= backports[self.minor])


NEWEST_VERIFIED: Final = Version(*max(NEWEST_PATCHES.items()))


def parse_version(text: str) -> Version:
    """Parse a version found in a cluster: 1.33.2 for "v1.33.2+k3s1". Raises ValueError unless it is Kubernetes 1.x."""
    return _parse(text, _FOUND)


def supported_version(text: str) -> Version:
    """Parse a version that an operator sets. Raises ValueError if it is malformed or its minor is not supported."""
    version = _parse(text, _SET)
    if not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
        raise ValueError(f'"{text}" is not supported: 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}')
    return version


def _parse(text: str, pattern: re.Pattern[str]) -> Version:
    found = pattern.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'"{text}" is not a version of Kubernetes, such as 1.{OLDEST_MINOR} or v1.{OLDEST_MINOR}.1')
    if found[1] != "1":
        raise ValueError(f'"{text}" is not a version of Kubernetes 1.x')
    return Version(int(found[2]), None if found["patch"] is None else int(found["patch"]))


def image_tag(image: str) -> str | None:
    """Return the tag of an image reference; None if it has no tag."""
    found = _IMAGE_TAG.fullmatch(image.strip())
    return None if found is None else found["tag"]
