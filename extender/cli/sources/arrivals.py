"""Read the manifests of `extender simulate` and `why`: pods, workloads, and what they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from extender.cli import logs
from extender.cli.sources.manifest_file import read_manifests, shown_name
from extender.errors import ClusterFileError, RequestError
from extender.utilities.text import join_names, shortened

if TYPE_CHECKING:
    from extender.admission.admit import AdmissionMode, Admit
    from extender.admission.cluster import AdmissionCluster
    from extender.admission.findings import Findings
    from extender.admission.request import Manifest
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.files.manifests import RawManifest

DRY_RUN_SECONDS = 30.0
"""Time limit for one dry run."""


@dataclass(slots=True)
class ManifestFiles:
    """Objects that arrive."""

    pods: "list[RawManifest]" = field(default_factory=list)
    workloads: "list[RawManifest]" = field(default_factory=list)
    others: "list[RawManifest]" = field(default_factory=list)
    """Objects that the pods may need: claims, budgets, classes, Services."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Kind that no decision reads -> number of objects."""


def read_arrivals(files: Sequence[str], namespace: str) -> ManifestFiles:
    """Read the files of --pod; ExtenderError if a file has a Node, or nothing to schedule.

    `namespace`: the default of manifests that name none.
    """
    from extender.k8s.kinds import KINDS
    from extender.whatif.arrivals import key_of_kind
    from extender.whatif.workloads import API_VERSIONS, check_workload

    found = ManifestFiles()
    for file in files:
        before = len(found.pods) + len(found.workloads)
        for one in read_manifests([file]):
            if one.kind == "Node":
                raise ClusterFileError(f"{one.place}: a Node is not a pod: use --add-node of extender simulate")
            if one.kind in API_VERSIONS:
                check_workload(one)
                found.workloads.append(_with_namespace(one, namespace))
            elif (key := key_of_kind(one)) is None:
                found.passed_over[one.kind] = found.passed_over.get(one.kind, 0) + 1
            elif KINDS[key].namespaced:
                (found.pods if key == "Pod" else found.others).append(_with_namespace(one, namespace))
            else:
                found.others.append(one)
        if len(found.pods) + len(found.workloads) == before:
            others = join_names([repr(shortened(kind, 80)) for kind in sorted(found.passed_over)], 5)
            kinds = f"; kinds that are not read: {others}" if others else ""
            raise ClusterFileError(f"{shown_name(file)}: contains no pods and no workloads{kinds}")
    return found


def read_nodes(files: Sequence[str]) -> "list[RawManifest]":
    """Return the nodes of the files; ClusterFileError if a file has anything else, or no nodes."""
    nodes = []
    for file in files:
        found = read_manifests([file])
        for one in found:
            if one.kind != "Node":
                raise ClusterFileError(f"{one.place}: {shortened(one.kind, 80)!r} is not a Node")
        if not found:
            raise ClusterFileError(f"{shown_name(file)}: contains no nodes")
        nodes += found
    return nodes


def print_passed_over(kinds: Mapping[str, int]) -> None:
    """Name the kinds that change no decision, if there are any."""
    from extender.report.wording import describe_passed_over

    if kinds:
        logs.print_message(describe_passed_over(kinds))


def dry_run_of(mode: "AdmissionMode", api: "ApiServer | None", strict: bool) -> "Admit | None":
    """Return the dry run of the API server for the mode `server`; BadParameter without a live cluster."""
    if mode != "server":
        return None
    if api is None:
        raise typer.BadParameter("server needs a live cluster", param_hint="--admission")
    from extender.cluster.apiserver.dry_run import ServerAdmission

    def ask(kind: str, manifest: "Mapping[str, Any]", cluster: "AdmissionCluster") -> "tuple[Manifest, Findings]":  # noqa: ARG001
        return ServerAdmission(api, monotonic() + DRY_RUN_SECONDS, strict).admit(kind, dict(manifest), api.namespace)

    return ask


def _with_namespace(one: "RawManifest", namespace: str) -> "RawManifest":
    metadata = one.object.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise RequestError(f"{one.place}: {one.kind}: metadata: expected an object")
    namespaced = {**metadata, "namespace": metadata.get("namespace") or namespace}
    return one._replace(object={**one.object, "metadata": namespaced})
