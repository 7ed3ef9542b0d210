"""extender cluster: look at the cluster as the service sees it."""

from pathlib import Path
from typing import Annotated

import typer

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

app = typer.Typer(help="Look at the cluster as the service sees it.", no_args_is_help=True)


@app.command()
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

    given = cluster_options(cluster, cluster is None, kubeconfig, context)
    settings = configuration(config, {option: to for option, to in given.items() if to[1] is not None})
    store = ClusterStore()
    source = open_cluster(settings, store, api_server(settings))
    if isinstance(source, KubernetesSource):
        asyncio.run(source.read_once(timeout))
    write(store.snapshot().frozen(), out, settings.preemption.policy().annotations)
    typer.echo(f"{out}: {counts(store)}")
    for warning in source.warnings():
        typer.echo(f"extender: {warning}", err=True)
