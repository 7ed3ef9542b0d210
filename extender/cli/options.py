"""What several commands take: the configuration, and where the cluster comes from."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
    from extender.server.observability.cache_status import Source

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", envvar="EXTENDER_CONFIG", help="Configuration file; all defaults if left out."
    ),
]

ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", metavar="PATH", help="Cluster file or directory, over cluster.path."),
]
KubernetesOption = Annotated[
    bool, typer.Option("--kubernetes", help="Follow a live cluster, as cluster.source: kubernetes.")
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster to follow, over cluster.kubeconfig."),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig, over cluster.context."),
]


def cluster_options(
    path: str | None, kubernetes: bool, kubeconfig: str | None, context: str | None
) -> dict[str, tuple[str, object]]:
    """Option -> key and value in the configuration; what is given here decides which source it is."""
    given: dict[str, tuple[str, object]] = {
        "--cluster": ("cluster.path", path),
        "--kubeconfig": ("cluster.kubeconfig", kubeconfig),
        "--context": ("cluster.context", context),
    }
    live = kubernetes or kubeconfig is not None or context is not None
    if live or path is not None:
        given["--kubernetes" if live else "--cluster FILE"] = ("cluster.source", "kubernetes" if live else "snapshot")
    return given


def api_server(settings: "Configuration") -> "ApiServer | None":
    """Where the cluster is followed and pods are bound; None for a file. Raises ExtenderError for bad credentials."""
    if settings.cluster.source != "kubernetes":
        return None
    from extender.cluster.apiserver.client import ApiServer

    return ApiServer.connect(settings.cluster.kubeconfig, settings.cluster.context)


def open_cluster(settings: "Configuration", cache: "ClusterCache", api: "ApiServer | None") -> "Source":
    """The source that keeps the store up to date; a file is read at once, a live cluster when the service runs."""
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
            compare_interval=cluster.compare_interval,
            pod_annotations=policy.annotations,
            pod_groups=policy.reads_pod_groups,
        )
    if cluster.path is None:
        cache.replace(example_cluster())
        return NO_SOURCE
    source = FileSource(Path(cluster.path), cache, cluster.reload_interval)
    source.load()
    return source


def configuration(path: Path | None, overrides: "dict[str, tuple[str, object]] | None" = None) -> "Configuration":
    from extender.config import load_config

    return load_config(path, os.environ, overrides)


def counts(cache: "ClusterCache") -> str:
    objects = cache.snapshot().objects
    return f"{len(objects.nodes)} nodes, {len(objects.pods)} pods, {len(objects.budgets)} disruption budgets"
