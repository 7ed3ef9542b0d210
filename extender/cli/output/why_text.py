"""Render the diagnosis of a pod: a sentence, facts, reasons with their nodes, a preemption, and single nodes.

Rule: names and messages are printed through `tables.text`, so that no input can control the terminal.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from extender.cli.output import node_report
from extender.cli.output.tables import (
    AdaptiveTable,
    facts_grid,
    format_timestamp,
    indented,
    section_heading,
    text,
)
from extender.cluster.list.pod_history import PodHistory
from extender.core.framework.status import cut_message
from extender.report.diagnose import evicted_sentence
from extender.report.facts.schema import FactCount
from extender.report.facts.wording import brief_fact, describe_cause, describe_fact
from extender.report.pod_schema import (
    Diagnosis,
    NodeDiagnosis,
    NodePreemption,
    PreemptionHelp,
    PreemptionOutcome,
    ReasonCount,
)
from extender.report.wording import (
    PREEMPTION_HELP,
    STATUS_CODES,
    VERDICT_STYLES,
    describe_admission,
    describe_help,
    describe_source,
)
from extender.utilities.text import format_amount, join_names, pluralize

MAX_EXAMPLES = 3
"""Maximum number of nodes that the table names per reason, unless it is wide."""

MAX_FACTS = 2
"""Maximum number of facts about a node in the table of all nodes."""

MAX_COMPARED_NODES = 4
"""Number of best nodes in the table of scores without --all."""


def render(
    found: Diagnosis, *, one_node: str | None = None, show_all: bool = False, is_wide: bool = False
) -> Iterator[RenderableType]:
    """Render the diagnosis; `one_node`: name of a node to show in full instead of all nodes."""
    yield text(found.why, VERDICT_STYLES[found.verdict])
    yield Text()
    yield _facts(found)
    node = next((one for one in found.nodes if one.name == one_node), None)
    if node is not None:
        yield from _render_node(found, node, show_all=show_all)
        return
    if found.history is not None:
        yield from _render_history(found, found.history)
    if found.reasons:
        yield from section_heading(f"reasons, of {pluralize(len(found.nodes), 'node')}")
        yield _reasons_table(found, is_wide=is_wide)
        yield from _render_facts(found.reasons)
    if found.preemption is not None:
        yield from _render_preemption(found.preemption)
    if show_all and found.nodes:
        yield from section_heading("nodes")
        yield _nodes_table(found)
    elif found.feasible:
        yield from _render_scores(found)
    if found.nodes and not show_all:
        yield Text()
        yield Text("--node NAME shows one node in full, --all every node", style="dim")


def _facts(found: Diagnosis) -> RenderableType:
    """Return a grid with the pod, kube-scheduler's message and version, the policies and the notes."""
    requested = [f"{format_amount(name, value)} {name}" for name, value in found.requests.items() if value]
    pod = f"{found.pod}, priority {found.priority}" + (f", requests {', '.join(requested)}" if requested else "")
    left_out = ", ".join(found.not_evaluated)
    where = describe_source(found.source)
    size = f"{pluralize(found.cluster.nodes, 'node')}, {pluralize(found.cluster.pods, 'pod')}"
    rows = {
        "scheduler": f"kube-scheduler {found.release}, {found.version_source}",
        "version": found.source.version_hint,
        "cluster": f"{where}: {size}" if found.cluster.nodes else where,  # without nodes, only pods were read
        "policies": "; ".join(found.policies),
        "hint": found.hint or "",
        "not evaluated": f"{left_out}: kube-scheduler may decide otherwise" if left_out else "",
    }
    admission = [] if found.admission is None else describe_admission(found.admission)
    further = [*(("admission", one) for one in admission), *(("note", note) for note in found.notes)]
    about = [("pod", pod if found.state != "NotFound" else ""), ("message", found.message)]
    about += [("fact", describe_fact(one)) for one in found.facts]
    return facts_grid([*about, *rows.items(), *further])


# --- events and conditions ------------------------------------------------------------------------------------------


def _render_history(found: Diagnosis, history: PodHistory) -> Iterator[RenderableType]:
    lines = list(_history_lines(found, history))
    if lines:
        yield from section_heading("events and conditions")
        for line in lines:
            yield indented(text(line))


