"""The `extender` command: serve, look at the configuration, write the OpenAPI document.

Rule: the only place that exits. What is wrong with a file is one clear message on stderr and exit code 2.
"""

import difflib
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from extender import __version__
from extender.errors import ExtenderError

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from extender.cluster.api import ApiServer
    from extender.cluster.store import ClusterStore
    from extender.config import Configuration
    from extender.server.picture import Source
    from extender.server.settings import ConfigFile

app = typer.Typer(
    name="extender",
    help="A scheduler extender that filters, ranks and preempts exactly as kube-scheduler does.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")
cluster_app = typer.Typer(help="Look at the cluster as the service sees it.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")

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


def main() -> NoReturn:
    """Run the command line; the console entry point."""
    try:
        app()
    except (ExtenderError, OSError) as error:
        for line in str(error).splitlines():
            typer.echo(f"extender: {line}", err=True)
        sys.exit(2)
    sys.exit(0)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"extender {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# --- serve ----------------------------------------------------------------------------------------------------------


@app.command()
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

    given = _cluster_options(cluster, kubernetes, kubeconfig, context)
    given |= {"--host": ("server.host", host), "--port": ("server.port", port)}
    overrides = {option: to for option, to in given.items() if to[1] is not None}
    settings = _configuration(config, overrides)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    store = ClusterStore()
    api = _api_server(settings)
    source = open_cluster(settings, store, api)
    typer.echo(banner(settings, store, source, api), err=True)
    listen(create_app(store, settings, source, api, config_file(config, overrides)), settings)
    if source.fatal is not None:
        raise ClusterLost(source.fatal)


def config_file(path: Path | None, overrides: "dict[str, tuple[str, object]]") -> "ConfigFile | None":
    """The file to follow: read again, it is put under the same environment and the same options of the command line."""
    from extender.server.settings import ConfigFile

    return ConfigFile(path, lambda: _configuration(path, overrides)) if path is not None else None


