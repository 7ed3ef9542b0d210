"""`extender simulate`: run scheduling cycles for pods on a copy of the cluster.

Rule: a live cluster is read once and never written to.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli import options

if TYPE_CHECKING:  # the engine, pydantic and rich load slowly: imported only when needed
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.files.manifests import FileAdmission
    from extender.config import Configuration
    from extender.core.profile import KubeScheduler
    from extender.k8s.kinds import ClusterObjects
    from extender.k8s.version.found import FoundVersion
    from extender.report.simulation_schema import Comparison, Simulation
    from extender.whatif.scheduler import Step

PROGRESS_AFTER_SECONDS = 1.0
"""Seconds after which a simulation shows its progress."""


def simulate(
    pod: Annotated[
        list[str] | None,
        typer.Option(
            "--pod",
            metavar="FILE",
            help="Manifest of pods or workloads to schedule, with the claims, budgets and classes that they need; - is "
            "standard input. Repeatable.",
        ),
    ] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Schedule the pending pods of the cluster.")] = False,
    drain: Annotated[
        list[str] | None,
        typer.Option(
            "--drain",
            metavar="NODE",
            help="Drain the node first, as kubectl drain does: disruption budgets are honored. Repeatable.",
        ),
    ] = None,
    remove_node: Annotated[
        list[str] | None,
        typer.Option("--remove-node", metavar="NODE", help="Remove the node and its pods first. Repeatable."),
    ] = None,
    cordon: Annotated[
        list[str] | None,
        typer.Option("--cordon", metavar="NODE", help="Mark the node unschedulable first. Repeatable."),
    ] = None,
    add_node: Annotated[
        list[str] | None,
        typer.Option("--add-node", metavar="FILE", help="Manifest of nodes to add first; - is standard input."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="NUMBER", min=1, help="Add so many copies of each node of --add-node."),
    ] = None,
    until_full: Annotated[
        bool,
        typer.Option("--until-full", help="Show how many more of the pod fit, and what stops the next one."),
    ] = False,
    gang: Annotated[bool, typer.Option("--gang", help="Schedule all pods of --pod, or none of them.")] = False,
    no_replacements: Annotated[
        bool, typer.Option("--no-replacements", help="Let no controller replace evicted pods.")
    ] = False,
    cluster: options.ClusterOption = None,
    example: options.ExampleOption = False,
    kubeconfig: options.KubeconfigOption = None,
    context: options.ContextOption = None,
    config: options.ConfigOption = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="Use the policies of this preset: upstream, careful or strict."),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare", metavar="NAME NAME", help="Compare two presets; configured stands for your configuration."
        ),
    ] = None,
    scheduler_config: options.SchedulerConfigOption = None,
    scheduler_version: options.SchedulerVersionOption = None,
    compare_versions: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare-versions",
            metavar="VERSION VERSION",
            help="Compare two versions of kube-scheduler, such as 1.33 1.36: what an upgrade would change.",
        ),
    ] = None,
    admission: options.AdmissionOption = "local",
    strict: options.StrictOption = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="NUMBER",
            help="Choose randomly among equal nodes, as kube-scheduler does; otherwise the first by name.",
        ),
    ] = None,
    output: options.OutputOption = "text",
    no_color: options.NoColorOption = False,
    timeout: options.ReadTimeoutOption = 60,
) -> None:
    """Simulate scheduling and preemption for pods.

    Prints the result in one sentence, then its events and tables. Runs kube-scheduler's scheduling cycles on a copy of
    the cluster, which is read once and not changed: each pod is filtered, scored and bound, or other pods are evicted
    for it by your policies and it is retried; their controllers replace evicted pods. Nodes can be drained, removed,
    cordoned and added first. Manifests are JSON or YAML. As with why, the cluster is that of your kubeconfig unless
    --cluster, --example or the configuration names another.

    \b
    Examples:
      # Schedule the pending pods of the cluster, and compare two policies
      extender simulate --pending --compare upstream strict
      # How many more pods fit in the example cluster
      extender simulate --example --pod pod.yaml --until-full
      # Where the pods of a node would go, and which budgets block them
      extender simulate --drain worker-a1
      # What an upgrade of kube-scheduler would change for the pending pods
      extender simulate --pending --compare-versions 1.33 1.36

    The exit code is 0 whether pods are scheduled or not; with --compare-versions it is 1 if a pod would be decided
    otherwise. It is 2 if the simulation cannot run.

    See docs/simulate.md, docs/scheduler.md and docs/policies.md.
    """
    from extender.cli.sources.arrivals import dry_run_of, print_passed_over, read_arrivals, read_nodes
    from extender.cli.sources.cluster import OTHER_SOURCES, connect_api_server, namespace_of, source_of
    from extender.cli.sources.progress import show_progress
    from extender.core.eviction_history import EvictionHistory
    from extender.report.scheduler_report import with_source, with_version_hint
    from extender.whatif.policies import CONFIGURED, preset_policy, run_simulation
    from extender.whatif.scenario import AddedNodes, Scenario
    from extender.whatif.simulator import SimulationProgress

    if not (pod or pending or drain or remove_node or cordon or add_node):
        raise typer.BadParameter("nothing to schedule: specify --pod FILE, --pending or a change of nodes")
    if count is not None and not add_node:
        raise typer.BadParameter("--count needs --add-node FILE")
    _check_exclusive({"--preset": preset, "--compare": compare})
    _check_exclusive({"--scheduler-version": scheduler_version, "--compare-versions": compare_versions})
    _check_exclusive({"--compare": compare, "--compare-versions": compare_versions})
    option = "--scheduler-version" if compare_versions is None else "--compare-versions"
    settings = []
    for version in compare_versions or (scheduler_version,):
        overrides = options.scheduler_options(scheduler_config, version, option)
        settings.append(options.read_with_cluster(config, overrides, cluster, example, kubeconfig, context))
    api = connect_api_server(settings[0], OTHER_SOURCES)
    arrivals = read_arrivals(pod or (), namespace_of(api))
    print_passed_over(arrivals.passed_over)
    server = dry_run_of(admission, api, strict)
    scenario = Scenario(
        pods=arrivals.pods,
        claims=arrivals.others,
        pending=pending,
        seed=seed,
        drain=tuple(drain or ()),
        remove_nodes=tuple(remove_node or ()),
        cordon=tuple(cordon or ()),
        add_nodes=tuple(AddedNodes(node, count or 1) for node in read_nodes(add_node or ())),
        workloads=arrivals.workloads,
        until_full=until_full,
        gang=gang,
        replace_evicted=not no_replacements,
        admission=admission,
        strict=strict,
    )
    of_files: FileAdmission = "none" if admission == "none" else "local"
    objects, schedulers, found = _read_cluster(settings, api, timeout, no_color, of_files)
    names = compare or (preset or CONFIGURED,)
    policies = [preset_policy(scheduler, name) for scheduler in schedulers for name in names]
    history = EvictionHistory(time.time_ns())
    progress = SimulationProgress()
    progress.begin(scenario, objects, len(policies))
    with show_progress(no_color, "simulating", PROGRESS_AFTER_SECONDS) as show:

        def watch(step: "Step") -> None:
            progress.count(step)
            if show is not None:
                show("pods", progress.tried, progress.pods or None)

        results = [run_simulation(objects, policy, scenario, history, watch, server) for policy in policies]
    source = source_of(api, objects.files)
    results = [
        with_source(result, with_version_hint(source, policy.scheduler, objects.nodes, found))
        for result, policy in zip(results, policies, strict=True)
    ]
    _print_results(results, output, no_color, by_version=compare_versions is not None)


def _check_exclusive(given: Mapping[str, object]) -> None:
    if all(value is not None for value in given.values()):
        raise typer.BadParameter(f"{' and '.join(given)} are mutually exclusive")


# --- output -----------------------------------------------------------------------------------------------------------


def _print_results(results: "Sequence[Simulation]", output: str, no_color: bool, *, by_version: bool) -> None:
    """Print one simulation, or compare two; exit with code 1 if the decisions of two versions differ."""
    import msgspec

    from extender.cli.output import simulation_text, tables
    from extender.errors import printable_json
    from extender.whatif.comparison import VersionComparison, compare_policies, compare_versions

    found: Simulation | Comparison | VersionComparison = results[0]
    if len(results) > 1:
        found = compare_versions(*results) if by_version else compare_policies(results)
    if output == "json":
        typer.echo(printable_json(msgspec.to_builtins(found)))
    else:
        tables.print_parts(simulation_text.render(found), tables.new_console(no_color))
    if isinstance(found, VersionComparison) and found.summary.decided_otherwise:
        raise typer.Exit(1)


# --- input ------------------------------------------------------------------------------------------------------------


def _read_cluster(
    settings: "Sequence[Configuration]",
    api: "ApiServer | None",
    timeout: float,
    no_color: bool,
    admission: "FileAdmission",
) -> "tuple[ClusterObjects, list[KubeScheduler], FoundVersion | None]":
    """Return the objects of the cluster, the kube-scheduler of each configuration, and the version that was found.

    The configurations differ only in the version of kube-scheduler; `auto` is the version found in the cluster.
    """
    from extender.cli.sources.cluster import read_cluster_once
    from extender.config.scheduler.load import load_kube_scheduler

    for one in settings:
        load_kube_scheduler(one)  # a mistake is reported before a cluster is read
    objects, found = read_cluster_once(settings[0], api, timeout, no_color, admission)
    return objects, [load_kube_scheduler(one, found) for one in settings], found
