"""`extender explain`: explain why a pod was evicted, where it fits, and why it does not fit on a node.

Rule: exit code 1 means that no such decision exists, 2 that it could not be read; --follow waits instead.
"""

import os
import shlex
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli.http_client import (
    DEFAULT_ADMIN_URL,
    CAFileOption,
    CertOption,
    KeyOption,
    ServerNameOption,
    TLSClientConfig,
)
from extender.cli.options import NoColorOption, OutputOption, refuse
from extender.report.schema import VerbName

if TYPE_CHECKING:
    from extender.cli.output.decision_report import Invocation
    from extender.cli.sources.decision_source import DecisionSource


def explain(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="POD|DECISION",
            help="Pod that was scheduled or evicted (namespace/name, name or UID), or the id of a decision.",
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", "-n", metavar="NAME", help="Explain the outcome of this node.")
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", "-l", help="List all decisions about the pod instead of explaining the latest.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="List decisions oldest first, one per line, and wait for new ones.")
    ] = False,
    verb: Annotated[VerbName | None, typer.Option("--verb", help="Show only decisions of this verb.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Show only later decisions: 15m, or 2026-03-01T12:00:00Z."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=1000, help="Maximum number of decisions to list.")
    ] = 20,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show all candidates, nodes, victims and devices instead of the first few.")
    ] = False,
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", envvar="EXTENDER_ADMIN_URL", help="URL of the service's admin listener."),
    ] = DEFAULT_ADMIN_URL,
    ca_file: CAFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    tls_server_name: ServerNameOption = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            "--recording", metavar="DIR", help="Read decisions from a recording instead of a running service."
        ),
    ] = None,
    audit_log: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Read an audit log instead of a running service: a file, a directory with rotated ones, or - for "
            "standard input. Repeatable, as for replicas.",
        ),
    ] = None,
    scheduler_config: Annotated[
        str | None,
        typer.Option(
            "--scheduler-config",
            metavar="FILE",
            help="With --recording: decide by this configuration of kube-scheduler instead of the recorded one.",
        ),
    ] = None,
    scheduler_version: Annotated[
        str | None,
        typer.Option(
            "--scheduler-version",
            metavar="VERSION",
            help="With --recording: decide as this version of kube-scheduler, such as 1.33.",
        ),
    ] = None,
    output: OutputOption = "text",
    no_color: NoColorOption = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time limit for each response of the service."),
    ] = 10,
) -> None:
    """Explain a scheduling or preemption decision.

    Without an argument, list the latest decisions. For a pod, explain the latest preemption in which it was the
    preemptor or a victim, or else its latest decision.

    \b
    Examples:
      # List the preemptions of the last 15 minutes, and new ones as they come
      extender explain --verb preempt --since 15m --follow
      # Why a pod was evicted, or where it fits
      extender explain shop/cart-9
      # Why a node was not chosen
      extender explain shop/cart-9 --node worker-a1
      # Why a pod was evicted last night
      extender explain shop/cart-9 --from audit.log

    See docs/explain.md, docs/evicted.md, docs/page.md and docs/reasons.md.
    """
    from extender.cli.output import explanation, tables
    from extender.cli.sources.decision_source import DecisionListOptions, ServiceDecisions

    given = {"--scheduler-config": scheduler_config, "--scheduler-version": scheduler_version}
    if recording is None:
        refuse("requires --recording: a running service has decided already", given)
    else:
        refuse("requires a running service: a recording is complete", {"--follow": follow})
    if subject is not None and explanation.DECISION_ID.fullmatch(subject):
        refuse(f"requires a pod: {subject} is one decision", {"--follow": follow})
    # 1. Choose the decisions and their source.
    tls = TLSClientConfig(ca_file, cert, key, tls_server_name)
    if audit_log or recording is not None:
        of_service = {"--ca-file": ca_file, "--cert": cert, "--key": key, "--tls-server-name": tls_server_name}
        source_option = "--from" if audit_log else "--recording"
        refuse(f"not with {source_option}: no service is asked", {"--url": not _is_default(url), **of_service})
    console, invocation = tables.new_console(no_color), _invocation(url, tls, recording, given)
    shown = explanation.Output(invocation, console, show_all, is_json=output == "json")
    query = DecisionListOptions(subject, node, verb, since, limit)
    if audit_log:
        refuse("not with --from: choose one source", {"--recording": recording})
        refuse("requires a running service: an audit log is read once", {"--follow": follow})
        refuse("not with --from: its records have no details of nodes", {"--node": node})
        not_audited = {"--verb": verb not in (None, "preempt")}
        refuse("must be preempt with --from: /filter and /prioritize are not audited", not_audited)
        from extender.cli.output import audit_text

        audit_text.explain(audit_log, query, shown, is_list=subject is None or list_all)
        return
    with closing(
        ServiceDecisions(url, timeout, tls)
        if recording is None
        else _open_recording(recording, scheduler_config, scheduler_version)
    ) as source:
        # 2. Print new decisions as they come, a list, or one decision.
        if follow:
            from extender.cli.output import following

            following.follow(source, query, shown)
        elif subject is None or list_all:
            explanation.list_decisions(source, query, shown)
        else:
            explanation.explain_subject(source, subject, query, shown)


def _open_recording(path: Path, scheduler_config: str | None, scheduler_version: str | None) -> "DecisionSource":
    # These imports load the engine, which only a recording needs.
    from extender.cli.sources.recorded_decisions import RecordedDecisions
    from extender.cli.sources.replay_settings import settings_override

    under = settings_override(scheduler_config=scheduler_config, scheduler_version=scheduler_version)
    return RecordedDecisions(path, under)


def _invocation(
    url: str, tls: TLSClientConfig, recording: Path | None, given: Mapping[str, str | None]
) -> "Invocation":
    """Return the command line with the same source, for commands that the output suggests."""
    from extender.cli.output.decision_report import Invocation

    if recording is not None:
        # The suggested command must decide the calls in the same way.
        decided_by = "".join(f" {option} {shlex.quote(value)}" for option, value in given.items() if value is not None)
        return Invocation(f"extender explain --recording {shlex.quote(str(recording))}{decided_by}", is_replay=True)
    where = "" if _is_default(url) else f" --url {shlex.quote(url)}"
    return Invocation(f"extender explain{where}{tls.command_line()}")


def _is_default(url: str) -> bool:
    """Return whether the URL is the one without --url."""
    return url in (DEFAULT_ADMIN_URL, os.environ.get("EXTENDER_ADMIN_URL"))
