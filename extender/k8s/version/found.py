"""Find the version of the kube-scheduler that runs in a cluster: by its pods, else by the API server's version.

kubeadm runs kube-scheduler as static pods in kube-system with the label component=kube-scheduler; their image tag is
the version. During an upgrade the tags differ and only the leader schedules. The lowest version is used: kube-scheduler
must not be newer than kube-apiserver, which is upgraded first, and the leader is usually the pod that runs longest.

Rule: a found version that is not verified is replaced by the nearest verified one; `source` then says so.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import msgspec

from extender.k8s.objects import Pod
from extender.k8s.version.versions import (
    NEWEST_MINOR,
    NEWEST_PATCHES,
    NEWEST_VERIFIED,
    OLDEST_MINOR,
    Version,
    image_tag,
    parse_version,
    supported_version,
)

# Minors by which kube-scheduler may seem newer than kube-apiserver, whose version is read less often than pods.
MAX_MINORS_AHEAD: Final = 1

# Minors by which kube-scheduler may be older than kube-apiserver: the version skew policy allows 1, some lag behind.
MAX_MINORS_BEHIND: Final = 3

NAMESPACE: Final = "kube-system"
"""Namespace of kube-scheduler's static pods."""

COMPONENT: Final = "kube-scheduler"
"""Value of the pods' label `component`, and name of their container."""


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """The version of a kube-scheduler, and where it was found or set."""

    minor: int
    """OLDEST_MINOR to NEWEST_MINOR."""
    source: str
    """Where the version was found, as `/readyz?verbose` prints it, and the found version if it is not verified."""
    patch: int | None = None
    """None for the newest patch."""

    @property
    def version(self) -> Version:
        return Version(self.minor, self.patch)

    @classmethod
    def of(cls, text: str, source: str) -> Self:
        """Return the verified version nearest to a found version. Raises ValueError if it is not Kubernetes 1.x."""
        return cls._nearest(parse_version(text), source)

    @classmethod
    def configured(cls, text: str) -> Self:
        """Return the version that an operator sets. Raises ValueError if its minor is not supported."""
        version = supported_version(text)
        if version.minor > NEWEST_VERIFIED.minor:  # known from its changelog alone: taken as it is
            return cls(version.minor, f"configured; 1.{version.minor} is not verified", version.patch)
        return cls._nearest(version, "configured")

    @classmethod
    def _nearest(cls, found: Version, source: str) -> Self:
        minor = min(max(found.minor, OLDEST_MINOR), NEWEST_VERIFIED.minor)
        newest = NEWEST_PATCHES[minor]
        # A patch newer than the newest compared patch most likely behaves like it.
        is_beyond = found.minor != minor or (found.patch or 0) > newest
        nearest = Version(minor, newest) if is_beyond else found
        return cls(nearest.minor, "; ".join((source, *assumption(found, nearest))), nearest.patch)


OnVersionFound = Callable[[FoundVersion | None], None]
"""Called with each version that is found, or with None if no version was found."""


def assumption(asked: Version, taken: Version) -> tuple[str, ...]:
    """Return a note that a different version is assumed; empty if the versions are equal."""
    if asked == taken:
        return ()
    verified = "" if asked.minor in NEWEST_PATCHES else f" (1.{OLDEST_MINOR} to {NEWEST_VERIFIED} are)"
    return (f"{asked} is not verified{verified}, so {taken} is assumed",)


def is_kube_scheduler(pod: Pod) -> bool:
    """Return whether the pod is a kube-scheduler pod as kubeadm creates it."""
    labels = pod.metadata.labels
    return pod.metadata.namespace == NAMESPACE and labels is not None and labels.get("component") == COMPONENT


def version_of_pods(pods: Iterable[Pod]) -> FoundVersion | None:
    """Return the lowest supported version among kube-scheduler's pods; None if no pod has one."""
    found = ((version, tag, pod.key) for pod in pods if is_kube_scheduler(pod) for version, tag in _tags(pod))
    # A tag without a patch sorts before tags of the same minor with a patch.
    tags = sorted(
        (one for one in found if OLDEST_MINOR <= one[0].minor <= NEWEST_MINOR),
        key=lambda one: (one[0].minor, -1 if one[0].patch is None else one[0].patch, one[1:]),
    )
    if not tags:
        return None
    _, tag, key = tags[0]
    versions = list(dict.fromkeys(str(version) for version, _, _ in tags))
    note = f", the lowest of {', '.join(versions)}" if len(versions) > 1 else ""
    return FoundVersion.of(tag, f"image tag {tag} of pod {key}{note}")


def _tags(pod: Pod) -> Iterator[tuple[Version, str]]:
    """Yield (version, image tag) for the pod's kube-scheduler, if the pod has not ended and the tag is a version."""
    if pod.status.phase not in ("Succeeded", "Failed"):
        for container in pod.spec.containers or ():
            tag = image_tag(container.image)
            if container.name == COMPONENT and tag is not None:
                with contextlib.suppress(ValueError):  # a vendor's own numbering
                    yield parse_version(tag), tag


def chosen_version(of_pods: FoundVersion | None, of_api_server: FoundVersion | None) -> FoundVersion | None:
    """Return the pods' version if it is plausible for the API server's version, else the API server's version."""
    if of_api_server is None:
        return of_pods
    # A tag far from the API server's version follows a different numbering, such as that of a distribution.
    if of_pods is None:
        why = "no pod of kube-scheduler names its version"
    elif -MAX_MINORS_AHEAD <= of_api_server.minor - of_pods.minor <= MAX_MINORS_BEHIND:
        return of_pods
    else:
        why = f"ignored, as too far from it: {of_pods.source}"
    return replace(of_api_server, source=f"{of_api_server.source}; {why}")


class _VersionInfo(msgspec.Struct, rename="camel"):
    """JSON of GET /version (version.Info, apimachinery)."""

    git_version: str = ""


def version_of_api_server(body: bytes) -> FoundVersion:
    """Return the version in an API server's response to GET /version. Raises ValueError if it has none."""
    version = msgspec.json.decode(body, type=_VersionInfo).git_version
    return FoundVersion.of(version, f"API server {version}")
