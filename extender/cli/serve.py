"""extender serve: answer kube-scheduler's calls."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli.http_client import ADMIN_LISTENER
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
from extender.version import __version__

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
    from extender.config.serving import AdminSection, ServerSection
    from extender.server.context import ServerContext
    from extender.server.observability.cache_status import Source
    from extender.server.settings import ConfigFile

log = logging.getLogger(__name__)

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
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on, over server.host [default: 127.0.0.1]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", metavar="PORT", help="Port to listen on, over server.port [default: 8888]."),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="DIR", help="Keep every call in this directory, over recording.directory."),
    ] = None,
) -> None:
    """Answer kube-scheduler's calls until a signal ends it.

    Calls are answered on server.port (8888). Health, metrics and what people look at are on admin.port (8889): /livez,
    /readyz, /metrics, /ui. Both listen on this machine only unless the configuration names another address, and then
    want TLS (server.tls, admin.tls) or a word that plain HTTP will do.

    Without a cluster, an example that ships with the package is served. With --kubernetes a live cluster is followed:
    in a pod with its service account, elsewhere with your kubeconfig. Files are read again when they change, the
    configuration too; what of it waits for a restart is said in the log.

    A cluster file is what kubectl get -A -o json prints of nodes, pods, pdb, ns, pc, svc, rc, rs, sts, pvc, pv, sc,
    csinodes, csidrivers, csistoragecapacities and volumeattachments, in one file or in several of a directory.
    """
    from extender.cli import logs
    from extender.cluster.cache.cache import ClusterCache
    from extender.errors import ClusterLost
    from extender.server.app import create_app
    from extender.server.observability import audit_log
    from extender.server.recording.recorder import check_directory
    from extender.server.run import serve as listen

    given = cluster_options(cluster, kubernetes, kubeconfig, context)
    given |= {"--host": ("server.host", host), "--port": ("server.port", port)}
    given["--record"] = ("recording.directory", record)
    overrides = {option: to for option, to in given.items() if to[1] is not None}
    settings = configuration(config, overrides)
    logs.set_up(settings.log)
    if settings.recording.directory is not None:
        check_directory(Path(settings.recording.directory))
    if settings.audit.enabled:
        audit_log.check(Path(settings.audit.path) if settings.audit.path is not None else None)
    cache = ClusterCache()
    api = api_server(settings)
    source = open_cluster(settings, cache, api)
    announce(banner(settings, cache, source, api), settings)
    app = create_app(cache, settings, source, api, config_file(config, overrides))
    if is_example(settings):
        ask_examples(app.state.service)
    listen(app, settings)
    if source.fatal is not None:
        raise ClusterLost(source.fatal)


def announce(banner: str, settings: "Configuration") -> None:
    """Say it; as events where standard error is to hold nothing but JSON."""
    if settings.log.format == "Text":
        typer.echo(banner, err=True)
        return
    for line in banner.splitlines():
        log.info("%s", line)


def is_example(settings: "Configuration") -> bool:
    """Is it the cluster that ships with the package?"""
    return settings.cluster.source == "snapshot" and settings.cluster.path is None


def ask_examples(service: "ServerContext") -> None:
    """Decide what the README asks, so that there is something to explain from the start."""
    from extender.server.scheduler.verbs import VERBS, answer

    for verb, question in ("filter", EXAMPLE_REQUEST), ("preempt", EXAMPLE_PREEMPTION):
        answer(VERBS[verb], service, json.dumps(question).encode())


def config_file(path: Path | None, overrides: "dict[str, tuple[str, object]]") -> "ConfigFile | None":
    """The file to follow: read again, it is put under the same environment and the same options of the command line."""
    from extender.server.settings import ConfigFile

    return ConfigFile(path, lambda: configuration(path, overrides)) if path is not None else None


def banner(settings: "Configuration", cache: "ClusterCache", source: "Source", api: "ApiServer | None") -> str:
    """Where it listens, what it knows, and what to do next."""
    from extender.cluster.files.source import FileSource

    address, admin = url_of(settings.server), url_of(settings.admin)
    lines = [
        f"extender {__version__} on {url_of(settings.server, as_it_is=True)}",
        f"health and metrics: {admin}/readyz, {admin}/metrics",
    ]
    if settings.debug.enabled:
        lines.append(f"page: {admin}/ui{_for_whom(settings)}")
    if api is not None:
        lines.append(f"cluster: {api.place}; GET {admin}/readyz says when it has been read")
        return "\n".join(lines)
    known = counts(cache)
    if not isinstance(source, FileSource):
        lines.append(f"cluster: the example: {known}; your own with --cluster FILE, a live one with --kubernetes")
        request = json.dumps(EXAMPLE_REQUEST, separators=(",", ":"))
        lines.append(f"try: curl -s -H 'Content-Type: application/json' -d '{request}' {address}/filter")
        if settings.debug.enabled:
            where = "" if admin == ADMIN_LISTENER else f" --url {admin}"
            already = "(kube-scheduler's questions about it were asked already)"
            lines.append(f"try: extender explain shop/cart-9{where}   {already}")
        return "\n".join(lines)
    lines.append(f"cluster: {source.path}: {known}")
    if source.report and source.report.left_out:
        kinds = (f"{count} {kind}" for kind, count in sorted(source.report.left_out.items()))
        lines.append(f"left out, because no decision reads them: {', '.join(kinds)}")
    if not cache.snapshot().nodes:
        lines.append("warning: there is no node in it, so every call about a node will be refused")
    return "\n".join(lines)


_ON_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where nobody listens


def url_of(listener: "ServerSection | AdminSection", *, as_it_is: bool = False) -> str:
    """Where it can be asked from this machine, or `as_it_is` configured: every address is none to ask at."""
    scheme = "https" if listener.tls.is_on else "http"
    host = listener.host if as_it_is else _ON_THIS_MACHINE.get(listener.host, listener.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.port}"


def _for_whom(settings: "Configuration") -> str:
    """What the address does not say: that others are refused."""
    from extender.config.values import is_loopback

    is_for_others = is_loopback(settings.admin.host) or settings.debug.allow_remote
    return "" if is_for_others else "   (for callers from 127.0.0.1 or ::1 only, unless debug.allowRemote)"