def _history_lines(found: Diagnosis, history: PodHistory) -> Iterator[str]:
    event, by = history.failed_scheduling, history.preempted
    if by is not None:
        when = f" at {format_timestamp(by.time)}" if by.time else ""
        yield f"preempted{when}: {by.message}"
        if found.state not in ("NotFound", "Terminating"):
            yield evicted_sentence(found.pod, by)
    if event is not None:
        when = format_timestamp(event.last_seen) if event.last_seen else "an unknown time"
        same = "says the same" if event.message == cut_message(found.message) else f"said: {event.message}"
        yield f"the last FailedScheduling, of {event.reporter} at {when}, {same}"
    yield from history.notes


# --- all nodes together ---------------------------------------------------------------------------------------------


def _reasons_table(found: Diagnosis, *, is_wide: bool) -> RenderableType:
    """Return a row per reason; a wide table also has its code, and names more nodes."""
    rows = []
    for one in found.reasons if is_wide else _merged(found.reasons):
        examples = one.examples if is_wide else one.examples[:MAX_EXAMPLES]
        code = [one.code] if is_wide else []
        helps = text(describe_help(one.candidates, one.nodes), PREEMPTION_HELP[_help(one.candidates)].style)
        names = join_names(examples, len(examples), one.nodes)
        rows.append((one.nodes, one.plugin, one.reason, *code, helps, names))
    headers = ("NODES", "PLUGIN", "REASON", *(["CODE"] if is_wide else []), "PREEMPTION", "EXAMPLES")
    return AdaptiveTable(headers, rows, lead=3)


def _merged(reasons: Sequence[ReasonCount]) -> list[ReasonCount]:
    """Join the reasons that differ only in their code, which a narrow table does not show."""
    merged: dict[tuple[str, str, str], ReasonCount] = {}
    for one in reasons:
        same = merged.setdefault((one.plugin, one.reason, describe_help(one.candidates, one.nodes)), one)
        if same is not one:
            nodes, candidates = same.nodes + one.nodes, same.candidates + one.candidates
            examples = sorted({*same.examples, *one.examples})
            joined = replace(same, nodes=nodes, candidates=candidates, examples=examples)
            merged[one.plugin, one.reason, describe_help(one.candidates, one.nodes)] = joined
    return sorted(merged.values(), key=lambda one: -one.nodes)


def _help(candidates: int) -> PreemptionHelp:
    return "MakesRoom" if candidates else "NoRoom"


def _render_facts(reasons: Sequence[ReasonCount]) -> Iterator[RenderableType]:
    """Render each reason with its facts below it, and the number of nodes of each fact."""
    facts_of = defaultdict[str, list[FactCount]](list)
    for reason in reasons:  # some have the same words but other codes
        if reason.facts:
            facts_of[reason.reason or reason.plugin] += reason.facts
    if facts_of:
        yield from section_heading("facts, by reason")
    for heading, facts in facts_of.items():
        yield indented(text(heading))
        for fact in facts:
            yield indented(text(f"{pluralize(fact.nodes, 'node')}: {describe_cause(fact, in_full=True)}"), 4)


def _render_preemption(found: PreemptionOutcome) -> Iterator[RenderableType]:
    """Render the victims of the preemption, or the reason why it evicts none."""
    if found.node is None and not found.vetoed:
        if found.message:
            yield from section_heading("preemption")
            yield indented(text(found.message))
        return
    yield from section_heading("preemption")
    if found.vetoed is not None:
        yield indented(
            text(f"{pluralize(found.candidates, 'candidate')} within the policies: {found.vetoed}", "yellow")
        )
    if found.node is None:
        return
    others = [name for name in found.ties if name != found.node]
    tied = f", which costs the same as on {join_names(others, MAX_EXAMPLES)}" if others else ""
    broken = f"; {found.num_pdb_violations} of them violate disruption budgets" if found.num_pdb_violations else ""
    count = pluralize(found.candidates, "candidate")
    yield indented(text(f"{count}; would evict {pluralize(len(found.victims), 'pod')} from {found.node}{tied}{broken}"))
    rows = [
        (text(one.pod, "red"), one.priority, ", ".join(one.budgets), "terminating already" if one.terminating else "")
        for one in found.victims
    ]
    yield AdaptiveTable(("VICTIM", "PRIORITY", "BUDGETS", "NOTES"), rows)


