"""Kubernetes versions as settings, /version and image references name them: "1.33", "v1.33.2+k3s1", "1.33+".

Rule: what an operator sets must be supported; what is found in a cluster and is not verified is moved to the nearest
version that is, and its source says so. A vendor's suffix does not count: the patch is still upstream's.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from extender.k8s.version.versions import NEWEST_MINOR, NEWEST_PATCHES, OLDEST_MINOR, Version

SUPPORTED_VERSIONS: Final = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
NEWEST_VERIFIED: Final = Version(*max(NEWEST_PATCHES.items()))

_FOUND: Final = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.(?P<patch>[0-9]{1,3})(?![0-9]))?(?:\+|(?:[.+_-].*))?")
"""Major, minor, perhaps a patch; behind them nothing, the "+" of a vendor's /version, a pre-release or a build."""
_SET: Final = re.compile(r"v?([0-9]{1,3})\.(0|[1-9][0-9]{0,2})(?:\.(?P<patch>0|[1-9][0-9]{0,2}))?(?:[+-].*)?")
"""Version as an operator writes it: what follows the minor and is not a patch is a mistake, not a vendor's image."""
_IMAGE_TAG: Final = re.compile(r"(?:.*/)?[^/:@]+:(?P<tag>[^/:@]+)(?:@.*)?")
"""A tag stands behind the last slash, before the digest; a colon before that slash is the registry's port."""


def parse_version(text: str) -> Version:
    """Return the version of a text: 1.33.2 for "v1.33.2+k3s1"; raises ValueError if it is not one of Kubernetes 1.x."""
    return _parsed(text, _FOUND)


def _parsed(text: str, pattern: re.Pattern[str]) -> Version:
    found = pattern.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'"{text}" is not a version of Kubernetes, such as 1.{OLDEST_MINOR} or v1.{OLDEST_MINOR}.1')
    if found[1] != "1":
        raise ValueError(f'"{text}" is not a version of Kubernetes 1.x')
    return Version(int(found[2]), None if found["patch"] is None else int(found["patch"]))


def supported_version(text: str) -> Version:
    """Return the version that an operator sets; raises ValueError if it is none or its minor is not supported."""
    version = _parsed(text, _SET)
    if not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
        raise ValueError(f'"{text}" is not supported: {SUPPORTED_VERSIONS}')
    return version


def version_of_image(image: str) -> str | None:
    """Return the tag of an image reference if it is a version of Kubernetes 1.x, else None.

    "registry.example:5000/kube-scheduler:v1.33.2@sha256:…" has tag "v1.33.2"; one with a digest only has none.
    """
    found = _IMAGE_TAG.fullmatch(image.strip())
    if found is None:
        return None
    try:
        parse_version(found["tag"])
    except ValueError:
        return None
    return found["tag"]


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """A kube-scheduler's version, and where it was found or set."""

    minor: int
    """OLDEST_MINOR to NEWEST_MINOR."""
    source: str
    """Where it was found, as `/readyz?verbose` says it, and what was found if that is not verified."""
    patch: int | None = None
    """None: the newest."""

    @property
    def version(self) -> Version:
        """Return minor and patch."""
        return Version(self.minor, self.patch)

    @classmethod
    def of(cls, text: str, source: str) -> Self:
        """Return the verified version nearest to the one that was found; ValueError if that is not Kubernetes 1.x."""
        found = parse_version(text)
        nearest = _nearest_verified(found)
        return cls(nearest.minor, "; ".join((source, *assumption(found, nearest))), nearest.patch)

    @classmethod
    def configured(cls, text: str) -> Self:
        """Return the version that an operator sets; ValueError if its minor is not supported.

        A minor whose changes are known from its changelog alone holds, and is called not verified.
        """
        version = supported_version(text)
        if version.minor not in NEWEST_PATCHES:
            return cls(version.minor, f"configured; 1.{version.minor} is not verified", version.patch)
        nearest = _nearest_verified(version)
        return cls(nearest.minor, "; ".join(("configured", *assumption(version, nearest))), nearest.patch)


def assumption(asked: Version, taken: Version) -> tuple[str, ...]:
    """Return the note that another version than this one is taken; none if it is the same."""
    if asked == taken:
        return ()
    verified = "" if asked.minor in NEWEST_PATCHES else f" (1.{OLDEST_MINOR} to {NEWEST_VERIFIED} are)"
    return (f"{asked} is not verified{verified}, so {taken} is assumed",)


def _nearest_verified(version: Version) -> Version:
    """Return the version itself if its verdicts are known, else the nearest one whose verdicts are."""
    if version.minor < OLDEST_MINOR:
        return Version(OLDEST_MINOR, NEWEST_PATCHES[OLDEST_MINOR])
    if version.minor > NEWEST_VERIFIED.minor:
        return NEWEST_VERIFIED
    newest = NEWEST_PATCHES[version.minor]
    return Version(version.minor, newest) if (version.patch or 0) > newest else version
