"""extender serve: answer kube-scheduler's calls."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender import __version__
from extender.cli.options import (
    ClusterOption,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    KubernetesOption,
    api_server,
    cluster_options,
    configuration,
    counts,
    open_cluster,
)

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from extender.cluster.api import ApiServer
    from extender.cluster.store import ClusterStore
    from extender.config import Configuration
    from extender.server.picture import Source
    from extender.server.settings import ConfigFile

EXAMPLE_REQUEST = {
    "Pod": {
        "metadata": {"name": "new", "namespace": "shop", "uid": "new"},
        "spec": {
            "priority": 100000,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}],
        },
    },
    "NodeNames": ["worker-a1", "worker-b1", "worker-c3", "gpu-a1"],
}
"""A /filter request that has something to say of the example cluster."""


def serve(
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    kubernetes: KubernetesOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on, over server.host.")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port to listen on, over server.port.")] = None,
) -> None:
    """Answer kube-scheduler's calls until a signal ends it.

    Without a cluster, an example that ships with the package is served. Files are read again when they change. With
    --kubernetes a live cluster is followed: in a pod with its service account, elsewhere with your kubeconfig. The
    configuration file is read again too, except for its sections cluster, bind and server.

    A cluster file is what kubectl get -A -o json prints of nodes, pods, pdb, ns, pc, svc, rc, rs, sts, pvc, pv, sc,
    csinodes, csidrivers, csistoragecapacities and volumeattachments, in one file or in several of a directory.

    [bold]Examples[/bold]

      extender serve

      extender serve --cluster cluster.json --port 9000

      extender serve --kubernetes --context production

      EXTENDER_PREEMPTION__KEEP_CANDIDATES=All extender serve --config extender.yaml
    """
    from extender.cluster.store import ClusterStore
    from extender.errors import ClusterLost
    from extender.server.app import create_app
    from extender.server.run import serve as listen

    given = cluster_options(cluster, kubernetes, kubeconfig, context)
    given |= {"--host": ("server.host", host), "--port": ("server.port", port)}
    overrides = {option: to for option, to in given.items() if to[1] is not None}
    settings = configuration(config, overrides)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    store = ClusterStore()
    api = api_server(settings)
    source = open_cluster(settings, store, api)
    typer.echo(banner(settings, store, source, api), err=True)
    listen(create_app(store, settings, source, api, config_file(config, overrides)), settings)
    if source.fatal is not None:
        raise ClusterLost(source.fatal)


def config_file(path: Path | None, overrides: "dict[str, tuple[str, object]]") -> "ConfigFile | None":
    """The file to follow: read again, it is put under the same environment and the same options of the command line."""
    from extender.server.settings import ConfigFile

    return ConfigFile(path, lambda: configuration(path, overrides)) if path is not None else None


def banner(settings: "Configuration", store: "ClusterStore", source: "Source", api: "ApiServer | None") -> str:
    """Where it listens, what it knows, and what to do next."""
    from extender.cluster.reload import FileSource

    address = f"http://{in_url(settings.server.host)}:{settings.server.port}"
    lines = [f"extender {__version__} on {address}"]
    if api is not None:
        lines.append(f"cluster: {api.place}; GET {address}/readyz says when it has been read")
        return "\n".join(lines)
    known = counts(store)
    if not isinstance(source, FileSource):
        lines.append(f"cluster: the example: {known}; your own with --cluster FILE, a live one with --kubernetes")
        request = json.dumps(EXAMPLE_REQUEST, separators=(",", ":"))
        lines.append(f"try: curl -s -H 'Content-Type: application/json' -d '{request}' {address}/filter")
        return "\n".join(lines)
    lines.append(f"cluster: {source.path}: {known}")
    if source.report and source.report.left_out:
        kinds = (f"{count} {kind}" for kind, count in sorted(source.report.left_out.items()))
        lines.append(f"left out, because no decision reads them: {', '.join(kinds)}")
    if not store.snapshot().nodes:
        lines.append("warning: there is no node in it, so every call about a node will be refused")
    return "\n".join(lines)


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
