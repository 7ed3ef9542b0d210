"""extender cluster: look at the cluster as the service sees it."""

from pathlib import Path
from typing import Annotated

import typer

from extender.cli import help_pages
from extender.cli.options import (
    ClusterOption,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    api_server,
    cluster_options,
    configuration,
    counts,
    open_cluster,
)

app = typer.Typer(
    help="Look at the cluster as the service sees it.",
    cls=help_pages.Group,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=help_pages.Command)
def dump(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; gzipped if it ends in .gz.")],
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long reading the cluster may take.")
    ] = 60,
) -> None:
    """Write the cluster to a file, as the service sees it.

    --cluster reads it again, and decides the same. The file holds what decisions read and nothing else: no environment
    variables, no arguments, no secrets.
    """
    import asyncio

    from extender.cluster.cache.cache import ClusterCache
    from extender.cluster.files.dump import write
    from extender.cluster.watch.source import KubernetesSource

    given = cluster_options(cluster, cluster is None, kubeconfig, context)
    settings = configuration(config, {option: to for option, to in given.items() if to[1] is not None})
    cache = ClusterCache()
    source = open_cluster(settings, cache, api_server(settings))
    if isinstance(source, KubernetesSource):
        asyncio.run(source.read_once(timeout))
    write(cache.snapshot().frozen(), out, settings.preemption.policy().annotations)
    typer.echo(f"{out}: {counts(cache)}")
    for warning in source.warnings():
        typer.echo(f"extender: {warning}", err=True)
