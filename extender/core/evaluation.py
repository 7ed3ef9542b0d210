"""Evaluate one pod: filters, scores, the preemption dry run with policies, and the ranking of its candidates.

`/filter`, `/prioritize`, `/preempt`, a scheduling cycle, `extender why` and `evaluate()` read an Evaluation and nothing
else. There are three kinds, depending on what kube-scheduler has already decided:

    all nodes        nothing: `why`, `simulate` and `evaluate()` run a scheduling cycle of their own
    offered rows     these nodes passed kube-scheduler's filters (`/filter`, `/prioritize`)
    sent candidates  kube-scheduler's own dry run found these nodes and victims (`/preempt`)

Rule: only this module calls the filters, the scores, the dry run and the policies. Each part is computed when it is
first read. After the snapshot has changed, reading a part for the first time raises RuntimeError; `core.record` copies
the parts that reports need.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from extender.core.chance import chance_of
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.filter import (
    FilterRun,
    Statuses,
    filters_not_evaluated,
    fits_without_terminating_pods,
    last_filter_run,
    scheduling_context,
)
from extender.core.framework.scheduling_signature import NodeVerdicts, cached_verdicts
from extender.core.framework.score import Scores, score
from extender.core.framework.status import SUCCESS, Code, Status
from extender.core.preemption.candidates import apply_policies, preemption_would_help
from extender.core.preemption.criteria import best_candidates, ranking_keys
from extender.core.preemption.dry_run import DryRun, dry_run_preemption, dry_run_sent_candidates
from extender.core.preemption.eligibility import (
    PREEMPTION_POLICY_NEVER,
    not_schedulable,
    pod_eligible_to_preempt_others,
    run_pre_enqueue_plugins,
)
from extender.core.preemption.ranking import RankingKeys
from extender.core.preemption.rate_limits import preemption_refusal
from extender.core.preemption.sent_candidates import ResolvedCandidates
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, mask_of
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.workloads import PodGroupIndex
from extender.k8s.objects import Pod

T = TypeVar("T")

ROOM_OF_TERMINATING_PODS = "fits: kube-scheduler offered the node, so the room of its terminating pods counts as free"
"""Reason for accepting a node that the filters reject only because of terminating pods."""


class part(Generic[T]):  # noqa: N801  # lower case, as it is a decorator
    """A part of an evaluation, computed when it is first read; raises RuntimeError if the snapshot has changed by then.

    Unlike functools.cached_property in Python 3.11, it takes no lock, because only one thread makes decisions.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, evaluation: Any, owner: type[Any]) -> T:
        if evaluation is None:
            raise AttributeError(f"{self._name} is a part of an Evaluation, not of the class")
        evaluation.check_version()
        found = evaluation.__dict__[self._name] = self._compute(evaluation)
        return found


