"""Evaluate one pod on every node of a cluster: filter, score and preemption dry run, in the parity corpora's format.

Rule: nothing is decided here; it runs the same filters, scores and dry run that the service answers with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.filter import FilterRun, filters_not_evaluated, run_filter_plugins, scheduling_context
from extender.core.framework.score import Scores, score
from extender.core.framework.status import Code, Status
from extender.core.preemption.candidates import find_candidates
from extender.core.preemption.chance import chance_of
from extender.core.preemption.criteria import best_candidates, ranking_keys
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import pod_eligible_to_preempt_others, run_pre_enqueue_plugins
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Filter statuses, scores and preemption candidates of every node for one pod."""

    context: SchedulingContext
    filter_run: FilterRun
    scores: Scores
    pre_enqueue: Status | None
    """Status of the PreEnqueue plugin that keeps the pod out of the queue; the rest is evaluated all the same."""
    eligible: tuple[bool, str]
    """(whether the pod may preempt others, reason if it may not), as PodEligibleToPreemptOthers returns them."""
    dry_run: DryRun
    """Dry run over the nodes with status Unschedulable, computed also for a pod that is not eligible to preempt."""

    @property
    def selected(self) -> str | None:
        """The node that preemption would choose; the first by name where several cost the same; None: no candidate."""
        best = best_candidates(self.dry_run, 1).tolist()
        return self.context.snapshot.node_names[int(self.dry_run.rows[best[0]])] if best else None

    @property
    def selected_ties(self) -> list[str]:
        """Names of the candidates that cost the same as the best, sorted: kube-scheduler may choose any of them."""
        places = np.flatnonzero(self.dry_run.candidate)
        if not len(places):
            return []
        ties = self.dry_run.rows[places[ranking_keys(self.dry_run, places).ranks == 0]]
        return sorted(self.context.snapshot.node_names[row] for row in ties)

    def to_dict(self) -> dict[str, Any]:
        """Render as plain values.

        Keys: `filter`, `feasible`, `scores`, `eligible`, `candidates`, `nonCandidates`, `selected`, `selectedTies`.
        `preEnqueue` where a plugin keeps the pod out of the queue, `prefilter` where PreFilter rejects it,
        `prefilterNodes` where a PreFilterResult restricts it to some nodes, `notEvaluated` (plugin -> nodes) where a
        plugin that is not modelled decides; `cycleError`, `scoreError` and `dryRunError` where a plugin fails, which
        ends the scheduling cycle; `chance` (candidate -> reasons, see `core.preemption.chance`) where kube-scheduler
        may choose other victims.
        """
        run, names = self.filter_run, self.context.snapshot.node_names
        optional = {
            "preEnqueue": _plain(self.pre_enqueue) if self.pre_enqueue else None,
            "notEvaluated": self._not_evaluated() or None,
            "prefilter": _plain(run.prefilter_status) if run.prefilter_status else None,
            "prefilterNodes": None if run.prefilter_node_names is None else sorted(run.prefilter_node_names),
            "cycleError": run.error(),
            "scoreError": self.scores.error,
            "dryRunError": self.dry_run.emptied.error(),
            "chance": {names[self.dry_run.rows[place]]: why for place, why in chance_of(self.dry_run).items()} or None,
        }
        statuses = {name: _plain(run.status(row)) for row, name in enumerate(names)}
        return {key: value for key, value in optional.items() if value is not None} | {
            "filter": statuses if run.prefilter_status is None else {},
            "feasible": len(self.scores.rows),
            "scores": self._scores(),
            "eligible": list(self.eligible),
            **self._preemption(),
            "selected": self.selected,
            "selectedTies": self.selected_ties,
        }

    def _not_evaluated(self) -> dict[str, list[str]]:
        names = self.context.snapshot.node_names
        nodes = {plugin: np.flatnonzero(mask) for plugin, mask in filters_not_evaluated(self.context).items()}
        profile = self.context.profile
        others = dict.fromkeys((*profile.not_evaluated_scores, *profile.not_evaluated_post_filters), sorted(names))
        return others | {plugin: sorted(names[row] for row in rows) for plugin, rows in nodes.items() if len(rows)}

    def _scores(self) -> dict[str, Any]:
        if self.scores.error is not None or not self.context.profile.score_weights:
            return {}
        names, totals = self.context.snapshot.node_names, self.scores.total
        return {
            names[row]: {
                "plugins": {plugin: int(values[place]) for plugin, values in self.scores.plugins.items()},
                "total": int(totals[place]),
            }
            for place, row in enumerate(self.scores.rows)
        }

    def _preemption(self) -> dict[str, Any]:
        names, run = self.context.snapshot.node_names, self.dry_run
        candidate, violations = run.candidate, run.violations
        candidates: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for place, row in enumerate(run.rows):
            if candidate[place]:
                victims = [pod.metadata.uid for pod in run.victims_on(place)]
                candidates[names[row]] = {"victims": victims, "numPDBViolations": int(violations[place])}
            else:
                others[names[row]] = _plain(run.statuses(np.array([place]))[0])
        return {"candidates": candidates, "nonCandidates": others}


def _plain(status: Status) -> dict[str, Any]:
    return {"code": status.code.text, "plugin": status.plugin, "reasons": sorted(status.reasons)}


def evaluate(snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory = NO_HISTORY) -> Evaluation:
    """Run the filters, the scores and the preemption dry run on every node of the snapshot."""
    context = scheduling_context(snapshot, pod, profile, history)
    filter_run = run_filter_plugins(context)
    scores = score(context, filter_run.rows(Code.SUCCESS))
    run = find_candidates(context, filter_run.checks, filter_run.rows(Code.UNSCHEDULABLE))
    eligible = pod_eligible_to_preempt_others(filter_run)
    return Evaluation(context, filter_run, scores, run_pre_enqueue_plugins(snapshot, pod, profile), eligible, run)
