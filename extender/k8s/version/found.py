"""Find the version of the kube-scheduler that runs in a cluster: by its pods, else by the API server's version.

kubeadm runs kube-scheduler as static pods in kube-system, with the label component=kube-scheduler; the tag of their
image is the version. During an upgrade the tags differ and only one of the pods decides, the leader: the lowest version
is taken, because kube-scheduler must not be newer than kube-apiserver, which is upgraded first, and the leader is
usually the one that runs longest.

Rule: values in, a version or None out; a pod whose image has no supported version as its tag says nothing, nor does one
that kube-scheduler cannot have beside this API server: its tag follows a scheme of its own.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from extender.k8s.objects import Pod
from extender.k8s.version.minor import FoundVersion, parse_version, version_of_image
from extender.k8s.version.versions import NEWEST_MINOR, OLDEST_MINOR

MAX_MINORS_AHEAD: Final = 1
"""Minors that kube-scheduler may seem newer than kube-apiserver, whose version is read less often than pods change."""

MAX_MINORS_BEHIND: Final = 3
"""Minors that kube-scheduler may be older than kube-apiserver: the version skew policy allows 1, some stay behind."""

OnVersionFound = Callable[[FoundVersion | None], None]
"""Called with the version that is found from now on; None: none is."""

NAMESPACE: Final = "kube-system"
"""Namespace of kube-scheduler's static pods."""

COMPONENT: Final = "kube-scheduler"
"""Value of the pods' label `component`, and name of their container."""


def is_kube_scheduler(pod: Pod) -> bool:
    """Return whether this is a pod of kube-scheduler, as kubeadm creates them."""
    labels = pod.metadata.labels
    return pod.metadata.namespace == NAMESPACE and labels is not None and labels.get("component") == COMPONENT


def version_of_pods(pods: Iterable[Pod]) -> FoundVersion | None:
    """Return the lowest version of kube-scheduler's pods among these; None if there is none with a supported one."""
    found = ((parse_version(tag), tag, pod.key) for pod in pods if is_kube_scheduler(pod) for tag in _tags(pod))
    # A tag without a patch comes before those of its minor with one.
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


def chosen_version(of_pods: FoundVersion | None, of_api_server: FoundVersion | None) -> FoundVersion | None:
    """Return the version of the pods if kube-scheduler can have it beside this API server, else the API server's."""
    if of_api_server is None:
        return of_pods
    if of_pods is None:
        why = "no pod of kube-scheduler names its version"
    elif -MAX_MINORS_AHEAD <= of_api_server.minor - of_pods.minor <= MAX_MINORS_BEHIND:
        return of_pods
    else:
        why = f"ignored, as too far from it: {of_pods.source}"
    return replace(of_api_server, source=f"{of_api_server.source}; {why}")


def _tags(pod: Pod) -> Iterator[str]:
    """Yield the version of the pod's kube-scheduler, if it runs and its image has one."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return
    for container in pod.spec.containers or ():
        tag = version_of_image(container.image) if container.name == COMPONENT else None
        if tag is not None:
            yield tag


class _VersionInfo(msgspec.Struct, rename="camel"):
    """JSON of GET /version (version.Info, apimachinery)."""

    git_version: str = ""


_VERSION_INFO: Final = msgspec.json.Decoder(_VersionInfo)


def version_of_api_server(body: bytes) -> FoundVersion:
    """Return the version in an API server's answer to GET /version; raises ValueError if there is none."""
    version = _VERSION_INFO.decode(body).git_version
    return FoundVersion.of(version, f"API server {version}")
