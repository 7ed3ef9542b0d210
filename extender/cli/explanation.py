"""Find decisions and print them: the list, a whole decision, or one node of it."""

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console, RenderableType

from extender.cli import node_report, report
from extender.cli.decision_source import DecisionListOptions, DecisionSource, DecisionSourceError
from extender.cli.report import Invocation
from extender.errors import printable, printable_json
from extender.report.schema import MAX_LISTED_DECISIONS, DecisionReport, DecisionSummary, VerbName
from extender.utilities.text import join_names

_UNLIMITED_COLUMNS = 10_000
"""Console width where the output is not a terminal: lines are neither truncated nor wrapped."""

_MAX_SUGGESTED_NODES = 10
"""Node names listed when --node names one that is not part of the decision."""

DECISION_ID = re.compile(r"(filter|prioritize|preempt)-\d+")
"""An argument of this form is the ID of a decision, any other one a pod."""

ReportT = TypeVar("ReportT")


@dataclass(frozen=True)
class Output:
    """Destination and format of the printed decisions."""

    invocation: Invocation
    console: Console
    show_all: bool
    is_json: bool


def list_decisions(source: DecisionSource, query: DecisionListOptions, output: Output) -> None:
    """Print the decisions that match, the latest first; exit with code 1 if none is about the pod."""
    body = source.list_decisions(query)
    found = _decode_summaries(body)
    if not found and query.pod is not None:
        _exit_without_decision(source, query.pod, query, output.invocation)
    if output.is_json:
        typer.echo(printable_json(msgspec.json.decode(body)))
    else:
        parts = report.render_list(found, output.invocation, output.console.width, query.limit)
        print_parts(parts, output.console)


def explain_subject(source: DecisionSource, subject: str, query: DecisionListOptions, output: Output) -> None:
    """Print a decision, or one node of it; exit with code 1 if there is none about the subject."""
    decision, others = _find_decision(source, subject, query, output.invocation)
    names = [one.name for one in decision.nodes]
    if query.node is not None and query.node not in names:
        _exit_not_found(f"{decision.id} does not mention node {query.node!r}", _suggest_nodes(query.node, names))
    if output.is_json:
        body = _read_decision(source, decision.id, node=query.node)
        typer.echo(printable_json(msgspec.json.decode(body)))
        return
    # Only the node that is shown in detail comes with its pods; the others need one row each.
    detailed_node = query.node or next(iter(decision.chosen), None)
    nodes = {node.name: node for node in decision.nodes}
    if detailed_node is not None:
        detailed = _decode(_read_decision(source, decision.id, node=detailed_node), DecisionReport)
        nodes |= {node.name: node for node in detailed.nodes}
    decision = msgspec.structs.replace(decision, nodes=list(nodes.values()))
    if query.node is not None:
        parts = node_report.render(decision, nodes[query.node], output.invocation, show_all=output.show_all)
    else:
        parts = report.render(decision, subject, output.invocation, show_all=output.show_all)
    hint = [report.other_decisions_hint(subject, others, output.invocation)] if others else []
    print_parts([*parts, *hint], output.console)


# --- finding the decision ---------------------------------------------------------------------------------------------


def _find_decision(
    source: DecisionSource, subject: str, query: DecisionListOptions, invocation: Invocation
) -> tuple[DecisionReport, int]:
    """Return the decision, without the pods of nodes, and the number of others about the same pod.

    Exits with code 1 if none matches.
    """
    if DECISION_ID.fullmatch(subject):
        found = source.get_decision(subject, pods=False)
        if found is not None:
            return _decode(found, DecisionReport), 0
    unfiltered = replace(query, limit=MAX_LISTED_DECISIONS, node=None)
    about = _decode_summaries(source.list_decisions(unfiltered))
    if not about:
        _exit_without_decision(source, subject, unfiltered, invocation)
    with_node = []
    if query.node is not None:
        with_node = _decode_summaries(source.list_decisions(replace(unfiltered, node=query.node)))
    chosen = _latest_of_verb(with_node, "preempt", "filter") if with_node else _latest_of_verb(about, "preempt")
    return _decode(_read_decision(source, chosen.id, pods=False), DecisionReport), len(about) - 1


