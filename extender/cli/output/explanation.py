"""Find decisions and print them: a list, a whole decision, or one node of it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console

from extender.cli import logs
from extender.cli.output import decision_report, node_report, tables
from extender.cli.output.decision_report import Invocation
from extender.cli.sources.decision_source import DecisionListOptions, DecisionSource, DecisionSourceError
from extender.errors import printable_json
from extender.report.schema import MAX_LISTED_DECISIONS, DecisionReport, DecisionSummary, VerbName
from extender.utilities.text import did_you_mean, join_names, similar_names

_MAX_SUGGESTED_NODES = 10
"""Maximum number of node names listed if the decision does not mention the node of --node."""

DECISION_ID = re.compile(r"(filter|prioritize|preempt)-\d+")
"""Pattern of a decision ID, which distinguishes it from a pod."""

ReportT = TypeVar("ReportT")


@dataclass(frozen=True)
class Output:
    """Console and format of the printed decisions."""

    invocation: Invocation
    console: Console
    show_all: bool
    is_json: bool


def list_decisions(source: DecisionSource, query: DecisionListOptions, output: Output) -> None:
    """Print the matching decisions, latest first; exit with code 1 if none is about the pod."""
    body = source.list_decisions(query)
    found = _decode_summaries(body)
    if not found and query.pod is not None:
        _exit_without_decision(source, query.pod, query, output.invocation)
    if output.is_json:
        typer.echo(printable_json(msgspec.json.decode(body)))
    else:
        parts = decision_report.render_list(found, output.invocation, output.console.width, query.limit)
        tables.print_parts(parts, output.console)


def explain_subject(source: DecisionSource, subject: str, query: DecisionListOptions, output: Output) -> None:
    """Print a decision, or one node of it; exit with code 1 if none is about the subject."""
    # 1. Find the decision, still without the pods of its nodes.
    decision, others = _find_decision(source, subject, query, output.invocation)
    names = [one.name for one in decision.nodes]
    if query.node is not None and query.node not in names:
        _exit_not_found(f"{decision.id} does not mention node {query.node!r}", _suggest_nodes(query.node, names))
    if output.is_json:
        body = _read_decision(source, decision.id, node=query.node)
        typer.echo(printable_json(msgspec.json.decode(body)))
        return
    # 2. Read the pods of the node that is shown in detail; other nodes need only a row each, and a decision about 5,000
    # nodes has tens of thousands of pods.
    detailed_node = query.node or next(iter(decision.chosen), None)
    nodes = {node.name: node for node in decision.nodes}
    if detailed_node is not None:
        detailed = _decode(_read_decision(source, decision.id, node=detailed_node), DecisionReport)
        nodes |= {node.name: node for node in detailed.nodes}
    decision = msgspec.structs.replace(decision, nodes=list(nodes.values()))
    # 3. Print the node, or the decision.
    if query.node is not None:
        parts = node_report.render(decision, nodes[query.node], output.invocation, show_all=output.show_all)
    else:
        parts = decision_report.render(decision, subject, output.invocation, show_all=output.show_all)
    hint = [decision_report.other_decisions_hint(subject, others, output.invocation)] if others else []
    tables.print_parts([*parts, *hint], output.console)


# --- finding the decision ---------------------------------------------------------------------------------------------


def _find_decision(
    source: DecisionSource, subject: str, query: DecisionListOptions, invocation: Invocation
) -> tuple[DecisionReport, int]:
    """Return the decision, without the pods of nodes, and the number of other decisions about the pod.

    Exits with code 1 if none matches.
    """
    # 1. By ID; if no decision has this ID, a pod may have such a name.
    if DECISION_ID.fullmatch(subject):
        found = source.get_decision(subject, pods=False)
        if found is not None:
            return _decode(found, DecisionReport), 0
    # 2. List all decisions about the pod: their number is shown, too.
    unfiltered = replace(query, limit=MAX_LISTED_DECISIONS, node=None)
    about = _decode_summaries(source.list_decisions(unfiltered))
    if not about:
        _exit_without_decision(source, subject, unfiltered, invocation)
    # 3. With --node, take the latest decision with the node; else the latest preemption: users ask about evictions.
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
    """Exit with code 1, with a hint: decisions about the pod that the options exclude, or pods with similar names."""
    options = ((" of ", query.verb), (" with node ", query.node), (" since ", query.since))
    restrictions = "".join(f"{word}{value}" for word, value in options if value is not None)
    left_out = _decode_summaries(source.list_decisions(DecisionListOptions(subject))) if restrictions else []
    if not left_out:
        _exit_not_found(f"no retained decision mentions {subject!r}", *_suggest_subjects(source, subject))
    counts = " and ".join(f"{count} of {verb}" for verb, count in Counter(one.verb for one in left_out).items())
    hint = f"retained are {counts}: {invocation.command} {subject} --list"
    _exit_not_found(f"no retained decision{restrictions} mentions {subject!r}", hint)


def _suggest_subjects(source: DecisionSource, subject: str) -> tuple[str, str]:
    """Return a hint, and similar pod names in the retained decisions."""
    summaries = _decode_summaries(source.list_decisions(DecisionListOptions()))
    if not summaries:
        return "none are retained: has kube-scheduler called the service since it started?", ""
    names = {name for one in summaries for name in (one.pod, *one.victims)}
    # Names alone are compared: with their namespace, pods would be similar for its sake. The subject's comes first.
    namespace, _, short = subject.lower().rpartition("/")
    ordered = sorted(names, key=lambda name: (name.startswith(f"{namespace}/"), name))
    by_short_name = {name.rpartition("/")[2]: name for name in ordered}
    close = [by_short_name[name] for name in similar_names(short, by_short_name, 3)]
    return "run extender explain to list the retained decisions", did_you_mean(close)


def _suggest_nodes(node: str, names: Sequence[str]) -> str:
    """Return a hint: the nodes of the decision, with similar names first."""
    if not names:
        return "it mentions no nodes"
    close = similar_names(node, names, 3)
    others = [one for one in names if one not in close]
    return f"it mentions {join_names(close + others, len(close) + _MAX_SUGGESTED_NODES)}"


def _exit_not_found(message: str, hint: str, suggested: str = "") -> NoReturn:
    logs.print_message(f"{message}{suggested}; {hint}")
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
