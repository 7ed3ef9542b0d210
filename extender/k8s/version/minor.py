"""Kubernetes minors as versions, /version and image references name them: "1.33", "v1.33.2+k3s1", "1.33+".

Rule: what an operator sets must be supported; what is found in a cluster is moved to the nearest supported minor, and
its source says so.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from extender.k8s.version.features import NEWEST_MINOR, OLDEST_MINOR

SUPPORTED_VERSIONS: Final = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"

_VERSION: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\+|(?:[.+_-].*))?")
"""Major and minor; behind them nothing, the "+" of a vendor's /version, or a patch, pre-release or build."""
_IMAGE_TAG: Final = re.compile(r"(?:.*/)?[^/:@]+:(?P<tag>[^/:@]+)(?:@.*)?")
"""A tag stands behind the last slash, before the digest; a colon before that slash is the registry's port."""


def parse_minor(text: str) -> int:
    """Return the minor of a version: 33 for "v1.33.2"; raises ValueError if it is not one of Kubernetes 1.x."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'"{text}" is not a version of Kubernetes, such as 1.{OLDEST_MINOR} or v1.{OLDEST_MINOR}.1')
    if found[1] != "1":
        raise ValueError(f'"{text}" is not a version of Kubernetes 1.x')
    return int(found[2])


def supported_minor(text: str) -> int:
    """Return the minor of a version that an operator sets; raises ValueError if it is not supported."""
    minor = parse_minor(text)
    if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
        raise ValueError(f'"{text}" is not supported: {SUPPORTED_VERSIONS}')
    return minor


def version_of_image(image: str) -> str | None:
    """Return the tag of an image reference if it is a version of Kubernetes 1.x, else None.

    "registry.example:5000/kube-scheduler:v1.33.2@sha256:…" has tag "v1.33.2"; one with a digest only has none.
    """
    found = _IMAGE_TAG.fullmatch(image.strip())
    if found is None:
        return None
    try:
        parse_minor(found["tag"])
    except ValueError:
        return None
    return found["tag"]


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """A kube-scheduler's version that was found, not set."""

    minor: int
    """OLDEST_MINOR to NEWEST_MINOR."""
    source: str
    """Where it was found, as `/readyz?verbose` says it, and what was found if that is not supported."""

    @classmethod
    def of(cls, version: str, source: str) -> Self:
        """Return the supported minor nearest to the version; raises ValueError if it is not one of Kubernetes 1.x."""
        found = parse_minor(version)
        nearest = min(max(found, OLDEST_MINOR), NEWEST_MINOR)
        note = "" if nearest == found else f"; 1.{found} is not among {SUPPORTED_VERSIONS}, so 1.{nearest} is assumed"
        return cls(nearest, source + note)