class Evaluation:
    """The verdicts of kube-scheduler's plugins and of the profile's policies on one pod.

    [node] is a node row of the snapshot, [row] an index into `rows`, [candidate] an index into `candidates`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pod: Pod,
        profile: Profile,
        history: EvictionHistory = NO_HISTORY,
        *,
        offered: NodeRows | None = None,
        sent: ResolvedCandidates | None = None,
    ) -> None:
        """`offered`: node rows that passed kube-scheduler's filters; `sent`: its candidates; default: all nodes."""
        self.context = scheduling_context(snapshot, pod, profile, history)
        self.sent, self.is_offered = sent, offered is not None
        self.rows = sent.rows if sent is not None else np.arange(len(snapshot.nodes)) if offered is None else offered
        """Node rows to evaluate."""
        self.node_names: tuple[str, ...] | None = None
        """Names of all nodes if some are in the snapshot for this decision only; None: use the snapshot's names."""
        self.judged_by: Mapping[str, Any] = {}
        """Version of kube-scheduler and source of the cluster, for `to_dict`; empty if only the engine asks."""
        self.version = snapshot.version
        """Version of the snapshot."""

    def check_version(self) -> None:
        """Raise RuntimeError if the snapshot has changed."""
        if self.version != self.context.snapshot.version:
            raise RuntimeError("the snapshot has changed since the pod was evaluated on it")

    def outlive_nodes(self, *, with_statuses: bool) -> None:
        """Compute the parts that a record needs of nodes that are in the snapshot for this decision only."""
        self.node_names = self.context.snapshot.frozen_node_names
        if with_statuses:
            _ = self.statuses, self.preemption_helps

    # --- filter ---

    @part
    def cached_verdicts(self) -> NodeVerdicts | None:
        """Verdicts shared by pods with the same scheduling signature; None if the filters have to run."""
        return cached_verdicts(self.context)

    @part
    def filter(self) -> FilterRun:
        """Filter results of all nodes. A plugin failure is not raised here: see `FilterRun.error`."""
        known = self.cached_verdicts
        return last_filter_run(self.context) if known is None else known.filter_run(self.context)

    @part
    def fits_on_all_rows(self) -> bool:
        """Whether the pod fits on all `rows` by cached verdicts: usual, because kube-scheduler has filtered them."""
        known = self.cached_verdicts
        return known is not None and bool(known.fits[self.rows].all())

    @part
    def fits_beside_terminating(self) -> BoolArray:
        """[node]: whether only terminating pods keep the pod from fitting on the offered node."""
        return fits_without_terminating_pods(self.filter, self.rows)

    @part
    def feasible(self) -> NodeRows:
        """Node rows on which the pod fits. On offered nodes the room of terminating pods counts as free."""
        known = self.cached_verdicts
        if self.is_offered:
            if self.fits_on_all_rows:
                return self.rows
            fits = (self.filter.codes == Code.SUCCESS) | self.fits_beside_terminating
            return np.flatnonzero(mask_of(self.rows, len(fits)) & fits)
        return np.flatnonzero(known.fits) if known is not None else self.filter.rows(Code.SUCCESS)

    @part
    def statuses(self) -> Statuses:
        """[row]: filter status."""
        if self.fits_on_all_rows:
            return _fits_everywhere(len(self.rows))[0]
        beside_terminating = self.fits_beside_terminating[self.rows]
        return self.filter.statuses(self.rows).accepted(beside_terminating, ROOM_OF_TERMINATING_PODS)

    # --- plugins that we don't evaluate ---

    @part
    def filters_not_evaluated(self) -> Mapping[str, BoolArray]:
        """Filter plugin -> [node]: whether it can reject the pod there but we don't evaluate it."""
        return filters_not_evaluated(self.context)

    def not_evaluated_on(self, rows: NodeRows) -> tuple[str, ...]:
        """Return the filter plugins that we don't evaluate on at least one of `rows`."""
        self.check_version()
        if self.cached_verdicts is not None:
            return self.cached_verdicts.not_evaluated_on(rows)
        return tuple(name for name, nodes in self.filters_not_evaluated.items() if nodes[rows].any())

    @part
    def scheduler_decides(self) -> BoolArray:
        """[node]: whether a filter plugin that we don't evaluate can reject the pod there."""
        decides = np.zeros(len(self.context.snapshot.nodes), np.bool_)
        for nodes in self.filters_not_evaluated.values():
            decides |= nodes
        return decides

    @part
    def keeps_sent_victims(self) -> BoolArray:
        """[node]: whether to keep kube-scheduler's own victims: our reprieve could spare a pod that must be evicted."""
        snapshot, profile, keeps = self.context.snapshot, self.context.profile, self.scheduler_decides
        if profile.not_evaluated_post_filters:
            return np.ones(len(keeps), np.bool_)
        if self.context.features.groups_are_evicted_whole:
            # kube-scheduler evicts some pods only together with their PodGroup (v1.37). If we don't read PodGroups, any
            # pod of a group may be such a pod.
            has_objects = profile.preemption.reads_pod_groups and "pod_groups" not in snapshot.unreadable_tables
            rows = snapshot.index(PodGroupIndex).evicted_whole(has_objects=has_objects)
            keeps = keeps | mask_of(snapshot.pod_node[rows], len(keeps))
        return keeps

    def extenders(self, verb: str) -> list[str]:
        """Name the other extenders whose verb kube-scheduler calls for this pod: `extenders[1] at URL, VERB`."""
        context = self.context
        return [
            f"{one.name}, {verb}"
            for one in context.profile.other_extenders
            if verb in one.verbs and one.is_interested(context.pod)
        ]

    # --- score ---

    @part
    def scores(self) -> Scores:
        """Plugin scores of the feasible nodes."""
        known = self.cached_verdicts
        return score(self.context, self.feasible, {} if known is None else known.scores(self.context))

    # --- preemption ---

    @part
    def pre_enqueue(self) -> Status | None:
        """Status of the PreEnqueue plugin that keeps the pod out of the queue; no other part depends on it."""
        return run_pre_enqueue_plugins(self.context.snapshot, self.context.pod, self.context.profile)

    @part
    def eligible(self) -> tuple[bool, str]:
        """(True, "") if the pod may preempt others, else (False, reason): PodEligibleToPreemptOthers."""
        return pod_eligible_to_preempt_others(self.filter)

    @part
    def refusal(self) -> str | None:
        """Reason why the pod may not preempt on any node (its own fields, or a rate limit); None if it may."""
        context, pod = self.context, self.context.pod
        reason = None if self.sent is None else not_schedulable(context.snapshot, pod, context.profile)
        if reason is None and pod.spec.preemption_policy == "Never":
            reason = PREEMPTION_POLICY_NEVER
        return preemption_refusal(context) if reason is None else reason

    @part
    def dry_run_rows(self) -> NodeRows:
        """Node rows of the dry run, ascending: nodes on which preemption may help.

        These are nodes whose filter status is Unschedulable, and sent nodes on which a plugin that we don't evaluate
        can reject the pod, unless their status is UnschedulableAndUnresolvable.
        """
        codes = self.filter.codes
        may_help: BoolArray = codes == Code.UNSCHEDULABLE
        if self.sent is not None:
            is_sent = mask_of(self.rows, len(codes))
            elsewhere = may_help & ~self.keeps_sent_victims
            may_help = is_sent & (may_help | (self.scheduler_decides & (codes != Code.UNSCHEDULABLE_AND_UNRESOLVABLE)))
            if self.context.profile.preemption.candidates == "AllNodes":
                node_row = self.context.snapshot.node_row
                # Leave out unresolved candidates: kube-scheduler knows pods on these nodes that the snapshot lacks.
                elsewhere[[node_row[name] for name in self.sent.dropped if name in node_row]] = False
                may_help |= elsewhere
        elif self.is_offered:
            # Terminating victims on the nominated node are no refusal: kube-scheduler waits for them itself
            # (PodEligibleToPreemptOthers), but would preempt elsewhere at once if we reported that node unresolvable.
            if self.refusal is not None:
                return np.zeros(0, np.int64)
            may_help &= mask_of(self.rows, len(codes))
            may_help[self.feasible] = False
        return np.flatnonzero(may_help)

    @part
    def preemption_helps(self) -> BoolArray:
        """[row]: whether evicting pods of lower priority would make room on the offered node."""
        if self.fits_on_all_rows or not len(self.dry_run_rows):
            return _fits_everywhere(len(self.rows))[1]
        helps = np.zeros(len(self.filter.codes), np.bool_)
        helps[self.dry_run_rows] = preemption_would_help(self.context, self.filter.checks, self.dry_run_rows)
        return helps[self.rows]

    @part
    def policies(self) -> DryRun:
        """The dry run on `dry_run_rows` with the profile's policies applied, even if the pod may not preempt."""
        checks, rows = self.filter.checks, self.dry_run_rows
        if self.sent is None:
            return apply_policies(dry_run_preemption(self.context, checks, rows))
        run = dry_run_sent_candidates(self.context, checks, rows, self.sent)
        return apply_policies(run, self.keeps_sent_victims)

    def policies_on(self, rows: NodeRows) -> DryRun:
        """Return the dry run on `rows` with the policies applied, whatever the filter status of these nodes."""
        self.check_version()
        return apply_policies(dry_run_preemption(self.context, self.filter.checks, rows))

    @part
    def candidates(self) -> IntArray:
        """Indexes of the candidates in the dry run `policies`."""
        return np.flatnonzero(self.policies.candidate)

    @part
    def ranking(self) -> RankingKeys:
        """Ranking keys of the candidates, by the profile's criteria."""
        return ranking_keys(self.policies, self.candidates)

    @part
    def best_ties(self) -> IntArray:
        """Indexes into `policies` of the candidates that tie for best, sorted by node name."""
        if not len(self.candidates):
            return self.candidates
        ties = self.candidates[self.ranking.ranks == 0]
        by_name: IntArray = ties[np.argsort(self.context.snapshot.name_order[self.policies.rows[ties]])]
        return by_name

    @property
    def selected(self) -> str | None:
        """The node that preemption would choose, the first by name if several tie; None without candidates."""
        self.check_version()
        best = best_candidates(self.policies, 1).tolist()
        return self.context.snapshot.node_names[int(self.policies.rows[best[0]])] if best else None

    @property
    def selected_ties(self) -> list[str]:
        """Sorted names of the nodes that tie for best candidate: kube-scheduler may choose any of them."""
        self.check_version()
        names = self.context.snapshot.node_names
        return [names[row] for row in self.policies.rows[self.best_ties].tolist()]

    # --- plain values ---

    def to_dict(self) -> dict[str, Any]:
        """Render as plain values, in the format of the parity corpora.

        Keys: `filter`, `feasible`, `scores`, `eligible`, `candidates`, `nonCandidates`, `selected`, `selectedTies`.
        `extender.evaluate` adds `version`, `versionSource` and `source`, as those of `why`.
        Optional keys: `preEnqueue` if a plugin keeps the pod out of the queue; `prefilter` if PreFilter rejects it;
        `prefilterNodes` if a PreFilterResult restricts the nodes; `notEvaluated` (plugin or extender -> nodes);
        `cycleError`, `scoreError` and `dryRunError` if a plugin fails, which ends the scheduling cycle; `chance`
        (candidate -> reasons, see `core.chance`) if kube-scheduler may choose other victims.
        """
        self.check_version()
        run, names, tried = self.filter, self.context.snapshot.node_names, self.policies
        statuses, profile = run.statuses(np.arange(len(names))).to_list(), self.context.profile
        others = (*profile.not_evaluated_scores, *profile.not_evaluated_post_filters)
        not_evaluated = dict.fromkeys(others, sorted(names)) | {
            plugin: sorted(names[row] for row in np.flatnonzero(mask))
            for plugin, mask in self.filters_not_evaluated.items()
            if mask.any()
        }
        # Each verb has its nodes: an extender never sees a node that a filter plugin rejects (findNodesThatFitPod).
        passed, victims = self.feasible, tried.rows[self.candidates]
        for verb, rows, least in (("filter", passed, 1), ("prioritize", passed, 2), ("preempt", victims, 1)):
            if len(rows) >= least:
                not_evaluated |= dict.fromkeys(self.extenders(verb), sorted(names[row] for row in rows.tolist()))
        optional = {
            "preEnqueue": _plain(self.pre_enqueue) if self.pre_enqueue else None,
            "notEvaluated": not_evaluated or None,
            "prefilter": _plain(run.prefilter_status) if run.prefilter_status else None,
            "prefilterNodes": None if run.prefilter_node_names is None else sorted(run.prefilter_node_names),
            "cycleError": run.error(),
            "scoreError": self.scores.error,
            "dryRunError": tried.emptied.error(),
            "chance": {names[tried.rows[place]]: why for place, why in chance_of(tried).items()} or None,
        }
        places = np.flatnonzero(~tried.candidate)
        rejected = zip(tried.rows[places].tolist(), tried.statuses(places), strict=True)
        return {key: value for key, value in optional.items() if value is not None} | {
            "filter": dict(zip(names, map(_plain, statuses), strict=True)) if run.prefilter_status is None else {},
            "feasible": len(self.scores.rows),
            "scores": self._plain_scores(),
            "eligible": list(self.eligible),
            "candidates": {
                names[tried.rows[place]]: {
                    "victims": [pod.metadata.uid for pod in tried.victims_on(place)],
                    "numPDBViolations": int(tried.violations[place]),
                }
                for place in self.candidates.tolist()
            },
            "nonCandidates": {names[row]: _plain(status) for row, status in rejected},
            "selected": self.selected,
            "selectedTies": self.selected_ties,
            **self.judged_by,
        }

    def _plain_scores(self) -> dict[str, Any]:
        scores, names = self.scores, self.context.snapshot.node_names
        if scores.error is not None or not self.context.profile.score_weights:
            return {}
        return {
            names[row]: {
                "plugins": {plugin: int(values[place]) for plugin, values in scores.plugins.items()},
                "total": total,
            }
            for place, (row, total) in enumerate(zip(scores.rows.tolist(), scores.total.tolist(), strict=True))
        }


@lru_cache(maxsize=4)
def _fits_everywhere(size: int) -> tuple[Statuses, BoolArray]:
    """Return (filter statuses, whether preemption helps) of `size` nodes that all fit: Success, and False.

    Records share these arrays.
    """
    indices, helps = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    indices.flags.writeable = helps.flags.writeable = False
    return Statuses((SUCCESS,), indices), helps


def _plain(status: Status) -> dict[str, Any]:
    return {"code": status.code.text, "plugin": status.plugin, "reasons": sorted(status.reasons)}
