"""`extender why`: explain one pod of a live cluster or a file.

Rule: a live cluster is only read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from extender.cli import options
from extender.errors import ClusterFileError, printable_json

if TYPE_CHECKING:  # the engine, pydantic and rich load slowly: imported only when needed
    from extender.cli.sources.why_source import Read, ReportTarget
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.files.manifests import FileAdmission
    from extender.config import Configuration
    from extender.report.pod_schema import Diagnosis

Output = Literal["text", "wide", "json", "yaml"]

WAIT_INTERVAL_SECONDS = 2.0
"""Pause of --wait between two reads of the cluster."""


def why(
    pod: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE/POD", help="A pod of the cluster; its namespace may be left out.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the pod; default: that of the context."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--pod",
            metavar="FILE",
            help="Manifest of a pod or a workload that does not exist yet, with the claims, budgets and classes that "
            "it needs; - is standard input. Of a workload, its first pod is explained.",
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="Show one node in full: resources, pods, devices.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show every node, with its scores and victims.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Read the cluster again until the pod fits or has its node.")
    ] = False,
    wait_timeout: Annotated[
        float, typer.Option("--wait-timeout", metavar="SECONDS", min=0, help="Time limit of --wait.")
    ] = 300,
    admission: options.AdmissionOption = "local",
    strict: options.StrictOption = False,
    cluster: options.ClusterOption = None,
    example: Annotated[
        bool, typer.Option("--example", help="Use the example cluster that ships with the package.")
    ] = False,
    kubeconfig: options.KubeconfigOption = None,
    context: options.ContextOption = None,
    config: options.ConfigOption = None,
    scheduler_config: options.SchedulerConfigOption = None,
    scheduler_version: options.SchedulerVersionOption = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = "text",
    no_color: options.NoColorOption = False,
    timeout: options.ReadTimeoutOption = 60,
) -> None:
    """Explain why a pod is pending, or why it is where it is.

    Prints the verdict in one sentence, kube-scheduler's message, and the number of nodes per reason; on request every
    node with its scores, or one node in full. Reads a live cluster once, with permission to list; nothing is changed,
    and no service has to run. Also a kubectl plugin: kubectl extender-why.

    \b
    Examples:
      # Why a pod is pending
      extender why shop/cart-9
      # Why one node is rejected
      extender why shop/cart-9 --node worker-a1
      # Whether a pod that does not exist yet would fit
      extender why --pod pod.yaml
      # Wait until a pod fits, in a script
      extender why shop/cart-9 --wait --wait-timeout 600

    The exit code is 0 if the pod fits or has its node, 1 if it does not fit, 3 if it fits after a preemption, 4 if
    kube-scheduler does not try it, a plugin that is not evaluated here or another extender decides, or the pod does not
    exist, and 2 if the cluster cannot be read.

    See docs/why.md and docs/reasons.md.
    """
    from extender.admission.admit import admission_of
    from extender.cli.sources.arrivals import dry_run_of
    from extender.cli.sources.cluster import connect_api_server, namespace_of
    from extender.report.pod_schema import EXIT_CODES

    if (pod is None) == (not files):
        raise typer.BadParameter("specify a pod, or a manifest with --pod FILE")
    if example and (cluster, kubeconfig, context) != (None, None, None):
        raise typer.BadParameter("--example cannot be combined with another cluster")
    if cluster is not None and (kubeconfig is not None or context is not None):
        raise typer.BadParameter("--cluster cannot be combined with a live cluster")
    named = None if pod is None else _named_pod(pod, namespace)
    if named is not None and (strict or admission == "server"):
        raise typer.BadParameter("applies to --pod", param_hint="--strict" if strict else "--admission=server")
    overrides = options.scheduler_options(scheduler_config, scheduler_version)
    settings = options.read_configuration(
        config, overrides | options.cluster_options(cluster, False, kubeconfig, context)
    )
    if settings.cluster.path is None and not example:
        live = options.cluster_options(None, True, kubeconfig, context)
        settings = options.read_configuration(config, overrides | live)
    if wait and (example or settings.cluster.source == "files"):
        raise typer.BadParameter("needs a live cluster", param_hint="--wait")
    api = None if example else connect_api_server(settings)
    target = named or _read_manifest(files or [], namespace, namespace_of(api))
    if target.manifests is not None:
        admit = admission_of(admission, strict, dry_run_of(admission, api, strict))
        target = replace(target, admission=admission, admit=admit)
    of_files: FileAdmission = "none" if admission == "none" else "local"
    read = _reader(settings, api, target, of_files, timeout=timeout, no_color=no_color, example=example)
    diagnose = partial(_diagnose, read, node, set())
    found = diagnose()
    if wait:
        found = _wait(diagnose, found, wait_timeout)
    _print(found, output, one_node=node, show_all=show_all, no_color=no_color)
    raise typer.Exit(EXIT_CODES[found.verdict])


# --- input ------------------------------------------------------------------------------------------------------------


def _named_pod(pod: str, namespace: str | None) -> "ReportTarget":
    """Parse NAMESPACE/POD or POD; without a namespace, the context's namespace applies later."""
    from extender.cli.sources.why_source import ReportTarget

    before, slash, name = pod.rpartition("/")
    if slash and namespace not in (None, before):
        raise typer.BadParameter(f"namespace {namespace} contradicts {pod}", param_hint="--namespace")
    if not name or "/" in before or (slash and not before):
        raise typer.BadParameter(f"expected POD or NAMESPACE/POD, not {pod}")
    return ReportTarget(namespace=before or namespace or "", name=name)