def _latest_of_verb(found: Sequence[DecisionSummary], *verbs: VerbName) -> DecisionSummary:
    """Return the latest decision of the first verb that has any, or else the latest of all."""
    return next((one for verb in verbs for one in found if one.verb == verb), found[0])


def _exit_without_decision(
    source: DecisionSource, subject: str, query: DecisionListOptions, invocation: Invocation
) -> NoReturn:
    """Exit with code 1; suggest the decisions that the options exclude, or else pods with similar names."""
    options = ((" of ", query.verb), (" with node ", query.node), (" since ", query.since))
    restrictions = "".join(f"{word}{value}" for word, value in options if value is not None)
    left_out = _decode_summaries(source.list_decisions(DecisionListOptions(subject))) if restrictions else []
    if not left_out:
        _exit_not_found(f"no retained decision mentions {subject!r}", _suggest_subjects(source, subject))
    counts = " and ".join(f"{count} of {verb}" for verb, count in Counter(one.verb for one in left_out).items())
    hint = f"retained are {counts}: {invocation.command} {subject} --list"
    _exit_not_found(f"no retained decision{restrictions} mentions {subject!r}", hint)


def _suggest_subjects(source: DecisionSource, subject: str) -> str:
    """Return a hint with similar pod names, or that no decisions are retained."""
    summaries = _decode_summaries(source.list_decisions(DecisionListOptions()))
    if not summaries:
        return "none are retained: has kube-scheduler called the service since it started?"
    names = {name for one in summaries for name in (one.pod, *one.victims)}
    by_short_name = {name.rpartition("/")[2]: name for name in sorted(names)}
    close = difflib.get_close_matches(subject, names, 3) or [
        by_short_name[name] for name in difflib.get_close_matches(subject.rpartition("/")[2], by_short_name, 3)
    ]
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{guess}run extender explain to list the retained decisions"


def _suggest_nodes(node: str, names: Sequence[str]) -> str:
    """Return a hint: the nodes of the decision, those with similar names first."""
    if not names:
        return "it mentions no nodes"
    close = difflib.get_close_matches(node, names, 3)
    others = [one for one in names if one not in close]
    return f"it mentions {join_names(close + others, len(close) + _MAX_SUGGESTED_NODES)}"


def _exit_not_found(message: str, hint: str) -> NoReturn:
    typer.echo(f"extender: {printable(message)}; {printable(hint)}", err=True)
    raise typer.Exit(1)


# --- reading and printing ---------------------------------------------------------------------------------------------


def _read_decision(source: DecisionSource, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes:
    body = source.get_decision(decision_id, node=node, pods=pods)
    if body is None:
        _exit_not_found("the decision was just dropped", "newer decisions replaced it (debug.decisions)")
    return body


@dataclass
class _DecisionList:
    decisions: list[DecisionSummary]


def _decode_summaries(body: bytes) -> list[DecisionSummary]:
    return _decode(body, _DecisionList).decisions


def _decode(body: bytes, kind: type[ReportT]) -> ReportT:
    """Decode JSON as `kind`, ignoring unknown keys, which a newer service may send."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        message = f"cannot decode the response ({error}): does the service run another version?"
        raise DecisionSourceError(message) from error


def new_console(no_color: bool) -> Console:
    """Return the console of a report: as wide as the terminal, and never wrapping for a file or a pipe."""
    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    if no_color or os.environ.get("NO_COLOR"):
        settings["color_system"] = None
    console = Console(**settings)
    return console if console.is_terminal else Console(**settings, width=_UNLIMITED_COLUMNS)


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts of a report, without blanks at the ends of lines."""
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=True)  # the console has decided already whether to use color
