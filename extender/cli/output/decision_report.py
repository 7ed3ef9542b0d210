"""Render a decision as text: summary sentence, facts, victims, ranked candidates, and the outcome of all other nodes.

Rule: names and messages are printed through `tables.text`, so that no input can control the terminal.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from extender.cli.output import tables
from extender.cli.output.tables import AdaptiveTable, indented, section_heading, text
from extender.errors import printable
from extender.report import schema
from extender.report.facts.wording import in_brackets, summarize
from extender.report.schema import DecisionReport, NodeReport
from extender.report.wording import DECISION_OUTCOMES, NODE_OUTCOMES, VICTIM_SELECTION_NOTES, Words
from extender.utilities.text import format_amount, join_names, pluralize


@dataclass(frozen=True)
class Invocation:
    """The command line of this run, repeated in the commands that a report suggests."""

    command: str = "extender explain"
    """Command with the options that select the service or recording, shell-quoted."""
    is_replay: bool = False
    """True if the decisions come from a replayed recording."""


MAX_TABLE_ROWS = 20
"""Maximum number of rows of a table without --all."""
MAX_NAMES_PER_CELL = 5
"""Maximum number of node names in one cell without --all."""

_FULL_LIST_MIN_COLUMNS = 100
"""Console width below which the list drops the VERB and POD columns, which the id and the sentence repeat."""

DECIDING_MARK = "*"
"""Mark of the first criterion on which a candidate is worse than the best candidate."""


# --- the list ---------------------------------------------------------------------------------------------------------


def render_list(
    found: Sequence[schema.DecisionSummary], invocation: Invocation, width: int, limit: int
) -> Iterator[RenderableType]:
    """List decisions, one row each, the latest first."""
    if not found:
        yield Text("No decisions retained: has kube-scheduler called the service since it started?")
        return
    is_brief = width < _FULL_LIST_MIN_COLUMNS
    headers = ("ID", "TIME", *(() if is_brief else ("VERB", "POD")), "SUMMARY")
    rows = []
    for one in found:
        summary = text(one.sentence, "dim" if one.outcome in ("passthrough", "observed") else "")
        cells = () if is_brief else (one.verb, one.pod)
        rows.append((text(one.id, "bold"), tables.format_timestamp(one.time), *cells, summary))
    yield AdaptiveTable(headers, rows, lead=2, indent=0)
    if len(found) == limit:
        yield Text(f"Showing the latest {limit}; use --limit for more.", style="dim")
    yield command_hint(f"{invocation.command} {found[0].id}", "show one decision")


# --- one decision -----------------------------------------------------------------------------------------------------


def render(
    decision: DecisionReport, subject: str, invocation: Invocation, *, show_all: bool = False
) -> Iterator[RenderableType]:
    """Render the whole decision.

    `subject`: the pod named on the command line, highlighted among the victims. Requests and budgets of victims are
    shown for nodes that include their pods.
    """
    yield text(f"{decision.id} {decision.sentence}", "bold")
    yield Text()
    yield facts_grid(decision, invocation)
    if decision.verb == "preempt":
        yield from _render_preemption(decision, subject, show_all)
    elif decision.verb == "prioritize":
        yield from _render_scores(decision, show_all)
    yield from render_other_nodes(decision, show_all)
    if decision.facts_left_out:
        yield Text()
        yield text(f"not all nodes have facts: {decision.facts_left_out}")
    if decision.not_evaluated:
        yield from section_heading("left to kube-scheduler")
        names = ", ".join(decision.not_evaluated)
        yield indented(text(f"{names}: not evaluated here, so kube-scheduler may decide otherwise"))
    others = [node.name for node in decision.nodes if node.outcome not in ("chosen", "accepted", "vetoed")]
    if others:
        yield Text()
        yield command_hint(f"{invocation.command} {decision.id} --node {others[0]}", "explain a node")


def facts_grid(decision: DecisionReport, invocation: Invocation) -> RenderableType:
    """Return a grid of pod, time, state of the cluster cache, policies and mode."""
    pod, verb = decision.incoming, "replayed" if invocation.is_replay else "decided"
    requested = [f"{format_amount(name, value)} {name}" for name, value in pod.requests.items() if value]
    scheduler = decision.scheduler
    gates = "".join(f", {gate}={str(value).lower()}" for gate, value in scheduler.feature_gates.items())
    profile = f"profile {scheduler.profile}" if scheduler.profile is not None else "no profile: not ours"
    rows = {
        "pod": f"{pod.key}, priority {pod.priority}" + (f", requests {', '.join(requested)}" if requested else ""),
        "when": f"{tables.format_timestamp(decision.time)} UTC, {verb} in {decision.milliseconds:.1f} ms",
        "cache": decision.cache,
        "scheduler": f"{scheduler.release} ({scheduler.version_source}){gates}, {profile}",
        "policies": "; ".join(decision.policies) or "kube-scheduler's defaults",
        "mode": DECISION_OUTCOMES.get(decision.outcome, Words("", decision.outcome)).meaning,
        "error": decision.error or "",
    }
    claims = (f"{one.name} ({one.claim}): {one.note}" if one.claim else f"{one.name}: {one.note}" for one in pod.claims)
    return tables.facts_grid([*rows.items(), *(("" if number else "claims", one) for number, one in enumerate(claims))])


def _render_preemption(decision: DecisionReport, subject: str, show_all: bool) -> Iterator[RenderableType]:
    chosen = [node for node in decision.nodes if node.outcome == "chosen"]
    for node in chosen:
        yield from _render_victims(node, subject)
    candidates = [node for node in decision.nodes if node.rank is not None]
    ranking = decision.ranking
    if candidates and ranking is not None:
        yield from section_heading(f"{pluralize(ranking.candidates, 'candidate')}, best first")
        yield candidates_table(decision, candidates, show_all=show_all)
        yield indented(text(ranking_note(decision), "dim"))
    budgets = [(node.name, one) for node in chosen for one in node.budgets]
    if budgets:
        yield from section_heading("disruption budgets")
        yield budgets_table(budgets)
    if decision.rejected:
        yield from section_heading("rejected by the guard; this is a bug in the extender, see its log")
        for name, rule in decision.rejected.items():
            yield indented(text(f"{name}: {rule}", "red"))


def ranking_note(decision: DecisionReport) -> str:
    """Explain the mark in the table of candidates, or what broke a tie."""
    ranking = decision.ranking
    if ranking is None or ranking.decided_by is None:
        return "only one candidate, nothing to compare"
    if ranking.decided_by == "name":
        return f"{join_names(ranking.ties, 3)} tie on every criterion: the first by name is chosen"
    if ranking.decided_by == "named":
        return (
            f"{join_names(ranking.ties, 3)} tie on every criterion: "
            "the one whose victims differ least from kube-scheduler's choice is chosen"
        )
    return f"{DECIDING_MARK} first criterion on which a node is worse than the best; {ranking.decided_by} decided"


def _render_victims(node: NodeReport, subject: str) -> Iterator[RenderableType]:
    """List the victims of a node; `subject`, the pod named on the command line, is in bold."""
    yield from section_heading(f"victims on {node.name}")
    victims = {one.key: one for one in node.pods if one.role == "victim"}
    if not victims:
        for key in node.victims:
            yield indented(text(key))
        return
    rows: list[Sequence[object]] = []
    for key in node.victims:
        one = victims.get(key)
        if one is None:
            rows.append((key, "", "", "", ""))
            continue
        is_subject = subject in (one.key, one.uid, one.key.rpartition("/")[2])
        budgets = ", ".join(one.budgets) + (" (violated)" if one.violating else "")
        started, requests = tables.format_timestamp(one.started or "not started"), tables.format_amounts(one.requests)
        rows.append((text(one.key, "bold red" if is_subject else ""), one.priority, started, requests, budgets))
    yield AdaptiveTable(("POD", "PRIORITY", "STARTED", "REQUESTS", "BUDGETS"), rows)
    yield indented(text(_victims_note(node), "dim"))


def _victims_note(node: NodeReport) -> str:
    if node.chosen_by:
        return VICTIM_SELECTION_NOTES.get(node.chosen_by, node.chosen_by)
    reprieved = node.counts.get("reprieved", 0)
    if not reprieved:
        return "all potential victims are evicted: none could be reprieved"
    others = pluralize(reprieved, "other potential victim was reprieved", "other potential victims were reprieved")
    return f"{others}; --node {printable(node.name)} shows the reprieve order"


# --- candidates -------------------------------------------------------------------------------------------------------


def candidates_table(
    decision: DecisionReport, nodes: Sequence[NodeReport], *, show_all: bool = False
) -> RenderableType:
    """Return a row per candidate with its value for every criterion of the ranking."""
    criteria = decision.ranking.criteria if decision.ranking else []
    most = len(max((node.victims for node in nodes), key=len, default=[])) if show_all else 2
    rows = []
    for node in nodes:
        name = text(node.name, "bold" if node.outcome == "chosen" else "")
        outcome = text(node.outcome + ("" if node.sent else ", not sent"), NODE_OUTCOMES[node.outcome].style)
        values = _criterion_cells(decision, criteria, node)
        rows.append((node.rank, name, outcome, *values, join_names(node.victims, most)))
    headers = ("#", "NODE", "OUTCOME", *criteria, "VICTIMS")
    return AdaptiveTable(headers, rows, lead=3, limit=None if show_all else MAX_TABLE_ROWS)


def _criterion_cells(decision: DecisionReport, criteria: Sequence[str], node: NodeReport) -> Iterator[Text]:
    """Yield the value for every criterion; DECIDING_MARK follows the value on which the node loses."""
    decided_by = decision.ranking.decided_by if decision.ranking else None
    for name, shown in zip(criteria, node.shown, strict=False):
        loses = name == node.loses_by
        style = "bold red" if loses else "bold" if name == decided_by else ""
        yield text(shown + (f" {DECIDING_MARK}" if loses else ""), style)


# --- scores -----------------------------------------------------------------------------------------------------------


def _render_scores(decision: DecisionReport, show_all: bool) -> Iterator[RenderableType]:
    nodes = sorted(decision.nodes, key=lambda node: -(node.score or 0))
    if not nodes:
        return
    yield from section_heading("scores, highest first")
    yield scores_table(decision, nodes, show_all=show_all)


def scores_table(decision: DecisionReport, nodes: Sequence[NodeReport], *, show_all: bool = False) -> RenderableType:
    """Return a row per node: score, total, and the weighted score of every plugin."""
    plugins = list(dict.fromkeys(name for node in decision.nodes for name in node.plugins))
    total = f"TOTAL (of {decision.highest})" if decision.highest else "TOTAL"
    rows = []
    for node in nodes:
        own = ["" if node.total is None else node.total, *(node.plugins.get(name, "") for name in plugins)]
        rows.append((node.name, node.score, *(own if plugins else ())))
    headers = ("NODE", "SCORE (of 10)", *((total, *plugins) if plugins else ()))
    return AdaptiveTable(headers, rows, limit=None if show_all else MAX_TABLE_ROWS)


# --- nodes in groups --------------------------------------------------------------------------------------------------


def render_other_nodes(decision: DecisionReport, show_all: bool) -> Iterator[RenderableType]:
    """Group the nodes that are not candidates by outcome and reason, largest group first."""
    groups: dict[tuple[schema.NodeOutcome, str], list[NodeReport]] = {}
    for node in decision.nodes:
        if node.rank is None and node.outcome != "scored":
            groups.setdefault((node.outcome, _group_reason(node)), []).append(node)
    if not groups:
        return
    yield from section_heading("nodes" if decision.verb == "filter" else "other nodes")
    rows = []
    for (outcome, why), nodes in sorted(groups.items(), key=lambda one: -len(one[1])):
        names = join_names([one.name for one in nodes], len(nodes) if show_all else MAX_NAMES_PER_CELL)
        label = text(NODE_OUTCOMES[outcome].label, NODE_OUTCOMES[outcome].style)
        known = [one for one in nodes if one.facts]
        facts = in_brackets(summarize(known), len(nodes), why, len(known))  # as in the sentence of the decision
        rows.append((len(nodes), label, why + facts, names))
    yield AdaptiveTable(("NODES", "OUTCOME", "REASON", "NAMES"), rows, lead=2)


def _group_reason(node: NodeReport) -> str:
    """Return the reason without details of the individual node, so that nodes with the same reason share a group."""
    if node.outcome == "insufficientAfterPreemption" and node.emptied is not None:
        return status_message(node.emptied)
    if node.outcome == "noVictims":
        protected = node.counts.get("protected", 0)
        return "pods of lower priority are protected" if protected else "no pods of lower priority"
    if node.outcome in ("fits", "accepted"):
        return ""
    if node.outcome in ("failed", "unresolvable", "notEvaluated") and node.filter is not None and node.filter.reasons:
        return status_message(node.filter)
    return node.why


def status_message(status: schema.StatusReport) -> str:
    """Return plugin and reasons, such as `NodeResourcesFit: Insufficient cpu`."""
    reasons = ", ".join(status.reasons)
    return f"{status.plugin}: {reasons}" if status.plugin else reasons


# --- suggested commands -----------------------------------------------------------------------------------------------


def other_decisions_hint(subject: str, count: int, invocation: Invocation) -> Text:
    """Count the other decisions about the pod, with the command that lists them."""
    mentions = pluralize(count, "other decision mentions this pod", "other decisions mention this pod")
    return command_hint(f"{invocation.command} {subject} --list", mentions)


def command_hint(command: str, purpose: str) -> Text:
    return Text.assemble((f"{purpose}: ", "dim"), (printable(command), "cyan"))


def budgets_table(budgets: Iterable[tuple[str, schema.BudgetReport]]) -> RenderableType:
    """Return a row per (node, budget): disruptions allowed before, used by the victims, and left."""
    rows = []
    for node, one in budgets:
        left = text(f"{one.after} (violated)", "bold red") if one.used > max(one.allowed, 0) else one.after
        rows.append((one.name, node, one.allowed, one.used, left))
    return AdaptiveTable(("BUDGET", "NODE", "ALLOWED", "USED", "LEFT"), rows)
