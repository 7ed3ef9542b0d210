"""Render the list of pending pods, and what has changed in it.

Rule: names and messages are printed through `tables.text`, so that no input can control the terminal.
"""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from extender.cli.output.tables import AdaptiveTable, facts_grid, format_timestamp, section_heading, text
from extender.k8s.time import format_time, human_duration, parse_time
from extender.report.facts.wording import brief_fact
from extender.report.pod_schema import PendingPodReport, PendingReport
from extender.report.wording import PREEMPTION_HELP, VERDICT_STYLES, describe_source
from extender.utilities.text import join_names, pluralize

MAX_VICTIMS = 2
"""Number of victims that a row names, unless it is wide."""


def render(found: PendingReport, now: int, *, is_wide: bool = False) -> Iterator[RenderableType]:
    """Render the sentence, the cluster, the causes and every pod; `now`: the time in nanoseconds, for ages."""
    yield text(found.why, "bold")
    yield Text()
    size = f"{pluralize(found.cluster.nodes, 'node')}, {pluralize(found.cluster.pods, 'pod')}"
    rows = [("cluster", f"{describe_source(found.source)}: {size}")]
    rows.append(("scheduler", f"kube-scheduler {found.release}, {found.version_source}"))
    rows.append(("version", found.source.version_hint))
    yield facts_grid([*rows, *(("note", note) for note in found.notes)])
    if not found.pods:
        return
    # The ages of a file would be those of today: times are shown instead.
    is_live = found.source.kind == "live"
    since = "AGE" if is_live else "SINCE"
    yield from section_heading("causes")
    causes = [(one.pods, _since(one.oldest, now, is_live=is_live), one.cause) for one in found.causes]
    yield AdaptiveTable(("PODS", "OLDEST", "CAUSE"), causes, lead=3)
    yield from section_heading("pending pods")
    pods = []
    for one in found.pods:
        namespace, _, name = one.pod.partition("/")
        cells = (namespace, text(name, VERDICT_STYLES[one.verdict]), _since(one.since, now, is_live=is_live))
        pods.append((*cells, _cause(one, found), _preemption(one, is_wide=is_wide), one.blocked_by))
    yield AdaptiveTable(("NAMESPACE", "NAME", since, "CAUSE", "PREEMPTION", "BLOCKED BY"), pods, lead=3)
    yield Text()
    yield Text("extender why NAMESPACE/NAME explains one pod", style="dim")


def changes(before: PendingReport, found: PendingReport, now: int) -> Iterator[Text]:
    """Yield a line for each pod that is new, gone, or has another cause; without one, the sentence if it differs."""
    at = format_time(now).partition("T")[2]
    lines = [*_pod_changes(before, found, at)]
    if not lines and before.why != found.why:  # such as that of a namespace that now exists, without pods
        lines = [text(f"{at}  {found.why}")]
    yield from lines


def _pod_changes(before: PendingReport, found: PendingReport, at: str) -> Iterator[Text]:
    old, new = ({one.uid: one for one in report.pods} for report in (before, found))
    for uid in [*old, *(uid for uid in new if uid not in old)]:
        was, is_now = old.get(uid), new.get(uid)
        if is_now is None:
            assert was is not None
            yield text(f"{at}  {was.pod}  not pending any more", "green")
        elif was is None:
            yield text(f"{at}  {is_now.pod}  new: {_cause(is_now, found)}", "yellow")
        elif was.cause != is_now.cause:
            yield text(f"{at}  {is_now.pod}  {_cause(is_now, found)}; before: {_cause(was, before)}")


def _cause(one: PendingPodReport, found: PendingReport) -> str:
    # A fact that differs from node to node, such as what is free, would be that of one of them.
    fact = next((f" ({brief_fact(fact)})" for fact in one.cause_facts if not fact.cause), "")
    return f"{one.cause_nodes} of {found.cluster.nodes} {one.cause}{fact}" if one.cause_nodes else one.cause


def _since(time: str | None, now: int, *, is_live: bool) -> str:
    if time is None:
        return "unknown"
    if not is_live:
        return format_timestamp(time)
    try:
        return human_duration(now - parse_time(time))
    except ValueError:
        return time


def _preemption(one: PendingPodReport, *, is_wide: bool) -> Text:
    words = PREEMPTION_HELP[one.preemption]
    if one.preemption != "MakesRoom":
        return text(words.label, words.style)
    victims = join_names(one.victims, len(one.victims) if is_wide else MAX_VICTIMS)
    return text(f"{words.label}: {victims} on {one.node}", words.style)
