"""`extender explain`: why a pod was evicted, where it fits, and why not on a certain node.

Rule: exit code 1 means that no such decision exists, 2 that it could not be read.
"""

import difflib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from extender.cli.http_client import (
    DEFAULT_ADMIN_URL,
    CAFileOption,
    CertOption,
    KeyOption,
    ServerNameOption,
    TLSClientConfig,
)
from extender.cli.options import OutputFormat

if TYPE_CHECKING:  # commands import what they need when they run, so that the others start fast
    from rich.console import Console, RenderableType

    from extender.cli.decision_source import DecisionListOptions, DecisionSource
    from extender.cli.report import Invocation
    from extender.core.explain.schema import DecisionReport, DecisionSummary

_UNLIMITED_COLUMNS = 10_000
"""Console width where the output is not a terminal: lines are neither truncated nor wrapped."""

_MAX_SUGGESTED_NODES = 10
"""Node names listed when --node names one that is not part of the decision."""

_DECISION_ID = re.compile(r"(filter|prioritize|preempt)-\d+")

T = TypeVar("T")


class VerbChoice(StrEnum):
    FILTER = "filter"
    PRIORITIZE = "prioritize"
    PREEMPT = "preempt"


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
    verb: Annotated[VerbChoice | None, typer.Option("--verb", help="Show only decisions of this verb.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Show only later decisions: 15m, or 2026-03-01T12:00:00Z."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=1000, help="Maximum number of decisions to list.")
    ] = 20,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show all candidates, nodes and victims instead of the first few.")
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
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")] = OutputFormat.TEXT,
    no_color: Annotated[bool, typer.Option("--no-color", help="Disable colors.")] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time limit for each response of the service."),
    ] = 10,
) -> None:
    """Explain a scheduling or preemption decision.

    Without an argument, list the latest decisions. For a pod, explain the latest preemption in which it was the
    preemptor or a victim, or else its latest decision.
    """
    from extender.cli.decision_source import DecisionListOptions, RecordedDecisions, ServiceDecisions

    options = DecisionListOptions(subject, node, verb, since, limit)  # type: ignore[arg-type]  # a StrEnum is a str
    tls = TLSClientConfig(ca_file, cert, key, tls_server_name)
    invocation, console = _invocation(url, tls, recording), _new_console(no_color)
    with closing(ServiceDecisions(url, timeout, tls) if recording is None else RecordedDecisions(recording)) as source:
        if subject is None or list_all:
            _list_decisions(source, options, output, console, invocation)
        else:
            _explain_subject(source, subject, options, output, console, invocation, show_all=show_all)


def _explain_subject(
    source: "DecisionSource",
    subject: str,
    options: "DecisionListOptions",
    output: OutputFormat,
    console: "Console",
    invocation: "Invocation",
    *,
    show_all: bool,
) -> None:
    node = options.node
    decision, others = _find_decision(source, subject, options)
    if node is not None and all(one.name != node for one in decision.nodes):
        hint = _suggest_nodes(node, [one.name for one in decision.nodes])
        _exit_not_found(f"{decision.id} does not mention node {node!r}", hint)
    if output is OutputFormat.JSON:
        typer.echo(_format_json(_require_decision(source.get_decision(decision.id, node=node))))
        return
    whole = decision
    if node is not None:
        decision = _decode(_require_decision(source.get_decision(decision.id, node=node)), type(decision))
    elif decision.chosen:
        decision = _with_pods_of_chosen_node(source, decision)
    _print_parts(console, _render(whole, decision, subject, node, others, show_all, invocation))


def _invocation(url: str, tls: TLSClientConfig, recording: Path | None) -> "Invocation":
    """Return the command line that reads from the same source, for suggested commands."""
    from extender.cli.report import Invocation

    if recording is not None:
        return Invocation(f"extender explain --recording {shlex.quote(str(recording))}", is_replay=True)
    is_default = url in (DEFAULT_ADMIN_URL, os.environ.get("EXTENDER_ADMIN_URL"))
    where = "" if is_default else f" --url {shlex.quote(url)}"
    return Invocation(f"extender explain{where}{tls.command_line()}")


def _render(
    whole: "DecisionReport",
    decision: "DecisionReport",
    subject: str,
    node: str | None,
    others: int,
    show_all: bool,
    invocation: "Invocation",
) -> "Iterable[RenderableType]":
    from extender.cli import node_report, report

    if node is not None:
        yield from node_report.render(whole, decision.nodes[0], invocation)
    else:
        yield from report.render(decision, subject, invocation, show_all=show_all)
    if others:
        yield from report.other_decisions_hint(subject, others, invocation)


# --- finding the decision ---------------------------------------------------------------------------------------------