def _read_manifest(files: Sequence[str], namespace: str | None, default: str) -> "ReportTarget":
    """Read a pod or a workload and what it needs; ExtenderError unless the files hold exactly one of them.

    As with kubectl, a manifest without a namespace is in `namespace`, or else in `default`, the context's namespace.
    """
    from extender.cli.sources.arrivals import print_passed_over, read_arrivals
    from extender.cli.sources.manifest_file import shown_name
    from extender.cli.sources.why_source import ReportTarget

    found = read_arrivals(files, namespace or default)
    print_passed_over(found.passed_over)
    explained = [*found.pods, *found.workloads]
    if len(explained) != 1:
        number = f"{len(found.pods)} pods and {len(found.workloads)} workloads"
        names = ", ".join(map(shown_name, files))
        raise ClusterFileError(f"{names}: holds {number}: specify a file with one, or use extender simulate")
    given, name = explained[0].name
    if namespace and given != namespace:
        raise typer.BadParameter(f"namespace {namespace} contradicts {given}/{name}", param_hint="--namespace")
    return ReportTarget(given, name, found)


def _reader(
    settings: "Configuration",
    api: "ApiServer | None",
    target: "ReportTarget",
    admission: "FileAdmission",
    *,
    timeout: float,
    no_color: bool,
    example: bool,
) -> "Read":
    """Return the function that reads the cluster; each call reads a live cluster again, on the same connection."""
    from extender.cli.sources.cluster import read_cluster_files
    from extender.cli.sources.why_source import read_file, read_live
    from extender.cluster.files.manifests import example_cluster
    from extender.config.scheduler.load import load_kube_scheduler

    load_kube_scheduler(settings)  # report a mistake in the configuration before the cluster is read
    if example:
        return lambda: read_file(example_cluster(), settings, target)
    if api is None:
        return lambda: read_file(read_cluster_files(settings, admission), settings, target)
    return lambda: read_live(api, settings, target, timeout=timeout, no_color=no_color)


def _diagnose(read: "Read", node: str | None, warned: set[str]) -> "Diagnosis":
    """Read the cluster and diagnose the pod; each warning is printed once."""
    from extender.cli import logs
    from extender.core.eviction_history import EvictionHistory
    from extender.report.diagnose import diagnose, not_found, with_admission, with_history

    cluster = read()
    for warning in cluster.warnings:
        if warning not in warned:
            logs.print_message(warning)
    warned.update(cluster.warnings)
    if cluster.pod is None:
        found = not_found(cluster.snapshot, cluster.namespace, cluster.name, cluster.scheduler)
    else:
        found = diagnose(cluster.snapshot, cluster.pod, cluster.scheduler, EvictionHistory(time_ns()), node)
    return with_admission(with_history(found, cluster.history), cluster.admission)


# --- --wait -----------------------------------------------------------------------------------------------------------

_FINAL_STATES = ("NotFound", "Finished", "Terminating")
"""States after which the pod never fits."""


def _wait(diagnose: "Callable[[], Diagnosis]", found: "Diagnosis", limit: float) -> "Diagnosis":
    """Read the cluster again until the pod fits, never will, or `limit` seconds are over; print changes to stderr.

    Raises ClusterLost if the last attempt to read the cluster failed.
    """
    from extender.cli import logs
    from extender.errors import ClusterLost

    deadline, lost = monotonic() + limit, None
    while found.verdict != "Fits" and found.state not in _FINAL_STATES:
        left = deadline - monotonic()
        if left <= 0 and lost is not None:
            raise lost
        if left <= 0:
            logs.print_message(f"{found.pod} does not fit after {limit:g} s")
            break
        sleep(min(left, WAIT_INTERVAL_SECONDS))
        try:
            before, found, lost = found, diagnose(), None
        except ClusterLost as error:  # for example while its API server restarts
            if lost is None:
                logs.print_message(f"{error}; trying again")
            lost = error
            continue
        if found.why != before.why:
            logs.print_message(found.why)
    return found


# --- output -----------------------------------------------------------------------------------------------------------


def _print(found: "Diagnosis", output: Output, *, one_node: str | None, show_all: bool, no_color: bool) -> None:
    """Print the diagnosis; JSON and YAML include only `one_node`, or with `show_all` every node."""
    import msgspec
    from msgspec.structs import replace as replaced

    if output in ("text", "wide"):
        from extender.cli.output import tables, why_text

        parts = why_text.render(found, one_node=one_node, show_all=show_all, is_wide=output == "wide")
        tables.print_parts(parts, tables.new_console(no_color))
        return
    nodes = [node for node in found.nodes if show_all or node.name == one_node]
    shown = msgspec.to_builtins(replaced(found, nodes=nodes))
    if output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
    else:
        typer.echo(printable_json(shown))
