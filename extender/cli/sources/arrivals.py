"""Read the manifests of `extender simulate`: pods, workloads and claims that arrive, and nodes to add."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

    `namespace`: the default of manifests that name none.
    """
    from extender.whatif.body import not_a_pod_message
    from extender.whatif.workloads import API_VERSIONS, parse_workload

    pods: list[Pod] = []
    claims: list[ResourceClaim] = []
    workloads: list[WorkloadManifest] = []
    for file in files:
        name, report = read_manifest(file, namespace, API_VERSIONS)
        for kind in other_kinds(report, ("pods", "resource_claims")):
            raise ClusterFileError(not_a_pod_message(name, kind))
        if not report.objects.pods and not report.kept:
            raise ClusterFileError(f"{name}: contains no pods")
        try:
            workloads += (parse_workload(one, namespace) for one in report.kept)
        except RequestError as error:
            raise ClusterFileError(f"{name}: {error}") from error
        pods += report.objects.pods
        claims += report.objects.resource_claims
    return Arrivals(tuple(pods), tuple(claims), tuple(workloads))


def read_nodes(files: Sequence[str]) -> "Iterator[Node]":
    """Yield the nodes of the files; ClusterFileError if a file has anything else, or no nodes."""
    for file in files:
        name, report = read_manifest(file)
        for kind in other_kinds(report, ("nodes",)):
            raise ClusterFileError(f"{name}: {kind!r} is not a Node")
        if not report.objects.nodes:
            raise ClusterFileError(f"{name}: contains no nodes")
        yield from report.objects.nodes
