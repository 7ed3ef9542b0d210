"""The cluster of a command: from a file, the example, or an API server that is watched or read once."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from extender.cli import logs
from extender.cli.sources.progress import show_progress

if TYPE_CHECKING:  # the API client loads slowly: imported only to read a live cluster
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.cluster.files.manifests import FileAdmission
    from extender.config import Configuration
    from extender.k8s.kinds import ClusterObjects, ObjectTables
    from extender.k8s.version.found import FoundVersion
    from extender.report.schema import SourceReport
    from extender.server.observability.cache_status import ClusterSource
    from extender.utilities.source_file import SourceFile


OTHER_SOURCES = "\n--cluster PATH reads a file or a directory, --example the cluster that ships with the package"
"""Advice of a command that reads a cluster once and finds no kubeconfig."""


def connect_api_server(settings: "Configuration", advice: str = "") -> "ApiServer | None":
    """Return the API server of a live cluster, or None for a file; ExtenderError if the credentials are not usable.

    `advice` ends the message if no kubeconfig is found.
    """
    if settings.cluster.source != "kubernetes":
        return None
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.apiserver.credentials import NoKubeconfig

    try:
        return ApiServer.connect(settings.cluster.kubeconfig, settings.cluster.context)
    except NoKubeconfig as error:
        raise NoKubeconfig(f"{error}{advice}") from None


def namespace_of(api: "ApiServer | None") -> str:
    """Return the namespace of manifests that name none: as with kubectl, the context's, or else `default`."""
    return "default" if api is None else api.namespace


def source_of(api: "ApiServer | None", files: "Sequence[SourceFile]" = ()) -> "SourceReport":
    """Return where the cluster of a command comes from; without files, and without `api`, it is the example."""
    from extender.report.scheduler_report import source_of_files
    from extender.report.schema import EXAMPLE, SourceReport

    if api is not None:
        return SourceReport(kind="live", context=api.context, server=api.host, namespace=api.namespace)
    return source_of_files(files, EXAMPLE)


def open_cluster(settings: "Configuration", cache: "ClusterCache", api: "ApiServer | None") -> "ClusterSource":
    """Return the source that fills `cache`: a file at once, a live cluster once the service runs."""
    from extender.cluster.files.manifests import example_cluster
    from extender.cluster.files.source import FileSource
    from extender.cluster.watch.source import KubernetesSource
    from extender.config.scheduler.load import load_kube_scheduler
    from extender.server.observability.cache_status import NO_SOURCE

    cluster = settings.cluster
    if api is not None:
        policy = settings.preemption.policy()
        return KubernetesSource(
            cache,
            api,
            stale_after=cluster.stale_after,
            verify_interval=cluster.verify_interval,
            pod_annotations=policy.annotations,
            pod_groups=policy.reads_pod_groups,
        )
    if cluster.path is None:
        cache.replace(example_cluster())
        return NO_SOURCE
    paths = [Path(path) for path in cluster.paths]
    source = FileSource(paths, cache, cluster.reload_interval, scheduler_of=partial(load_kube_scheduler, settings))
    source.load()
    return source


def read_cluster_once(
    settings: "Configuration",
    api: "ApiServer | None",
    timeout: float,
    no_color: bool = False,
    admission: "FileAdmission" = "local",
    warned: set[str] | None = None,
) -> "tuple[ClusterObjects, FoundVersion | None]":
    """Return the cluster and the kube-scheduler version found in it; reads files if `api` is None.

    A live cluster is listed once, within `timeout` seconds; warnings (see `print_warnings`) and progress are printed.
    """
    from extender.k8s.version.found import version_of_pods

    if api is None:
        objects = read_cluster_files(settings, admission, no_color)
        return objects, version_of_pods(objects.pods)
    from extender.cluster.list.read import read_cluster

    with show_progress(no_color) as on_progress:
        found = read_cluster(api, settings.preemption.policy(), timeout=timeout, on_progress=on_progress)
    print_warnings(found.warnings, set() if warned is None else warned)
    return found.objects, found.found


def print_warnings(warnings: Sequence[str], warned: set[str]) -> None:
    """Print the warnings about a cluster that are not in `warned`, and add them."""
    for warning in warnings:
        if warning not in warned:
            logs.print_message(warning)
    warned.update(warnings)


def read_cluster_files(
    settings: "Configuration", admission: "FileAdmission" = "local", no_color: bool = False
) -> "ClusterObjects":
    """Return the cluster of files, folders or standard input, or the example; prints what of the files is not read."""
    from extender.cli.sources.manifest_file import read_contents
    from extender.cluster.files.manifests import example_cluster, parse_files
    from extender.config.scheduler.load import load_kube_scheduler

    if settings.cluster.path is None:
        return example_cluster()
    contents = read_contents(settings.cluster.paths)
    with show_progress(no_color) as on_progress:
        report = parse_files(
            contents,
            admission=admission,
            scheduler_of=partial(load_kube_scheduler, settings),
            on_progress=on_progress,
        )
    for note in report.notes():
        logs.print_message(note)
    return report.objects


def count_objects(objects: "ClusterObjects | ObjectTables") -> str:
    return f"{len(objects.nodes)} nodes, {len(objects.pods)} pods, {len(objects.budgets)} disruption budgets"
