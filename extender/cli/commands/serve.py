"""`extender serve`: answer kube-scheduler's calls.

Rule: a mistake in the configuration, cluster file or credentials is reported before the service listens.
"""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli import options
from extender.cli.http_client import DEFAULT_ADMIN_URL
from extender.utilities.hosts import is_loopback
from extender.version import __version__

if TYPE_CHECKING:  # the server loads slowly: imported only when needed
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
    from extender.config.serving import AdminSection, ServerSection
    from extender.server.context import ServerContext
    from extender.server.observability.cache_status import ClusterSource
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
"""A /filter request about nodes of the example cluster."""

EXAMPLE_PREEMPTION = {
    "Pod": EXAMPLE_POD,
    "NodeNameToMetaVictims": {
        "worker-a1": {
            "Pods": [{"UID": "f37ee957-c55a-4f4e-a718-3a4ad4b43b78"}, {"UID": "0466cb19-03f5-49a2-947d-647de6392c71"}],
            "NumPDBViolations": 1,
        },
        "worker-b1": {"Pods": [{"UID": "51a58faf-51dd-4f2e-bab8-091e79e90057"}], "NumPDBViolations": 0},
    },
}
"""The /preempt request that kube-scheduler would send next, because the pod does not fit on any node."""


def serve(
    config: options.ConfigOption = None,
    cluster: options.ClusterOption = None,
    kubernetes: options.KubernetesOption = False,
    kubeconfig: options.KubeconfigOption = None,
    context: options.ContextOption = None,
    scheduler_config: options.SchedulerConfigOption = None,
    scheduler_version: options.SchedulerVersionOption = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on; overrides server.host [default: 127.0.0.1]."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; overrides server.port [default: 8888]."),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            "--record", metavar="DIR", help="Record every call in this directory; overrides recording.directory."
        ),
    ] = None,
) -> None:
    """Serve kube-scheduler's extender calls until a signal arrives.

    Calls are served on server.port (8888); health, metrics and debugging on admin.port (8889): /livez, /readyz,
    /metrics, /ui. Both listen on localhost unless the configuration names another address, which requires TLS
    (server.tls, admin.tls) or allowPlainHTTP.

    Without a cluster, serve an example that ships with the package. With --kubernetes, watch a live cluster, using the
    service account in a pod and your kubeconfig elsewhere. SIGTERM shuts down gracefully; Ctrl-C does not wait for
    server.drainTime.

    \b
    Examples:
      # The example cluster on 127.0.0.1:8888, with the admin listener on :8889
      extender serve
      # A cluster file, reloaded when it changes
      extender serve --cluster cluster.json
      # A live cluster, recording every call for replay
      extender serve --kubernetes --context production --record recording
      # The profiles of your kube-scheduler
      extender serve --kubernetes --scheduler-config scheduler-config.yaml

    See docs/install.md, docs/configuration.md, docs/scheduler.md, docs/cluster.md, docs/audit.md and docs/runbook.md.
    """
    from extender.cli import logs
    from extender.cli.sources.cluster import connect_api_server, open_cluster, source_of
    from extender.cluster.cache.cache import ClusterCache
    from extender.config.scheduler.load import read_scheduler
    from extender.errors import ClusterLost
    from extender.server.app import create_app
    from extender.server.observability import audit_log
    from extender.server.recording.recorder import check_directory
    from extender.server.run import serve as listen

    # 1. Settings, and the log that the next steps may write to.
    overrides = options.cluster_options(cluster, kubernetes, kubeconfig, context)
    overrides |= options.scheduler_options(scheduler_config, scheduler_version)
    overrides |= {"--host": ("server.host", host), "--port": ("server.port", port)}
    overrides["--record"] = ("recording.directory", record)
    settings = options.read_configuration(config, overrides)
    logs.configure(settings.log)
    # 2. Report mistakes before the cluster is read: unwritable files, kube-scheduler's configuration, credentials.
    if settings.recording.directory is not None:
        check_directory(Path(settings.recording.directory))
    if settings.audit.enabled:
        audit_log.check_writable(Path(settings.audit.path) if settings.audit.path is not None else None)
    read_scheduler(settings).assume()
    api = connect_api_server(settings)
    # 3. A cluster file is loaded here, a live cluster when the service runs.
    cache = ClusterCache()
    source = open_cluster(settings, cache, api)
    print_banner(startup_banner(settings, cache, source, api), settings)
    # 4. Serve until a signal arrives, or the cluster is lost.
    file = config_file(config, settings, overrides)
    app = create_app(cache, settings, source, api, file, lambda: source_of(api, cache.files))
    if settings.cluster.source == "files" and settings.cluster.path is None:
        send_example_requests(app.server_context)
    listen(app, settings)
    if source.fatal is not None:
        raise ClusterLost(source.fatal)