def _cluster_options(
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


def _api_server(settings: "Configuration") -> "ApiServer | None":
    """Where the cluster is followed and pods are bound; None for a file. Raises ExtenderError for bad credentials."""
    if settings.cluster.source != "kubernetes":
        return None
    from extender.cluster.api import ApiServer

    return ApiServer.connect(settings.cluster.kubeconfig, settings.cluster.context)


def open_cluster(settings: "Configuration", store: "ClusterStore", api: "ApiServer | None") -> "Source":
    """The source that keeps the store up to date; a file is read at once, a live cluster when the service runs."""
    from extender.cluster.files import example_cluster
    from extender.cluster.live import KubernetesSource
    from extender.cluster.reload import FileSource
    from extender.server.picture import NO_SOURCE

    cluster = settings.cluster
    if api is not None:
        policy = settings.preemption.policy()
        return KubernetesSource(
            store,
            api,
            stale_after=cluster.stale_after,
            compare_interval=cluster.compare_interval,
            pod_annotations=policy.annotations,
            pod_groups=policy.reads_pod_groups,
        )
    if cluster.path is None:
        store.replace(example_cluster())
        return NO_SOURCE
    source = FileSource(Path(cluster.path), store, cluster.reload_interval)
    source.load()
    return source


def banner(settings: "Configuration", store: "ClusterStore", source: "Source", api: "ApiServer | None") -> str:
    """Where it listens, what it knows, and what to do next."""
    from extender.cluster.reload import FileSource

    address = f"http://{_in_url(settings.server.host)}:{settings.server.port}"
    lines = [f"extender {__version__} on {address}"]
    if api is not None:
        lines.append(f"cluster: {api.place}; GET {address}/readyz says when it has been read")
        return "\n".join(lines)
    counts = _counts(store)
    if not isinstance(source, FileSource):
        lines.append(f"cluster: the example: {counts}; your own with --cluster FILE, a live one with --kubernetes")
        request = json.dumps(EXAMPLE_REQUEST, separators=(",", ":"))
        lines.append(f"try: curl -s -H 'Content-Type: application/json' -d '{request}' {address}/filter")
        return "\n".join(lines)
    lines.append(f"cluster: {source.path}: {counts}")
    if source.report and source.report.left_out:
        kinds = (f"{count} {kind}" for kind, count in sorted(source.report.left_out.items()))
        lines.append(f"left out, because no decision reads them: {', '.join(kinds)}")
    if not store.snapshot().nodes:
        lines.append("warning: there is no node in it, so every call about a node will be refused")
    return "\n".join(lines)


def _counts(store: "ClusterStore") -> str:
    objects = store.snapshot().objects
    return f"{len(objects.nodes)} nodes, {len(objects.pods)} pods, {len(objects.budgets)} disruption budgets"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# --- cluster --------------------------------------------------------------------------------------------------------


@cluster_app.command()
def dump(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; gzipped if it ends in .gz.")],
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that reading the cluster may take.")] = 60,
) -> None:
    """Read the cluster as the service does and write the picture to a file that --cluster reads again.

    The file holds what decisions read and nothing else: no environment variables, no arguments, no secrets. Both
    pictures decide the same.

    [bold]Examples[/bold]

      extender cluster dump --out cluster.json.gz

      extender serve --cluster cluster.json.gz
    """
    import asyncio

    from extender.cluster.dump import write
    from extender.cluster.live import KubernetesSource
    from extender.cluster.store import ClusterStore

    given = _cluster_options(cluster, cluster is None, kubeconfig, context)
    settings = _configuration(config, {option: to for option, to in given.items() if to[1] is not None})
    store = ClusterStore()
    source = open_cluster(settings, store, _api_server(settings))
    if isinstance(source, KubernetesSource):
        asyncio.run(source.read_once(timeout))
    write(store.snapshot().frozen(), out, settings.preemption.policy().annotations)
    typer.echo(f"{out}: {_counts(store)}")
    for warning in source.warnings():
        typer.echo(f"extender: {warning}", err=True)


# --- config ---------------------------------------------------------------------------------------------------------


@config_app.command()
def show(config: ConfigOption = None) -> None:
    """Print the configuration in effect: every key, its meaning, its value after file and environment.

    What is printed is a configuration file again.

    [bold]Example[/bold]

      extender config show > extender.yaml
    """
    from extender.config import render

    typer.echo(render(_configuration(config)), nl=False)


@config_app.command()
def check(config: ConfigOption = None) -> None:
    """Say whether file and environment are a valid configuration; exit code 2 and every mistake with its line if not.

    [bold]Example[/bold]

      extender config check --config extender.yaml
    """
    _configuration(config)
    typer.echo(f"{config or 'the default configuration'}: valid")


def _configuration(path: Path | None, overrides: "dict[str, tuple[str, object]] | None" = None) -> "Configuration":
    from extender.config import load_config

    return load_config(path, os.environ, overrides)


# --- openapi --------------------------------------------------------------------------------------------------------


@app.command()
def openapi(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the document to this file.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Exit with code 1 if this file is not up to date.")
    ] = None,
) -> None:
    """Write or check the OpenAPI document of the service.

    [bold]Examples[/bold]

      extender openapi --out openapi/openapi.json

      extender openapi --check openapi/openapi.json
    """
    if (out is None) == (check is None):
        raise typer.BadParameter("give either --out or --check")
    document = _openapi_text()
    if out is not None:
        out.write_text(document, encoding="utf-8")
    elif check is not None:
        _check_openapi(check, document)


def _openapi_text() -> str:
    from extender.cluster.store import ClusterStore
    from extender.config import Configuration
    from extender.server.app import create_app, openapi_document

    document = openapi_document(create_app(ClusterStore(), Configuration()))
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _check_openapi(path: Path, document: str) -> None:
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if found == document:
        return
    difference = difflib.unified_diff(
        found.splitlines(), document.splitlines(), str(path), "the service", n=1, lineterm=""
    )
    shown = list(difference)
    more = [f"… {len(shown) - 20} more lines"] if len(shown) > 20 else []
    typer.echo("\n".join(shown[:20] + more), err=True)
    typer.echo(f"extender: {path} is not up to date: run `extender openapi --out {path}`", err=True)
    raise typer.Exit(1)
