"""A decision as people read it: a sentence, the facts, the candidates, and what became of all other nodes.

Rule: see `parts`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from extender.cli.tables import (
    Rows,
    amount,
    amounts,
    and_more,
    clock,
    indented,
    named,
    new_table,
    section,
    several,
    text,
)
from extender.core.explain.schema import Amounts, BudgetShown, Decision, NodeShown, Summary, VerdictShown
from extender.errors import printable


@dataclass(frozen=True)
class Way:
    """How decisions are asked for."""

    command: str = "extender explain"
    """With the options that say where."""
    is_replay: bool = False
    """Were they made again for this, from a recording?"""


MOST_ROWS = 20
"""Of a table, unless all are wanted."""
MOST_NAMES = 5
"""Of nodes or victims in a row, likewise."""

_BRIEF = 100
"""On narrower consoles the list leaves out what the id and the sentence say too."""

LOSES = "*"
"""Marks what decided."""

STYLES = {
    "chosen": "bold green", "accepted": "green", "scored": "green", "fits": "green",
    "beaten": "yellow", "failed": "yellow",
    "ruledOut": "red", "noRoom": "red", "noVictims": "red", "unresolvable": "red",
    "rejected": "bold red", "vetoed": "red",
}  # fmt: skip

IN_WORDS = {
    "accepted": "fits",
    "failed": "does not fit; evicting pods would help",
    "unresolvable": "does not fit; no eviction that is allowed would help",
    "unscored": "not scored by plugins",
    "ruledOut": "ruled out",
    "noRoom": "no room, even with all evictable pods gone",
    "noVictims": "nobody there may be evicted",
    "fits": "fits without an eviction",
    "leftOut": "left out",
    "rejected": "rejected by the last check",
    "vetoed": "may evict nobody now",
}
"""Outcome -> what a table says, where that is not the word itself."""

FOUND_BY = {
    "other order": "found by charging budgets for the least important pods first: otherwise one would break",
    "whole gangs": "found by putting members of broken pod groups back last",
    "fewest": "found by a search for the best set of victims",
    "named of equals": "of equal pods those that kube-scheduler had chosen",
    "kube-scheduler": "kube-scheduler's own: a plugin that is not evaluated here has a say on this node",
}
"""How victims were found, where it was not by putting pods back."""

MODES = {
    "observed": "observed only: kube-scheduler was answered as if nothing had been decided",
    "handsOff": "hands off: the kill switch was on",
    "failed": "failed: no decision could be made",
    "vetoed": "answered: the pod may evict nobody now",
    "nobody": "answered: nobody is evicted",
}


# --- the list ---------------------------------------------------------------------------------------------------------


def listed(found: Sequence[Summary], way: Way, width: int, limit: int) -> Iterator[RenderableType]:
    """A line for each decision."""
    if not found:
        yield Text("No decision is kept: has kube-scheduler called the service since it started?")
        return
    is_brief = width < _BRIEF
    headers = ("ID", "TIME", *(() if is_brief else ("VERB", "POD")), "WHAT")
    table = new_table(headers)
    for one in found:
        what = text(one.sentence, "dim" if one.outcome in ("handsOff", "observed") else "")
        cells = () if is_brief else (text(one.verb), text(one.pod))
        table.add_row(text(one.id, "bold"), text(clock(one.time)), *cells, what)
    yield table
    if len(found) == limit:
        yield Text(f"The latest {limit}: more with --limit.", style="dim")
    yield hint(f"{way.command} {found[0].id}", "all of one")


# --- one decision -----------------------------------------------------------------------------------------------------


def told(decision: Decision, subject: str, way: Way, *, show_all: bool = False) -> Iterator[RenderableType]:
    """All of it; of the first chosen node the pods, if they are there."""
    yield text(f"{decision.id} {decision.sentence}", "bold")
    yield Text()
    yield facts(decision, way)
    if decision.verb == "preempt":
        yield from _preemption(decision, subject, show_all)
    elif decision.verb == "prioritize":
        yield from _scores(decision, show_all)
    yield from grouped(decision, show_all)
    if decision.not_evaluated:
        yield from section("left to kube-scheduler")
        names = ", ".join(decision.not_evaluated)
        yield indented(text(f"{names}: not evaluated here, so kube-scheduler may decide otherwise"))
    yield from _ask_next(decision, way)


def facts(decision: Decision, way: Way) -> RenderableType:
    """When, for whom, on what and by which rules."""
    incoming, took = decision.incoming, f"{decision.milliseconds:.1f}"
    rows = {
        "pod": f"{incoming.key}, priority {incoming.priority}{_wants(incoming.requests)}",
        "when": f"{clock(decision.time)} UTC, {'made again' if way.is_replay else 'made'} in {took} ms",
        "picture": decision.picture,
        "policies": "; ".join(decision.policies) or "kube-scheduler's own",
        "mode": MODES.get(decision.outcome, decision.outcome),
        "error": decision.error or "",
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        if value:
            grid.add_row(Text(name, style="dim"), text(value))
    return indented(grid)


def _wants(requests: Amounts) -> str:
    named = [f"{amount(name, value)} {name}" for name, value in requests.items() if value]
    return f", requests {', '.join(named)}" if named else ""


def _preemption(decision: Decision, subject: str, show_all: bool) -> Iterator[RenderableType]:
    chosen = [node for node in decision.nodes if node.outcome == "chosen"]
    for node in chosen:
        yield from _evicted(node, subject)
    candidates = [node for node in decision.nodes if node.rank is not None]
    ranking = decision.ranking
    if candidates and ranking is not None:
        yield from section(f"{several(ranking.candidates, 'candidate')}, best first")
        shown = candidates if show_all else candidates[:MOST_ROWS]
        yield candidates_table(decision, shown, show_all=show_all)
        if len(shown) < len(candidates):
            yield and_more(len(candidates) - len(shown))
        yield indented(text(decided(decision), "dim"))
    budgets = [(node.name, one) for node in chosen for one in node.budgets]
    if budgets:
        yield from section("disruption budgets")
        yield of_budgets(budgets)
    if decision.rejected:
        yield from section("rejected by the last check, which is a mistake of the extender: see its log")
        for name, rule in decision.rejected.items():
            yield indented(text(f"{name}: {rule}", "red"))


def decided(decision: Decision) -> str:
    """What marks in the table of candidates mean."""
    ranking = decision.ranking
    if ranking is None or ranking.decided_by is None:
        return "nothing to compare: it is the only candidate"
    if ranking.decided_by == "name":
        return f"{named(ranking.ties, 3)} are equal by every criterion: the first by name is taken"
    if ranking.decided_by == "named":
        return (
            f"{named(ranking.ties, 3)} are equal by every criterion: "
            "the one is taken whose victims differ least from those that kube-scheduler chose"
        )
    return f"{LOSES} the first criterion by which a node is worse; {ranking.decided_by} left the best one alone"


def _evicted(node: NodeShown, subject: str) -> Iterator[RenderableType]:
    """Who has to go; whoever is asked about stands out."""
    yield from section(f"evicted from {node.name}")
    victims = {one.key: one for one in node.pods if one.role == "victim"}
    if not victims:
        for key in node.victims:
            yield indented(text(key))
        return
    rows = []
    for key in node.victims:
        one = victims.get(key)
        if one is None:
            rows.append((text(key), *[Text()] * 4))
            continue
        is_asked = subject in (one.key, one.uid, one.key.rpartition("/")[2])
        charges = ", ".join(one.budgets) + (" (breaks)" if one.violating else "")
        others = (one.priority, clock(one.started or "not started"), amounts(one.requests), charges)
        rows.append((text(one.key, "bold red" if is_asked else ""), *map(text, others)))
    yield Rows(("POD", "PRIORITY", "STARTED", "REQUESTS", "BUDGETS"), rows)
    yield indented(text(_why_they_went(node), "dim"))


def _why_they_went(node: NodeShown) -> str:
    if node.chosen_by:
        return FOUND_BY.get(node.chosen_by, node.chosen_by)
    stayed = node.counts.get("reprieved", 0)
    if not stayed:
        return "all pods that may be evicted have to go"
    others = several(stayed, "other pod that may be evicted stays", "other pods that may be evicted stay")
    return f"{others}; --node {printable(node.name)} shows in which order they were put back"


# --- candidates -------------------------------------------------------------------------------------------------------


def candidates_table(decision: Decision, nodes: Sequence[NodeShown], *, show_all: bool = False) -> RenderableType:
    """The ranking: what is compared, and what decided."""
    criteria = decision.ranking.criteria if decision.ranking else []
    most = len(max((node.victims for node in nodes), key=len, default=[])) if show_all else 2
    rows = []
    for node in nodes:
        name = text(node.name, "bold" if node.outcome == "chosen" else "")
        outcome = text(node.outcome + ("" if node.offered else ", not offered"), STYLES.get(node.outcome, ""))
        victims = text(named(node.victims, most))
        rows.append((text(node.rank), name, outcome, *_values(decision, criteria, node), victims))
    return Rows(("#", "NODE", "OUTCOME", *criteria, "VICTIMS"), rows, lead=3)


def _values(decision: Decision, criteria: Sequence[str], node: NodeShown) -> Iterator[Text]:
    """By every criterion; the one by which it loses is marked."""
    decided_by = decision.ranking.decided_by if decision.ranking else None
    for name, shown in zip(criteria, node.shown, strict=False):
        loses = name == node.loses_by
        style = "bold red" if loses else "bold" if name == decided_by else ""
        yield text(shown + (f" {LOSES}" if loses else ""), style)


# --- scores -----------------------------------------------------------------------------------------------------------


def _scores(decision: Decision, show_all: bool) -> Iterator[RenderableType]:
    nodes = sorted(decision.nodes, key=lambda node: -(node.score or 0))
    if not nodes:
        return
    yield from section("scores, best first")
    shown = nodes if show_all else nodes[:MOST_ROWS]
    yield of_scores(decision, shown)
    if len(shown) < len(nodes):
        yield and_more(len(nodes) - len(shown))


def of_scores(decision: Decision, nodes: Sequence[NodeShown]) -> RenderableType:
    """A row for each node: what every plugin gives it, weighted."""
    plugins = list(dict.fromkeys(name for node in decision.nodes for name in node.plugins))
    total = f"TOTAL (of {decision.highest})" if decision.highest else "TOTAL"
    rows = []
    for node in nodes:
        own = ["" if node.total is None else node.total, *(node.plugins.get(name, "") for name in plugins)]
        rows.append(tuple(map(text, (node.name, node.score, *(own if plugins else ())))))
    return Rows(("NODE", "SCORE (of 10)", *((total, *plugins) if plugins else ())), rows)


# --- nodes in groups --------------------------------------------------------------------------------------------------


def grouped(decision: Decision, show_all: bool) -> Iterator[RenderableType]:
    """The nodes that are no candidates, by what became of them and why."""
    groups: dict[tuple[str, str], list[str]] = {}
    for node in decision.nodes:
        if node.rank is None and node.outcome != "scored":
            groups.setdefault((node.outcome, _reason(node)), []).append(node.name)
    if not groups:
        return
    title = "nodes" if decision.verb == "filter" else "other nodes"
    yield from section(title)
    rows = []
    for (outcome, why), names in sorted(groups.items(), key=lambda one: -len(one[1])):
        said = IN_WORDS.get(outcome, outcome)
        which = named(names, len(names) if show_all else MOST_NAMES)
        rows.append((text(len(names)), text(said, STYLES.get(outcome, "")), text(why), text(which)))
    yield Rows(("NODES", "OUTCOME", "WHY", "NAMES"), rows, lead=2)


def _reason(node: NodeShown) -> str:
    """Why, in words that many nodes share."""
    if node.outcome == "noRoom" and node.emptied is not None:
        return said_by(node.emptied)
    if node.outcome == "noVictims":
        protected = node.counts.get("protected", 0)
        return "pods of lower priority are protected" if protected else "no pod there is of lower priority"
    if node.outcome in ("fits", "accepted"):
        return ""
    if node.outcome in ("failed", "unresolvable", "leftOut") and node.filter is not None and node.filter.reasons:
        return said_by(node.filter)
    return node.why


def said_by(verdict: VerdictShown) -> str:
    """`NodeResourcesFit: Insufficient cpu`."""
    reasons = ", ".join(verdict.reasons)
    return f"{verdict.plugin}: {reasons}" if verdict.plugin else reasons


# --- what to ask next -------------------------------------------------------------------------------------------------


def _ask_next(decision: Decision, way: Way) -> Iterator[RenderableType]:
    others = [node.name for node in decision.nodes if node.outcome not in ("chosen", "accepted", "vetoed")]
    if others:
        yield Text()
        yield hint(f"{way.command} {decision.id} --node {others[0]}", "why not that node")


def of_others(subject: str, count: int, way: Way) -> Iterator[RenderableType]:
    """How many more decisions there are about the pod."""
    speak = several(count, "other decision speaks of it", "other decisions speak of it")
    yield hint(f"{way.command} {subject} --list", speak)


def hint(command: str, why: str) -> Text:
    return Text.assemble((f"{why}: ", "dim"), (printable(command), "cyan"))


def of_budgets(charged: Iterable[tuple[str, BudgetShown]]) -> RenderableType:
    """(node, budget) in rows: before and after."""
    rows = []
    for node, one in charged:
        left = text(f"{one.after} (broken)", "bold red") if one.charged > max(one.allowed, 0) else text(one.after)
        rows.append((text(one.name), text(node), text(one.allowed), text(one.charged), left))
    return Rows(("BUDGET", "NODE", "ALLOWED", "CHARGED", "LEFT"), rows)
