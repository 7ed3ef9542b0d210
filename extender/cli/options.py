"""Options that several commands share, and what is opened by them: configuration, cluster, console.

Rule: an option on the command line overrides the environment, which overrides the configuration file.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:  # pydantic and the API client load slowly: not before a command needs them
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
    from extender.k8s.kinds import ClusterObjects, ObjectTables
    from extender.k8s.version.found import FoundVersion
    from extender.server.observability.cache_status import ClusterSource

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="EXTENDER_CONFIG",
        help="Configuration file; without it, every setting has its default.",
    ),
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="PATH", help="Cluster file or directory; overrides cluster.path.")
]
KubernetesOption = Annotated[
    bool, typer.Option("--kubernetes", help="Watch a live cluster; same as cluster.source: kubernetes.")
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the live cluster; overrides cluster.kubeconfig."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; overrides cluster.context.")
]
ReadTimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, max=86_400, help="Time limit for reading a live cluster."),
]
SchedulerConfigOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-config",
        metavar="FILE",
        help="kube-scheduler's own configuration file (KubeSchedulerConfiguration); overrides scheduler.config.",
    ),
]
SchedulerVersionOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-version",
        metavar="VERSION",
        help="Version of kube-scheduler, such as 1.33 or 1.33.2, or auto; overrides scheduler.version.",
    ),
]
OutputOption = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="Output format.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Disable colors.")]

Overrides = dict[str, tuple[str, object]]
"""Option -> (configuration key, value); None: the option was not given."""


def cluster_options(path: str | None, kubernetes: bool, kubeconfig: str | None, context: str | None) -> Overrides:
    """Return the overrides of the options that select the cluster; they also set cluster.source."""
    given: Overrides = {
        "--cluster": ("cluster.path", path),
        "--kubeconfig": ("cluster.kubeconfig", kubeconfig),
        "--context": ("cluster.context", context),
    }
    live = kubernetes or kubeconfig is not None or context is not None
    if live or path is not None:
        given["--kubernetes" if live else "--cluster FILE"] = ("cluster.source", "kubernetes" if live else "files")
    return given


def scheduler_options(config: str | None, version: str | None, option: str = "--scheduler-version") -> Overrides:
    """Return the overrides of the options that describe kube-scheduler; `option` is the one that names the version."""
    return {"--scheduler-config": ("scheduler.config", config), option: ("scheduler.version", version)}


def read_configuration(path: Path | None, overrides: Overrides | None = None) -> "Configuration":
    from extender.config import load_config

    given = {option: to for option, to in (overrides or {}).items() if to[1] is not None}
    return load_config(path, os.environ, given)


def connect_api_server(settings: "Configuration") -> "ApiServer | None":
    """Return the API server to watch and to bind pods at, or None for a file; ExtenderError for bad credentials."""
    if settings.cluster.source != "kubernetes":
        return None
    from extender.cluster.apiserver.client import ApiServer

    return ApiServer.connect(settings.cluster.kubeconfig, settings.cluster.context)


def namespace_of(api: "ApiServer | None") -> str:
    """Return the namespace of manifests that name none: as with kubectl the context's, or `default` without one."""
    return "default" if api is None else api.namespace


def open_cluster(settings: "Configuration", cache: "ClusterCache", api: "ApiServer | None") -> "ClusterSource":
    """Return the source that fills `cache`: a file is loaded at once, a live cluster when the service runs."""
    from extender.cluster.files.manifests import example_cluster
    from extender.cluster.files.source import FileSource
    from extender.cluster.watch.source import KubernetesSource
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
    source = FileSource(Path(cluster.path), cache, cluster.reload_interval)
    source.load()
    return source


def read_cluster_once(
    settings: "Configuration", api: "ApiServer | None", timeout: float, no_color: bool = False
) -> "tuple[ClusterObjects, FoundVersion | None]":
    """Return the cluster of `api`, or of a file without one, and the version of kube-scheduler that was found in it.

    A live one is read within `timeout` seconds, with permission to list; warnings and progress are printed.
    """
    from extender.cluster.files.manifests import example_cluster, load_cluster
    from extender.k8s.version.found import version_of_pods

    if api is None:
        path = settings.cluster.path
        objects = example_cluster() if path is None else load_cluster(path)
        return objects, version_of_pods(objects.pods)
    from extender.cli.read_progress import reading_progress
    from extender.cluster.list.read import read_cluster

    with reading_progress(no_color) as on_progress:
        found = read_cluster(api, settings.preemption.policy(), timeout=timeout, on_progress=on_progress)
    for warning in found.warnings:
        typer.echo(f"extender: {warning}", err=True)
    return found.objects, found.found


def count_objects(objects: "ClusterObjects | ObjectTables") -> str:
    return f"{len(objects.nodes)} nodes, {len(objects.pods)} pods, {len(objects.budgets)} disruption budgets"
