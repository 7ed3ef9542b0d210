"""Everything the engine says about one pod on one cluster, in the shape of the parity corpora.

Rule: no decisions here; it runs the same filters, scores and dry run that the service answers with, over all nodes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import SchedulingContext
from extender.core.framework.filter import FilterRun, not_evaluated, run_filter_plugins, scheduling_context
from extender.core.framework.score import Scores, score
from extender.core.framework.status import Code, Status
from extender.core.preemption.candidates import find_candidates
from extender.core.preemption.criteria import best_of, ranking_keys
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.eligibility import eligible
from extender.core.preemption.ranking import tied_for_best
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Filter verdicts, scores and preemption candidates of every node."""

    incoming: SchedulingContext
    filtering: FilterRun
    scores: Scores
    eligible: tuple[bool, str]
    dry_run: DryRun
    """Over the nodes whose verdict is Unschedulable, whether the pod is eligible or not."""

    @property
    def selected(self) -> str | None:
        """The node that preemption would pick: the best, ties by name."""
        places = np.flatnonzero(self.dry_run.candidate)
        if not len(places):
            return None
        names = self.incoming.snapshot.name_order[self.dry_run.rows[places]]
        (best,) = best_of(self.dry_run, places, 1, then=(names,))
        return self.incoming.snapshot.node_names[int(self.dry_run.rows[best])]

    @property
    def selected_ties(self) -> list[str]:
        """Every node that kube-scheduler might pick, sorted."""
        places = np.flatnonzero(self.dry_run.candidate)
        ties = self.dry_run.rows[places[tied_for_best(ranking_keys(self.dry_run, places))]]
        return sorted(self.incoming.snapshot.node_names[row] for row in ties)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; keys `filter`, `feasible`, `scores`, `eligible`, `candidates`, `nonCandidates`, `selected`,
        `selectedTies`; `prefilter` or `prefilterNodes` where the pod is rejected or bound to some nodes;
        `notEvaluated` (plugin -> nodes) where a plugin that is not modelled has a say."""
        result: dict[str, Any] = {}
        if left := self._not_evaluated():
            result["notEvaluated"] = left
        if self.filtering.prefilter is not None:
            result["prefilter"] = _plain(self.filtering.prefilter)
        if self.filtering.named is not None:
            result["prefilterNodes"] = sorted(self.filtering.named)
        return result | {
            "filter": self._filter(),
            "feasible": len(self.scores.rows),
            "scores": self._scores(),
            "eligible": list(self.eligible),
            **self._preemption(),
            "selected": self.selected,
            "selectedTies": self.selected_ties,
        }

    def _not_evaluated(self) -> dict[str, list[str]]:
        names = self.incoming.snapshot.node_names
        nodes = {plugin: np.flatnonzero(mask) for plugin, mask in not_evaluated(self.incoming).items()}
        return {plugin: sorted(names[row] for row in rows) for plugin, rows in nodes.items() if len(rows)}

    def _filter(self) -> dict[str, Any]:
        if self.filtering.prefilter is not None:
            return {}
        names = self.incoming.snapshot.node_names
        return {name: _plain(self.filtering.verdict(row)) for row, name in enumerate(names)}

    def _scores(self) -> dict[str, Any]:
        names, totals = self.incoming.snapshot.node_names, self.scores.total
        return {
            names[row]: {
                "plugins": {plugin: int(values[place]) for plugin, values in self.scores.plugins.items()},
                "total": int(totals[place]),
            }
            for place, row in enumerate(self.scores.rows)
        }

    def _preemption(self) -> dict[str, Any]:
        names, run = self.incoming.snapshot.node_names, self.dry_run
        candidate, violations = run.candidate, run.violations
        candidates: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for place, row in enumerate(run.rows):
            if candidate[place]:
                victims = [pod.metadata.uid for pod in run.victims_on(place)]
                candidates[names[row]] = {"victims": victims, "numPDBViolations": int(violations[place])}
            else:
                others[names[row]] = _plain(run.verdict(place))
        return {"candidates": candidates, "nonCandidates": others}


def _plain(verdict: Status) -> dict[str, Any]:
    return {"code": verdict.code.text, "plugin": verdict.plugin, "reasons": sorted(verdict.reasons)}


def evaluate(snapshot: Snapshot, pod: Pod, profile: Profile, history: EvictionHistory = NO_HISTORY) -> Evaluation:
    """Judge, score and dry-run every node."""
    incoming = scheduling_context(snapshot, pod, profile, history)
    filtering = run_filter_plugins(incoming)
    scores = score(incoming, filtering.rows(Code.SUCCESS))
    run = find_candidates(incoming, filtering.checks, filtering.rows(Code.UNSCHEDULABLE))
    return Evaluation(incoming, filtering, scores, eligible(filtering), run)
