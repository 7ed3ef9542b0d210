"""Options that several commands share: configuration, source of the cluster, output format.

Rule: an option on the command line overrides the environment, which overrides the configuration file.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # commands import what they need when they run, so that the others start fast
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
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
    str | None,
    typer.Option("--cluster", metavar="PATH", help="Cluster file or directory; overrides cluster.path."),
]
KubernetesOption = Annotated[
    bool, typer.Option("--kubernetes", help="Watch a live cluster; same as cluster.source: kubernetes.")
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the live cluster; overrides cluster.kubeconfig."),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; overrides cluster.context."),
]


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def cluster_options(
    path: str | None, kubernetes: bool, kubeconfig: str | None, context: str | None
) -> dict[str, tuple[str, object]]:
    """Return option -> (configuration key, value) for the given options; they also set cluster.source."""
    given: dict[str, tuple[str, object]] = {
        "--cluster": ("cluster.path", path),
        "--kubeconfig": ("cluster.kubeconfig", kubeconfig),
        "--context": ("cluster.context", context),
    }
    live = kubernetes or kubeconfig is not None or context is not None
    if live or path is not None:
        given["--kubernetes" if live else "--cluster FILE"] = ("cluster.source", "kubernetes" if live else "files")
    return given


def connect_api_server(settings: "Configuration") -> "ApiServer | None":
    """Return the API server to watch and to bind pods at, or None for a file; ExtenderError for bad credentials."""
    if settings.cluster.source != "kubernetes":
        return None
    from extender.cluster.apiserver.client import ApiServer

    return ApiServer.connect(settings.cluster.kubeconfig, settings.cluster.context)


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


def read_configuration(path: Path | None, overrides: "dict[str, tuple[str, object]] | None" = None) -> "Configuration":
    from extender.config import load_config

    return load_config(path, os.environ, overrides)


def count_objects(cache: "ClusterCache") -> str:
    objects = cache.snapshot().objects
    return f"{len(objects.nodes)} nodes, {len(objects.pods)} pods, {len(objects.budgets)} disruption budgets"
