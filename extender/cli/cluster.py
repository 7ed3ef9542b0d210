"""`extender cluster`: inspect the cluster as the service sees it."""

from pathlib import Path
from typing import Annotated

import typer

from extender.cli import help_pages
from extender.cli.options import (
    ClusterOption,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    cluster_options,
    connect_api_server,
    count_objects,
    open_cluster,
    read_configuration,
)

app = typer.Typer(
    help="Inspect the cluster as the service sees it.",
    cls=help_pages.DocumentedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=help_pages.DocumentedCommand)
def dump(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; gzipped if its name ends in .gz.")
    ],
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time limit for reading a live cluster.")
    ] = 60,
) -> None:
    """Write the cluster to a file, as the service sees it.

    serve and simulate read the file with --cluster and make the same decisions. It holds only the fields that decisions
    read: no environment variables, no arguments, no secrets.
    """
    import asyncio

    from extender.cluster.cache.cache import ClusterCache
    from extender.cluster.files.dump import write_dump
    from extender.cluster.watch.source import KubernetesSource

    given = cluster_options(cluster, cluster is None, kubeconfig, context)
    settings = read_configuration(config, {option: to for option, to in given.items() if to[1] is not None})
    cache = ClusterCache()
    source = open_cluster(settings, cache, connect_api_server(settings))
    if isinstance(source, KubernetesSource):
        asyncio.run(source.sync_once(timeout))
    write_dump(cache.snapshot().frozen(), out, settings.preemption.policy().annotations)
    typer.echo(f"{out}: {count_objects(cache)}")
    for warning in source.warnings():
        typer.echo(f"extender: {warning}", err=True)