def _find_decision(
    source: "DecisionSource", subject: str, options: "DecisionListOptions"
) -> "tuple[DecisionReport, int]":
    """Return the decision, without the pods of nodes, and the number of others about the same pod.

    Exits with code 1 if none matches.
    """
    from dataclasses import replace

    from extender.cli.decision_source import MAX_LISTED_DECISIONS
    from extender.core.explain.schema import DecisionReport

    if _DECISION_ID.fullmatch(subject):
        found = source.get_decision(subject, pods=False)
        if found is not None:
            return _decode(found, DecisionReport), 0
    unfiltered = replace(options, limit=MAX_LISTED_DECISIONS, node=None)
    about = _fetch_summaries(source, unfiltered)
    if not about:
        _exit_not_found(f"no retained decision mentions {subject!r}", _suggest_subjects(source, subject))
    with_node = _fetch_summaries(source, replace(unfiltered, node=options.node)) if options.node is not None else []
    chosen = _latest_of_verb(with_node, "preempt", "filter") if with_node else _latest_of_verb(about, "preempt")
    found = source.get_decision(chosen.id, pods=False)
    return _decode(_require_decision(found), DecisionReport), len(about) - 1


def _latest_of_verb(found: "Sequence[DecisionSummary]", *verbs: str) -> "DecisionSummary":
    """Return the latest decision of the first verb that has any, or else the latest of all."""
    return next((one for verb in verbs for one in found if one.verb == verb), found[0])


def _suggest_subjects(source: "DecisionSource", subject: str) -> str:
    """Return a hint: similar pod names among the retained decisions, or that none are retained."""
    from extender.cli.decision_source import DecisionListOptions

    summaries = _fetch_summaries(source, DecisionListOptions())
    if not summaries:
        return "none are retained: has kube-scheduler called the service since it started?"
    names = {name for one in summaries for name in (one.pod, *one.victims)}
    by_short_name = {name.rpartition("/")[2]: name for name in sorted(names)}
    close = _close_matches(subject, names) or [
        by_short_name[name] for name in _close_matches(subject.rpartition("/")[2], by_short_name)
    ]
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{guess}run extender explain to list the retained decisions"


def _suggest_nodes(node: str, names: Sequence[str]) -> str:
    """Return a hint: the nodes of the decision, those with similar names first."""
    if not names:
        return "it mentions no nodes"
    close = _close_matches(node, names)
    others = [one for one in names if one not in close]
    more = len(others) - _MAX_SUGGESTED_NODES
    return f"it mentions {', '.join(close + others[:_MAX_SUGGESTED_NODES])}{f' and {more} more' if more > 0 else ''}"


def _close_matches(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(names), 3)


def _exit_not_found(message: str, hint: str) -> NoReturn:
    from extender.errors import printable

    typer.echo(f"extender: {printable(message)}; {printable(hint)}", err=True)
    raise typer.Exit(1)


def _require_decision(found: bytes | None) -> bytes:
    if found is None:
        _exit_not_found("the decision was just dropped", "newer decisions replaced it (debug.decisions)")
    return found


def _with_pods_of_chosen_node(source: "DecisionSource", decision: "DecisionReport") -> "DecisionReport":
    """Add the pods of the chosen node, whose victims are listed in detail; the other nodes need one row each."""
    import msgspec

    best = decision.chosen[0]
    detailed = _decode(_require_decision(source.get_decision(decision.id, node=best)), type(decision)).nodes
    nodes = [detailed[0] if one.name == best and detailed else one for one in decision.nodes]
    return msgspec.structs.replace(decision, nodes=nodes)


# --- reading and printing ---------------------------------------------------------------------------------------------


def _list_decisions(
    source: "DecisionSource",
    options: "DecisionListOptions",
    output: OutputFormat,
    console: "Console",
    invocation: "Invocation",
) -> None:
    from extender.cli import report

    body = source.list_decisions(options)
    found = _decode_summaries(body)
    if not found and options.pod is not None:
        _exit_not_found(f"no retained decision mentions {options.pod!r}", _suggest_subjects(source, options.pod))
    if output is OutputFormat.JSON:
        typer.echo(_format_json(body))
    else:
        _print_parts(console, report.render_list(found, invocation, console.width, options.limit))


def _fetch_summaries(source: "DecisionSource", options: "DecisionListOptions") -> "list[DecisionSummary]":
    return _decode_summaries(source.list_decisions(options))


def _decode_summaries(body: bytes) -> "list[DecisionSummary]":
    from extender.core.explain.schema import DecisionSummary

    @dataclass
    class DecisionList:
        decisions: list[DecisionSummary]

    return _decode(body, DecisionList).decisions


def _decode(body: bytes, kind: type[T]) -> T:
    """Decode JSON as `kind`, ignoring unknown keys, which a newer service may send."""
    import msgspec

    from extender.cli.decision_source import DecisionSourceError

    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise DecisionSourceError(
            f"cannot decode the response ({error}): does the service run another version?"
        ) from error


def _format_json(body: bytes) -> str:
    import msgspec

    return msgspec.json.format(body, indent=2).decode()


def _new_console(no_color: bool) -> "Console":
    from rich.console import Console

    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    if no_color or os.environ.get("NO_COLOR"):
        settings["color_system"] = None
    console = Console(**settings)
    if not console.is_terminal:
        console = Console(**settings, width=_UNLIMITED_COLUMNS)
    return console


def _print_parts(console: "Console", parts: "Iterable[RenderableType]") -> None:
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=True)  # the console has decided already whether to use color
