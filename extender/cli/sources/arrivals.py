"""Read the manifests of `extender simulate`: pods, workloads and claims that arrive, and nodes to add."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from extender.cli.sources.manifest_file import other_kinds, read_manifest
from extender.errors import ClusterFileError, RequestError

if TYPE_CHECKING:
    from extender.k8s.devices.objects import ResourceClaim
    from extender.k8s.objects import Node, Pod
    from extender.whatif.workloads import WorkloadManifest


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Objects that arrive in a simulation."""

    pods: "tuple[Pod, ...]"
    claims: "tuple[ResourceClaim, ...]"
    workloads: "tuple[WorkloadManifest, ...]"


def read_arrivals(files: Sequence[str], namespace: str) -> Arrivals:
    """Read pods, workloads and resource claims; ExtenderError if a file has anything else, or nothing to schedule.

    `namespace`: that of manifests that do not name one.
    """
    found = [_read_arrivals(file, namespace) for file in files]
    pods, claims, workloads = (
        tuple(one for arrivals in found for one in getattr(arrivals, field.name)) for field in fields(Arrivals)
    )
    return Arrivals(pods, claims, workloads)


def _read_arrivals(file: str, namespace: str) -> Arrivals:
    from extender.whatif.body import not_a_pod_message
    from extender.whatif.workloads import API_VERSIONS, parse_workload

    name, report = read_manifest(file, namespace, API_VERSIONS)
    for kind in other_kinds(report, ("pods", "resource_claims")):
        raise ClusterFileError(not_a_pod_message(name, kind))
    found = report.objects
    if not found.pods and not report.kept:
        raise ClusterFileError(f"{name}: contains no pods")
    try:
        workloads = tuple(parse_workload(one, namespace) for one in report.kept)
    except RequestError as error:
        raise ClusterFileError(f"{name}: {error}") from error
    return Arrivals(found.pods, found.resource_claims, workloads)


def read_nodes(files: Sequence[str]) -> "Iterator[Node]":
    """Yield the nodes of the files; ClusterFileError if one has anything else, or no nodes."""
    for file in files:
        name, report = read_manifest(file)
        for kind in other_kinds(report, ("nodes",)):
            raise ClusterFileError(f"{name}: {kind!r} is not a Node")
        if not report.objects.nodes:
            raise ClusterFileError(f"{name}: contains no nodes")
        yield from report.objects.nodes