def print_banner(banner: str, settings: "Configuration") -> None:
    """Print the banner to standard error, or log it if the log format is JSON."""
    if settings.log.format == "Text":
        from extender.cli import logs

        logs.echo(banner)
        return
    for line in banner.splitlines():
        log.info("%s", line)


def send_example_requests(server_context: "ServerContext") -> None:
    """Answer the README's requests, so that `extender explain` and the page have decisions to show from the start."""
    from extender.server.scheduler.verbs import VERBS, answer

    for verb, request in ("filter", EXAMPLE_REQUEST), ("preempt", EXAMPLE_PREEMPTION):
        answer(VERBS[verb], server_context, json.dumps(request).encode())


def config_file(path: Path | None, settings: "Configuration", overrides: options.Overrides) -> "ConfigFile | None":
    """Return the file to watch, ours or kube-scheduler's, or None; reloads apply environment and options again."""
    from extender.server.settings import ConfigFile

    if path is None and settings.scheduler.config is None:
        return None
    return ConfigFile(path, lambda: options.read_configuration(path, overrides))


def startup_banner(
    settings: "Configuration", cache: "ClusterCache", source: "ClusterSource", api: "ApiServer | None"
) -> str:
    """Return the lines printed at start: addresses, cluster, and commands to try."""
    from extender.cli.sources.cluster import count_objects
    from extender.cluster.files.source import FileSource

    address, admin = listener_url(settings.server), listener_url(settings.admin)
    lines = [
        f"extender {__version__} on {listener_url(settings.server, as_configured=True)}",
        f"health and metrics: {admin}/readyz, {admin}/metrics",
    ]
    if settings.debug.enabled:
        is_open = is_loopback(settings.admin.host) or settings.debug.allow_remote
        note = "" if is_open else "   (for callers from 127.0.0.1 or ::1 only, unless debug.allowRemote)"
        lines.append(f"page: {admin}/ui{note}")
    if api is not None:
        lines.append(f"cluster: {api.place}; GET {admin}/readyz reports when the cache has synced")
        return "\n".join(lines)
    objects = count_objects(cache.snapshot().objects)
    if not isinstance(source, FileSource):
        lines.append(f"cluster: the example: {objects}; serve your own with --cluster FILE or --kubernetes")
        request = json.dumps(EXAMPLE_REQUEST, separators=(",", ":"))
        lines.append(f"try: curl -s -H 'Content-Type: application/json' -d '{request}' {address}/filter")
        if settings.debug.enabled:
            where = "" if admin == DEFAULT_ADMIN_URL else f" --url {admin}"
            lines.append(f"try: extender explain shop/cart-9{where}   (example calls about this pod were already made)")
        return "\n".join(lines)
    lines.append(f"cluster: {source.place}: {objects}")
    if source.report is not None:
        lines += source.report.notes()
    if not cache.snapshot().nodes:
        lines.append("warning: the cluster has no nodes, so every call that names a node will be refused")
    return "\n".join(lines)


_LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard address to listen on -> loopback address to connect to."""


def listener_url(listener: "ServerSection | AdminSection", *, as_configured: bool = False) -> str:
    """Return the URL of a listener from this machine: 0.0.0.0 and :: become loopback addresses.

    `as_configured`: keep the configured host.
    """
    scheme = "https" if listener.tls.is_on else "http"
    host = listener.host if as_configured else _LOOPBACK_OF_WILDCARD.get(listener.host, listener.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.port}"
