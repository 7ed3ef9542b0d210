"""extender simulate: what would happen if these pods arrived."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli.options import (
    ClusterOption,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    api_server,
    cluster_options,
    configuration,
    open_cluster,
)

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from extender.config import Configuration
    from extender.core.simulator.result import Simulation
    from extender.core.simulator.simulator import Step
    from extender.k8s.kinds import ClusterObjects
    from extender.k8s.objects import Pod
    from extender.server.admin.simulate import Comparison, Policy, Question, Watch

LONG = 50
"""From so many pods on there is a progress bar."""


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


def simulate(
    pod: Annotated[
        list[str] | None,
        typer.Option(
            "--pod", metavar="FILE", help="Pods that arrive; - is standard input. May be given more than once."
        ),
    ] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Place the pods that wait in the cluster.")] = False,
    cluster: ClusterOption = None,
    from_server: Annotated[
        bool, typer.Option("--from-server", help="Read a live cluster once; nothing is changed there.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    config: ConfigOption = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="Policies of this preset alone: upstream, careful or strict."),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="NAME NAME", help="Two presets side by side; configured is your own."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="NUMBER", help="Draw among equal nodes, as kube-scheduler does; by name without it."
        ),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.TEXT,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long reading a live cluster may take.")
    ] = 60,
) -> None:
    """Run scheduling cycles and show what would become of some pods.

    The cycles are kube-scheduler's, on a copy of the cluster: nothing is changed there. Each pod is filtered, scored
    and bound; or pods are evicted for it by your policies, and it is tried again. A pod is given
    as a manifest: JSON or YAML, one or several. Without --cluster it is the example that ships with the package, or the
    cluster of the configuration.
    """
    from extender.core.eviction_history import EvictionHistory
    from extender.server.admin import simulate as what_if

    if not pod and not pending:
        raise typer.BadParameter("nothing to place: give --pod FILE or --pending")
    if preset is not None and compare is not None:
        raise typer.BadParameter("give --preset or --compare")
    if cluster is not None and (from_server or kubeconfig is not None or context is not None):
        raise typer.BadParameter("give --cluster or a live cluster")
    given = cluster_options(cluster, from_server, kubeconfig, context)
    settings = configuration(config, {option: to for option, to in given.items() if to[1] is not None})
    pods = [one for file in pod or () for one in _pods_of(file)]
    policies = _policies(settings, preset, compare)
    objects = _objects(settings, timeout)
    question = what_if.Question(pods, pending, seed, EvictionHistory(time.time_ns()))
    with _progress(objects, question, len(policies), no_color) as watch:
        found = what_if.answer(objects, policies, question, watch)
    _print(found, output, no_color)


def _print(found: "Simulation | Comparison", output: Output, no_color: bool) -> None:
    import msgspec
    from rich.console import Console

    from extender.cli import simulation_text
    from extender.core.simulator.result import Simulation

    if output is Output.JSON:
        # Everything but ASCII is escaped, so that no name can steer the terminal.
        typer.echo(json.dumps(msgspec.to_builtins(found), indent=2).replace("\x7f", "\\u007f"))
        return
    console = Console(no_color=no_color or None, emoji=False)
    lines = simulation_text.told(found) if isinstance(found, Simulation) else simulation_text.compared(found)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


# --- what goes in -----------------------------------------------------------------------------------------------------


def _pods_of(file: str) -> "list[Pod]":
    """The pods of a file; ExtenderError if it holds anything else."""
    from extender.cluster.files.manifests import read_cluster
    from extender.errors import ClusterFileError
    from extender.k8s.kinds import KINDS
    from extender.server.admin.simulate import not_a_pod

    with _path_of(file) as path:
        report = read_cluster(path)
    others = [kind for kind, of_kind in KINDS.items() if kind != "Pod" and getattr(report.objects, of_kind.field)]
    for kind in (*others, *report.left_out):
        raise ClusterFileError(not_a_pod(path.name, kind))
    if not report.objects.pods:
        raise ClusterFileError(f"{path.name}: there is no pod in it")
    return list(report.objects.pods)


@contextmanager
def _path_of(file: str) -> Iterator[Path]:
    """A file to read; what comes on stdin is one for as long as it is read."""
    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin.yaml")
        path.write_bytes(sys.stdin.buffer.read())
        yield path


def _policies(settings: "Configuration", preset: str | None, compare: tuple[str, str] | None) -> "list[Policy]":
    from extender.server.admin import simulate as what_if

    names = compare or (preset or what_if.CONFIGURED,)
    return [what_if.preset(settings.profile(), name) for name in names]


def _objects(settings: "Configuration", timeout: float) -> "ClusterObjects":
    """The cluster, read once."""
    import asyncio

    from extender.cluster.cache.cache import ClusterCache
    from extender.cluster.files.manifests import example_cluster, load_cluster
    from extender.cluster.watch.source import KubernetesSource

    if settings.cluster.source != "kubernetes":
        return example_cluster() if settings.cluster.path is None else load_cluster(settings.cluster.path)
    cache = ClusterCache()
    source = open_cluster(settings, cache, api_server(settings))
    if isinstance(source, KubernetesSource):
        asyncio.run(source.read_once(timeout))
    for warning in source.warnings():
        typer.echo(f"extender: {warning}", err=True)
    return cache.snapshot().frozen()


# --- while it runs ----------------------------------------------------------------------------------------------------


@contextmanager
def _progress(objects: "ClusterObjects", question: "Question", runs: int, no_color: bool) -> "Iterator[Watch | None]":
    """A bar on stderr, if somebody looks at it and it takes a while: pods that were tried once."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    waiting = (not one.spec.node_name for one in objects.pods) if question.pending else ()
    count = len(question.pods) + sum(waiting)
    if not sys.stderr.isatty() or count < LONG or os.environ.get("TERM") == "dumb":
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, no_color=no_color or None), transient=True) as progress:
        task = progress.add_task("pods tried", total=count * runs)

        def watch(step: "Step") -> None:
            progress.update(task, advance=step.attempt == 1)

        yield watch
