"""Options that several commands share, and the configuration that results from them.

Rule: an option on the command line overrides the environment, which overrides the configuration file.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:  # pydantic loads slowly: imported only when needed
    from extender.config import Configuration

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="EXTENDER_CONFIG",
        help="Configuration file; without it, every setting has its default.",
    ),
]
ClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="PATH",
        help="Cluster file or directory, with its sub-directories; - is standard input. Repeatable; overrides "
        "cluster.path.",
    ),
]
ExampleOption = Annotated[bool, typer.Option("--example", help="Read the example cluster that ships with the package.")]
KubernetesOption = Annotated[
    bool, typer.Option("--kubernetes", help="Watch a live cluster; same as cluster.source: kubernetes.")
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the live cluster; overrides cluster.kubeconfig."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; overrides cluster.context.")
]
ReadTimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, max=86_400, help="Time limit for reading a live cluster."),
]
SchedulerConfigOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-config",
        metavar="FILE",
        help="kube-scheduler's own configuration file (KubeSchedulerConfiguration); overrides scheduler.config.",
    ),
]
SchedulerVersionOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-version",
        metavar="VERSION",
        help="Version of kube-scheduler, such as 1.33 or 1.33.2, or auto; overrides scheduler.version.",
    ),
]
AdmissionOption = Annotated[
    Literal["local", "server", "none"],
    typer.Option(
        "--admission",
        help="What makes of a manifest the object that an API server stores: local, the extender itself; server, a dry "
        "run of the API server, with permission to create pods; none, the manifest as it is.",
    ),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Refuse manifests with unknown fields, or without required ones.")
]
OutputOption = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="Output format.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Disable colors.")]

Overrides = dict[str, tuple[str, object]]
"""Option -> (configuration key, value); the value is None if the option was not given."""


def cluster_options(
    paths: Sequence[str] | None, kubernetes: bool, kubeconfig: str | None, context: str | None
) -> Overrides:
    """Return the overrides of the options that select the cluster, which imply cluster.source."""
    path = paths[0] if paths is not None and len(paths) == 1 else paths
    given: Overrides = {
        "--cluster": ("cluster.path", path),
        "--kubeconfig": ("cluster.kubeconfig", kubeconfig),
        "--context": ("cluster.context", context),
    }
    live = kubernetes or kubeconfig is not None or context is not None
    if live or path is not None:
        given["--kubernetes" if live else "--cluster FILE"] = ("cluster.source", "kubernetes" if live else "files")
    return given


def refuse(reason: str, given: Mapping[str, object]) -> None:
    """Refuse the first of these options that was given; BadParameter with the reason."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(reason, param_hint=option)


def read_with_cluster(
    config: Path | None,
    overrides: Overrides,
    cluster: Sequence[str] | None,
    example: bool,
    kubeconfig: str | None,
    context: str | None,
) -> "Configuration":
    """Return the configuration of a command that reads a cluster once.

    The cluster is that of the options, else that of the configuration, else that of the kubeconfig; of the example
    only if it is asked for.
    """
    given = {"--example": example or None, "--cluster": cluster, "--kubeconfig": kubeconfig, "--context": context}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1 and named != ["--kubeconfig", "--context"]:
        raise typer.BadParameter(f"cannot be combined with {' and '.join(named[1:])}", param_hint=named[0])
    settings = read_configuration(config, overrides | cluster_options(cluster, False, kubeconfig, context))
    if example:
        files = {"source": "files", "path": None, "kubeconfig": None, "context": None}
        return settings.model_copy(update={"cluster": settings.cluster.model_copy(update=files)})
    if settings.cluster.path is None:
        return read_configuration(config, overrides | cluster_options(None, True, kubeconfig, context))
    return settings


def scheduler_options(config: str | None, version: str | None, option: str = "--scheduler-version") -> Overrides:
    """Return the overrides of the options that describe kube-scheduler; `option`: name of the version option."""
    return {"--scheduler-config": ("scheduler.config", config), option: ("scheduler.version", version)}


def read_configuration(path: Path | None, overrides: Overrides | None = None) -> "Configuration":
    from extender.config import load_config

    # An error about an overridden key names the option.
    given = {option: to for option, to in (overrides or {}).items() if to[1] is not None}
    return load_config(path, os.environ, given)
