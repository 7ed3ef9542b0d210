"""Compare the candidates of a preemption, and name the deciding criterion.

Rule: only ranking keys of the decision are compared; no keys are computed here.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from extender.core.chance import chance_on_node
from extender.core.preemption.ranking import RankingKeys
from extender.core.record import EVICTABLE, VICTIM, DryRunRecord, PreemptRecord, RecordedRequest
from extender.core.snapshot.arrays import NEVER
from extender.k8s.priority import PRIORITY_OFFSET
from extender.k8s.time import SECOND, format_time
from extender.k8s.workloads import QOS_CLASSES
from extender.report.schema import Chance, RankingReport
from extender.utilities.text import pluralize


def report_ranking(record: PreemptRecord) -> RankingReport | None:
    """Return the criterion that decided between the best two candidates, and the ties; None without a dry run."""
    dry_run, criteria = record.dry_run, list(record.request.context.profile.preemption.ranking)
    if dry_run is None:
        return None
    ranked, keys = dry_run.ranked.candidates, dry_run.ranked.keys
    ties = ranked[RankingKeys({name: keys.by_criterion[name] for name in criteria}).ranks == 0].tolist()
    return RankingReport(
        criteria=criteria,
        candidates=len(ranked),
        # The runner-up, at index 1, equals the best candidate in at least as many leading criteria as any other one.
        decided_by=keys.decided_by(0, 1) if len(ranked) > 1 else None,
        ties=[dry_run.name(node) for node in ties],
        chance=sorted({why for node in ranked.tolist() for why in recorded_chance(record.request, dry_run, node)}),
    )


def recorded_chance(request: RecordedRequest, dry_run: DryRunRecord, node: int) -> list[Chance]:
    """Return the reasons, from the record, why kube-scheduler may choose other victims on the node."""
    context, on = request.context, dry_run.pods_on_node[node]
    evictable = np.flatnonzero(flags_of_node(dry_run, node) & EVICTABLE).tolist()
    pods, budgets = [on.pods[k] for k in evictable], [on.budgets[k] for k in evictable]
    return chance_on_node(pods, budgets, dry_run.allowed, context.profile.preemption, context.features)


def keys_at(request: RecordedRequest, dry_run: DryRunRecord, place: int) -> list[list[int]]:
    """Return, per criterion of the ranking, the keys of the candidate at index `place`."""
    by_criterion = dry_run.ranked.keys.by_criterion
    return [[int(key[place]) for key in by_criterion[name]] for name in request.context.profile.preemption.ranking]


def render_keys(request: RecordedRequest, dry_run: DryRunRecord, place: int) -> list[str]:
    """Return, per criterion, the keys of the candidate at index `place` as readable text."""
    node, criteria = int(dry_run.ranked.candidates[place]), request.context.profile.preemption.ranking
    victims, keys = int(np.count_nonzero(flags_of_node(dry_run, node) & VICTIM)), keys_at(request, dry_run, place)
    return [_render_key(name, own, victims) for name, own in zip(criteria, keys, strict=True)]


def explain_priority_sum(request: RecordedRequest, dry_run: DryRunRecord) -> str | None:
    """Explain why PrioritySum prefers the best candidate to the runner-up; None if the sums of priorities suffice.

    Every victim adds 2^31, so the number of victims decides if it differs.
    """
    place = list(request.context.profile.preemption.ranking).index("PrioritySum")
    counts = [
        int(np.count_nonzero(flags_of_node(dry_run, int(dry_run.ranked.candidates[one])) & VICTIM)) for one in (0, 1)
    ]
    own, other = (keys_at(request, dry_run, one)[place][0] - counts[one] * PRIORITY_OFFSET for one in (0, 1))
    if counts[0] == counts[1]:
        return None
    numbers, sums = f"{counts[0]} against {counts[1]}", f"the sum of priorities, {own} against {other}"
    if counts[0] < counts[1]:
        return f"fewer victims, {numbers}, which comes before {sums}"
    return f"victims of lower priority, {numbers}, by {sums}"


def flags_of_node(dry_run: DryRunRecord, node: int) -> npt.NDArray[np.uint8]:
    """Return [pod]: flag bits of each pod of one node (EVICTABLE, VIOLATING, …)."""
    return dry_run.flags[: len(dry_run.pods_on_node[node].pods), node]


def _render_key(name: str, keys: Sequence[int], victims: int) -> str:
    if name == "PrioritySum":  # upstream adds a constant for every victim, so that more victims are always worse
        return f"{keys[0] - victims * PRIORITY_OFFSET} ({pluralize(victims, 'victim')})"
    if name == "LatestStartTime":
        # Smaller keys are better, so start times are negated; fractions are shown only if there are any.
        digits = len(f"{-keys[0] % SECOND:09d}".rstrip("0"))
        return "not started" if -keys[0] == NEVER else format_time(-keys[0], digits)
    if name == "QoSClass":
        return QOS_CLASSES[keys[0]]
    if name == "GracePeriod":
        return f"{keys[0]}s"
    if name == "PodGroups":
        return f"{keys[0]}, and {pluralize(keys[1], 'other pod')}"
    if name == "UnusedCapacity":
        # The key counts millionths of the capacity.
        return f"{keys[0] / 10_000:.1f} %"
    return str(keys[0])
