"""Print what an audit log says: one decision in full, or a list, and what is missing.

Rule: names and messages are printed through `tables.text`, so that no record can control the terminal.
"""

from collections.abc import Iterator, Sequence

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from extender.cli import logs
from extender.cli.output import tables
from extender.cli.output.decision_report import MAX_NAMES_PER_CELL
from extender.cli.output.explanation import Output
from extender.cli.output.tables import facts_grid, indented, section_heading, text
from extender.cli.sources.audit_files import read_audit_log
from extender.cli.sources.decision_source import DecisionListOptions
from extender.errors import printable_json
from extender.report.audit.decisions import describe_log, pod_key
from extender.report.audit.schema import AuditDecision, AuditReport, PreemptLine
from extender.utilities.text import join_names, pluralize


def explain(paths: Sequence[str], query: DecisionListOptions, output: Output, *, is_list: bool) -> None:
    """Print what an audit log says; exit with code 1 if no decision in it is about the subject of the query."""
    report = read_audit_log(paths, query)
    is_found = query.pod is None or bool(report.decisions)
    if output.is_json:
        typer.echo(printable_json(msgspec.to_builtins(report)))
    elif is_found:
        tables.print_parts(_render(report, query.since, is_list, output.show_all), output.console)
    else:
        for line in (f"no decision in the audit log is about {query.pod!r}", *describe_log(report, query.since)):
            logs.print_message(line)
    if not is_found:
        raise typer.Exit(1)


def _render(report: AuditReport, since: str | None, is_list: bool, show_all: bool) -> Iterator[RenderableType]:
    """Render the decisions, unless `is_list` the first one in full, and the state of the log."""
    listed = report.decisions
    if not is_list:
        yield text(listed[0].sentence, "bold")
        yield Text()
        yield facts_grid(_facts(listed[0], show_all))
        listed = listed[1:]
        if listed:
            yield from section_heading("other decisions about it")
    for one in sorted(listed, key=lambda one: one.record.timestamp, reverse=True):
        yield indented(text(f"{tables.format_timestamp(one.record.timestamp)}  {one.record.process}  {one.sentence}"))
    if report.others:
        yield indented(text(f"and {pluralize(report.others, 'other decision')}; --limit lists more", "dim"))
    yield from section_heading(f"audit log of {pluralize(report.files, 'file')}")
    yield from (indented(text(sentence)) for sentence in describe_log(report, since))


def _facts(decision: AuditDecision, show_all: bool) -> Iterator[tuple[str, str]]:
    record = decision.record
    yield "when", f"{tables.format_timestamp(record.timestamp)} UTC"
    yield "process", record.process
    yield "mode", record.mode
    yield "error", record.error or ""
    if not isinstance(record, PreemptLine):
        return
    if (pod := record.preemptor) is not None:
        yield "preemptor", f"{pod_key(pod)}, priority {pod.priority}, UID {pod.uid}, scheduler {pod.scheduler_name}"
    yield "scheduler", record.scheduler_release or ""
    yield "policies", "; ".join(record.policies) or "kube-scheduler's defaults"
    for node in record.kept:
        if node.node == decision.node or show_all:
            yield "node", f"{node.node}, {pluralize(node.num_pdb_violations, 'violated budget')}"
            for victim in node.victims:
                budgets = f", budgets {', '.join(victim.budgets)}" if victim.budgets else ""
                yield "victim", f"{pod_key(victim)}, priority {victim.priority}, UID {victim.uid}{budgets}"
            for budget in node.budgets:
                allowed = "no limit" if budget.before is None else f"{budget.before} before, {budget.after} after"
                yield "budget", f"{budget.name}, disruptions allowed: {allowed}"
    for why, names in record.dropped.items():
        yield "other nodes", f"{join_names(names, len(names) if show_all else MAX_NAMES_PER_CELL)}: {why}"
