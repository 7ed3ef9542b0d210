"""`extender why`: explain one pod of a live cluster or a file, or list its pending pods.

Rule: a live cluster is only read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeVar

import typer

from extender.cli import options
from extender.errors import ClusterFileError, ClusterLost, printable_json

if TYPE_CHECKING:  # the engine, pydantic and rich load slowly: imported only when needed
    from extender.cli.sources.why_source import ReportTarget
    from extender.cluster.files.manifests import FileAdmission
    from extender.report.pod_schema import Diagnosis, PendingPodReport, PendingReport

T = TypeVar("T")

Output = Literal["text", "wide", "json", "yaml"]

WAIT_INTERVAL_SECONDS = 2.0
"""Pause of --wait and --watch between two reads of the cluster."""


def why(
    pod: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE/POD", help="A pod of the cluster; without one, all pending pods.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Namespace of the pod, by default that of the context; or of the pending pods, by default all.",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List the pending pods of all namespaces: the default.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="List the pending pods, then print changes until interrupted.")
    ] = False,
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
    example: options.ExampleOption = False,
    kubeconfig: options.KubeconfigOption = None,
    context: options.ContextOption = None,
    config: options.ConfigOption = None,
    scheduler_config: options.SchedulerConfigOption = None,
    scheduler_version: options.SchedulerVersionOption = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = "text",
    no_color: options.NoColorOption = False,
    timeout: options.ReadTimeoutOption = 60,
) -> None:
    """Explain why a pod, or every pod, is pending.

    Without a name, lists the pending pods by cause. Of one pod, which may have its node already, prints the verdict in
    one sentence, kube-scheduler's message, and the number of nodes per reason; on request every node with its scores,
    or one node in full. Reads a live cluster once, with permission to list; nothing is changed, and no service has to
    run. Also a kubectl plugin: kubectl extender-why.

    \b
    Examples:
      # Which pods are pending, and why
      extender why
      # Why one pod is pending
      extender why shop/cart-9
      # Why one node is rejected
      extender why shop/cart-9 --node worker-a1
      # Whether a pod that does not exist yet would fit
      extender why --pod pod.yaml

    The exit code is 0 if the pod fits or has its node, 1 if it does not fit, 3 if it fits after a preemption, 4 if a
    plugin that is not evaluated here or another extender decides, 5 if the pod or the namespace does not exist, 6 if
    kube-scheduler does not try it, and 2 if the cluster cannot be read. Of several pending pods the first of 1, 3, 4
    and 6 counts that one of them has; it is 0 if no pod is pending, or all fit.

    See docs/why.md and docs/reasons.md.
    """
    from extender.admission.admit import admission_of
    from extender.cli.sources.arrivals import dry_run_of
    from extender.cli.sources.cluster import OTHER_SOURCES, connect_api_server, namespace_of
    from extender.cli.sources.why_source import ClusterReader
    from extender.config.scheduler.load import load_kube_scheduler

    # 1. Check what was asked.
    is_list = pod is None and not files
    of_files = {"--strict": strict, "--admission=server": admission == "server"} if not files else {}
    of_one = {"--node": node, "--all": show_all, "--wait": wait} if is_list else {}
    of_list = {"--all-namespaces": all_namespaces, "--watch": watch} if not is_list else {}
    options.refuse("applies to --pod", of_files)
    options.refuse("applies to one pod", of_one)
    options.refuse("lists pending pods, so name none", of_list)
    options.refuse("cannot be combined with --pod FILE", {"NAMESPACE/POD": pod} if files else {})
    options.refuse("cannot be combined with --namespace", {"--all-namespaces": all_namespaces} if namespace else {})
    options.refuse("prints text or JSON", {"--watch": watch} if output == "yaml" else {})
    target = None if pod is None else _named_pod(pod, namespace)
    # 2. Choose the cluster.
    overrides = options.scheduler_options(scheduler_config, scheduler_version)
    settings = options.read_with_cluster(config, overrides, cluster, example, kubeconfig, context)
    is_file = settings.cluster.source == "files"
    options.refuse("needs a live cluster", {"--wait": wait, "--watch": watch} if is_file else {})
    api = connect_api_server(settings, OTHER_SOURCES)
    if files:
        admit = admission_of(admission, strict, dry_run_of(admission, api, strict))
        target = replace(_read_manifest(files, namespace, namespace_of(api)), admission=admission, admit=admit)
    admitted: FileAdmission = "none" if admission == "none" else "local"
    load_kube_scheduler(settings)  # report a mistake in the configuration before the cluster is read
    reader = ClusterReader(settings, api, admitted, timeout, no_color)
    # 3. Answer.
    if target is None:
        _list(partial(reader.list_pending, namespace or ""), output, no_color=no_color, watch=watch)
    diagnose = partial(reader.explain, target, node)
    found = diagnose()
    if wait:
        found = _wait(diagnose, found, wait_timeout)
    _print(found, output, one_node=node, show_all=show_all, no_color=no_color)
    raise typer.Exit(_exit_code(found))


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


def _read_again(read: Callable[[], T], lost: ClusterLost | None) -> tuple[T | None, ClusterLost | None]:
    """Return the answer or, for example while the API server restarts, the error; print only the first of several."""
    from extender.cli import logs

    try:
        return read(), None
    except ClusterLost as error:
        if lost is None:
            logs.print_message(f"{error}; trying again")
        return None, error


# --- --wait -----------------------------------------------------------------------------------------------------------

_FINAL_STATES = ("NotFound", "Finished", "Terminating")
"""States after which the pod never fits."""


def _wait(diagnose: "Callable[[], Diagnosis]", found: "Diagnosis", limit: float) -> "Diagnosis":
    """Read the cluster again until the pod fits, never will, or `limit` seconds are over; print changes to stderr.

    Raises ClusterLost if the last attempt to read the cluster failed.
    """
    from extender.cli import logs

    deadline, lost = monotonic() + limit, None
    while found.verdict != "Fits" and found.state not in _FINAL_STATES:
        left = deadline - monotonic()
        if left <= 0 and lost is not None:
            raise lost
        if left <= 0:
            logs.print_message(f"{found.pod} does not fit after {limit:g} s")
            break
        sleep(min(left, WAIT_INTERVAL_SECONDS))
        again, lost = _read_again(diagnose, lost)
        if again is not None:
            if again.why != found.why:
                logs.print_message(again.why)
            found = again
    return found


# --- the pending pods -------------------------------------------------------------------------------------------------


def _list(read: "Callable[[], PendingReport]", output: Output, *, no_color: bool, watch: bool) -> NoReturn:
    """Print the pending pods, and with `watch` changes until the user interrupts; exit with the code for all pods.

    With `watch`, JSON has a line for the list, and the whole list again after each change.
    """
    from extender.cli.output import pending_text, tables
    from extender.report.pod_schema import NOT_FOUND_EXIT_CODE

    console, found, lost = tables.new_console(no_color), read(), None
    if output in ("text", "wide"):
        tables.print_parts(pending_text.render(found, time_ns(), is_wide=output == "wide"), console)
    else:
        _print_plain(found, output, indent=None if watch else 2)
    while watch:
        sleep(WAIT_INTERVAL_SECONDS)
        again, lost = _read_again(read, lost)
        if again is not None:
            changes = list(pending_text.changes(found, again, time_ns()))
            if changes and output == "json":
                _print_plain(again, output, indent=None)
            elif changes:
                tables.print_parts(changes, console)
            found = again
    if not found.namespace_exists:
        raise typer.Exit(NOT_FOUND_EXIT_CODE)
    codes = set(map(_exit_code, found.pods))
    raise typer.Exit(next((code for code in (1, 3, 4, 6) if code in codes), 0))


def _exit_code(found: "Diagnosis | PendingPodReport") -> int:
    from extender.report.pod_schema import EXIT_CODES, NOT_FOUND_EXIT_CODE, NOT_TRIED_EXIT_CODE

    if found.state == "NotFound":
        return NOT_FOUND_EXIT_CODE
    is_tried = found.verdict != "Unknown" or found.state == "Pending"
    return EXIT_CODES[found.verdict] if is_tried else NOT_TRIED_EXIT_CODE


# --- output -----------------------------------------------------------------------------------------------------------


def _print(found: "Diagnosis", output: Output, *, one_node: str | None, show_all: bool, no_color: bool) -> None:
    """Print the diagnosis; JSON and YAML include only `one_node`, or with `show_all` every node."""
    from msgspec.structs import replace as replaced

    if output in ("text", "wide"):
        from extender.cli.output import tables, why_text

        parts = why_text.render(found, one_node=one_node, show_all=show_all, is_wide=output == "wide")
        tables.print_parts(parts, tables.new_console(no_color))
        return
    nodes = [node for node in found.nodes if show_all or node.name == one_node]
    _print_plain(replaced(found, nodes=nodes), output)


def _print_plain(found: "Diagnosis | PendingReport", output: Output, indent: int | None = 2) -> None:
    import msgspec

    shown = msgspec.to_builtins(found)
    if output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)
    else:
        typer.echo(printable_json(shown, indent=indent))
