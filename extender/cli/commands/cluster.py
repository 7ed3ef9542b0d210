"""`extender cluster`: inspect the cluster as the service sees it."""

from pathlib import Path
from typing import Annotated

import typer

from extender.cli import options
from extender.cli.help_pages import PlainTextCommand, new_group
from extender.cli.http_client import CAFileOption, CertOption, KeyOption, ServerNameOption, TLSClientConfig

app = new_group("""Inspect the cluster as the service sees it.

    \b
    Examples:
      # Write the live cluster to a file
      extender cluster dump --out cluster.json.gz

    See docs/cluster.md.
    """)


@app.command(cls=PlainTextCommand)
def dump(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; gzipped if its name ends in .gz.")
    ],
    config: options.ConfigOption = None,
    cluster: options.ClusterOption = None,
    example: options.ExampleOption = False,
    kubeconfig: options.KubeconfigOption = None,
    context: options.ContextOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Read the cluster cache of a running service, at its admin listener's URL."
        ),
    ] = None,
    ca_file: CAFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    tls_server_name: ServerNameOption = None,
    timeout: options.ReadTimeoutOption = 60,
) -> None:
    """Write the cluster to a file, as the service sees it.

    serve and simulate read the file with --cluster and make the same decisions. It holds only the fields that decisions
    read: no environment variables, no arguments, no secrets. With --url the cluster comes from the cache of a running
    service instead of a new list of the API server.

    \b
    Examples:
      # Write the live cluster of your kubeconfig
      extender cluster dump --out cluster.json.gz
      # Use another context
      extender cluster dump --context production --out cluster.json.gz
      # Write what a running service has in its cache
      extender cluster dump --url http://127.0.0.1:8889 --out cluster.json.gz

    See docs/cluster.md.
    """
    from extender.cli.sources.cluster import OTHER_SOURCES, connect_api_server, count_objects, read_cluster_once
    from extender.cluster.files.dump import encode_list, write_file

    if url is not None:
        from extender.cli.sources.service_cluster import read_service_cluster

        if example or (cluster, kubeconfig, context) != (None, None, None):
            raise typer.BadParameter("--url cannot be combined with --cluster, --example, --kubeconfig or --context")
        tls = TLSClientConfig(ca_file, cert, key, tls_server_name)
        write_file(read_service_cluster(url, timeout, tls), out)
        typer.echo(f"{out}: {out.stat().st_size} bytes")
        return
    settings = options.read_with_cluster(config, {}, cluster, example, kubeconfig, context)
    objects, _ = read_cluster_once(settings, connect_api_server(settings, OTHER_SOURCES), timeout)
    write_file(encode_list(objects, settings.preemption.policy().annotations), out)
    typer.echo(f"{out}: {count_objects(objects)}")