def _nodes_table(found: Diagnosis) -> RenderableType:
    """Return a row per node: status, facts, total and weighted scores, and the victims of a preemption there."""
    plugins = list(dict.fromkeys(name for one in found.nodes if one.scores for name in one.scores.plugins))
    columns = ("TOTAL", *plugins) if plugins else ()
    rows = []
    for one in found.nodes:
        status = (one.name, text(one.code, STATUS_CODES[one.code].style), one.plugin, "; ".join(one.reasons))
        own = {} if one.scores is None else {"TOTAL": one.scores.total, **one.scores.plugins}
        scores = [own.get(name, "") for name in columns]
        facts = join_names([brief_fact(fact) for fact in one.facts], MAX_FACTS)
        rows.append((*status, facts, *scores, _preemption_cell(one.preemption)))
    return AdaptiveTable(("NODE", "CODE", "PLUGIN", "REASONS", "FACTS", *columns, "PREEMPTION"), rows, lead=2)


def _preemption_cell(tried: NodePreemption | None) -> str:
    """Return the victims, or the reason why no eviction would make room."""
    if tried is None:
        return ""
    if tried.status is None:
        return f"evicts {join_names(tried.victims, MAX_EXAMPLES)}"
    return f"no: {'; '.join(tried.status.reasons)}"


def _render_scores(found: Diagnosis) -> Iterator[RenderableType]:
    """Render the nodes with the highest totals, and the node that the pod has or would get."""
    ranked = [(one.scores.rank, one.name, one) for one in found.nodes if one.scores is not None]
    scored = [one for _, _, one in sorted(ranked, key=lambda row: row[:2])]
    shown = scored[:MAX_COMPARED_NODES]
    own = next((one for one in scored if one.name == found.node), None)
    if own is not None and own not in shown:
        shown.append(own)
    if shown:
        yield from section_heading(f"scores, of {pluralize(len(scored), 'node')} on which the pod fits")
        yield _scores_table(found, shown)


def _scores_table(found: Diagnosis, nodes: Sequence[NodeDiagnosis]) -> RenderableType:
    plugins = list(dict.fromkeys(name for one in nodes if one.scores for name in one.scores.plugins))
    rows = []
    for one in nodes:
        assert one.scores is not None
        name = text(one.name, "bold green" if one.name == found.node else "")
        values = (one.scores.plugins.get(plugin, "") for plugin in plugins)
        rows.append((one.scores.rank, name, one.scores.total, *values))
    return AdaptiveTable(("#", "NODE", "TOTAL", *plugins), rows, lead=2)


# --- one node -------------------------------------------------------------------------------------------------------


def _render_node(found: Diagnosis, node: NodeDiagnosis, *, show_all: bool) -> Iterator[RenderableType]:
    yield from section_heading(f"node {node.name}")
    if node.code == "Success":
        yield indented(text("the pod fits", "green"))
    else:
        is_candidate = node.preemption is not None and node.preemption.status is None
        reasons, helps = "; ".join(node.reasons), PREEMPTION_HELP[_help(is_candidate)].meaning
        yield indented(text(f"{node.plugin or 'framework'}: {reasons} ({node.code}: {helps})", "red"))
        for fact in node.facts:
            yield indented(text(describe_fact(fact)), 4)
    if node.not_evaluated:
        names = ", ".join(node.not_evaluated)
        yield indented(text(f"not evaluated here, kube-scheduler decides: {names}", "yellow"))
    if node.preemption is not None:
        yield indented(text(f"preemption: {_preemption_cell(node.preemption)}"))
    if node.scores is not None:
        best = [one for one in found.nodes if one.scores is not None and one.scores.rank == 1 and one is not node]
        yield from section_heading(f"scores, rank {node.scores.rank} of {found.feasible}")
        yield _scores_table(found, [*best[:1], node])
    if found.details is not None:
        yield from node_report.render_claims(found.details, show_all=show_all)
        if found.details.allocatable:
            yield from node_report.render_resources(found.requests, found.details)
        if found.details.pods:
            yield from node_report.render_pods(found.details)
