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
    from extender.server.verbs import Service

EXAMPLE_POD = {
    "metadata": {"name": "cart-9", "namespace": "shop", "uid": "cart-9"},
    "spec": {
        "priority": 100000,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}],
    },
}

EXAMPLE_REQUEST = {"Pod": EXAMPLE_POD, "NodeNames": ["worker-a1", "worker-b1", "worker-c3", "gpu-a1"]}
"""A /filter request that has something to say of the example cluster."""

EXAMPLE_PREEMPTION = {
    "Pod": EXAMPLE_POD,
    "NodeNameToMetaVictims": {
        "worker-a1": {
            "Pods": [
                {"UID": "f37ee957-c55a-4f4e-a718-3a4ad4b43b78"},
                {"UID": "0466cb19-03f5-49a2-947d-647de6392c71"},
            ],
            "NumPDBViolations": 1,
        },
        "worker-b1": {"Pods": [{"UID": "51a58faf-51dd-4f2e-bab8-091e79e90057"}], "NumPDBViolations": 0},
    },
}
"""What kube-scheduler would ask next, because the pod fits nowhere."""


def serve(
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    kubernetes: KubernetesOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on, over server.host.")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port to listen on, over server.port.")] = None,
    record: Annotated[
        str | None, typer.Option("--record", metavar="DIR", help="Record calls there, over recording.directory.")
    ] = None,
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

      extender serve --record recording

      EXTENDER_PREEMPTION__KEEP_CANDIDATES=All extender serve --config extender.yaml
    """
    from extender.cluster.store import ClusterStore
    from extender.errors import ClusterLost
    from extender.server.app import create_app
    from extender.server.recording.recorder import check_directory
    from extender.server.run import serve as listen

    given = cluster_options(cluster, kubernetes, kubeconfig, context)
    given |= {"--host": ("server.host", host), "--port": ("server.port", port)}
    given["--record"] = ("recording.directory", record)
    overrides = {option: to for option, to in given.items() if to[1] is not None}
    settings = configuration(config, overrides)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if settings.recording.directory is not None:
        check_directory(Path(settings.recording.directory))
    store = ClusterStore()
    api = api_server(settings)
    source = open_cluster(settings, store, api)
    typer.echo(banner(settings, store, source, api), err=True)
    app = create_app(store, settings, source, api, config_file(config, overrides))
    if is_example(settings):
        ask_examples(app.state.service)
    listen(app, settings)
    if source.fatal is not None:
        raise ClusterLost(source.fatal)


def is_example(settings: "Configuration") -> bool:
    """Is it the cluster that ships with the package?"""
    return settings.cluster.source == "snapshot" and settings.cluster.path is None


def ask_examples(service: "Service") -> None:
    """Decide what the README asks, so that there is something to explain from the start."""
    from extender.server.verbs import VERBS, answer

    for verb, question in ("filter", EXAMPLE_REQUEST), ("preempt", EXAMPLE_PREEMPTION):
        answer(VERBS[verb], service, json.dumps(question).encode())


def config_file(path: Path | None, overrides: "dict[str, tuple[str, object]]") -> "ConfigFile | None":
    """The file to follow: read again, it is put under the same environment and the same options of the command line."""
    from extender.server.settings import ConfigFile

    return ConfigFile(path, lambda: configuration(path, overrides)) if path is not None else None


def banner(settings: "Configuration", store: "ClusterStore", source: "Source", api: "ApiServer | None") -> str:
    """Where it listens, what it knows, and what to do next."""
    from extender.cluster.reload import FileSource

    address = f"http://{in_url(settings.server.host)}:{settings.server.port}"
    lines = [f"extender {__version__} on {address}"]
    if settings.debug.enabled:
        lines.append(f"page: http://{in_url(settings.debug.host)}:{settings.debug.port}/ui")
    if api is not None:
        lines.append(f"cluster: {api.place}; GET {address}/readyz says when it has been read")
        return "\n".join(lines)
    known = counts(store)
    if not isinstance(source, FileSource):
        lines.append(f"cluster: the example: {known}; your own with --cluster FILE, a live one with --kubernetes")
        request = json.dumps(EXAMPLE_REQUEST, separators=(",", ":"))
        lines.append(f"try: curl -s -H 'Content-Type: application/json' -d '{request}' {address}/filter")
        if settings.debug.enabled:
            lines.append("try: extender explain shop/cart-9   (kube-scheduler's questions about it were asked already)")
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
