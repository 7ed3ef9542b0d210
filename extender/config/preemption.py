"""Schema of the `preemption` section: presets, protections, limits, victim selection and ranking.

Rule: with the defaults, we decide as kube-scheduler does; a policy that forbids an eviction is opt-in.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from extender.config.decoding import Section
from extender.config.values import (
    AnnotationName,
    Count,
    Duration,
    NonEmptyText,
    PositiveDuration,
    RuleName,
    annotation_name,
    known_names,
    nanoseconds,
    positive_or_all,
    unique,
)
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_IMPORTANCE,
    EXTRA_RANKING,
    Limits,
    PreemptionPolicy,
    Protection,
)
from extender.k8s import objects as k8s
from extender.k8s import well_known
from extender.k8s.priority import HIGHEST_PRIORITY, LOWEST_PRIORITY
from extender.k8s.selectors import LabelMatcher, compile_label_selector

# --- presets --------------------------------------------------------------------------------------------------------

# A preset is applied before validation, so that values the operator sets are checked together with its defaults.
_CAREFUL: Mapping[str, Any] = {
    "disruptionBudgets": "Strict",
    "budgetAccounting": "Live",
    "protections": {"builtin": {"daemonSets": True, "mirrorPods": True, "systemPods": True, "ownPods": True}},
    "limits": {"workloadCooldown": "5m"},
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "upstream": {},
    "careful": _CAREFUL,
    "strict": {**_CAREFUL, "candidates": "AllNodes", "onFailure": "Veto"},
}
"""Preset -> defaults of keys of `preemption`; other keys keep their own default."""


def _merge_defaults(preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in missing and null values from the preset, in nested mappings, too."""
    merged = {**preset, **{key: value for key, value in given.items() if value is not None or key not in preset}}
    for key, below in preset.items():
        if isinstance(below, Mapping) and isinstance(given.get(key), Mapping):
            merged[key] = _merge_defaults(below, given[key])
    return merged


# --- protections ----------------------------------------------------------------------------------------------------

OPT_OUTS = {
    "karpenter": f"{well_known.DO_NOT_DISRUPT}=true",
    "cluster-autoscaler": f"{well_known.SAFE_TO_EVICT}=false",
    "descheduler": well_known.PREFER_NO_EVICTION,
}
"""Component -> annotation by which a pod opts out of eviction by that component."""

_SWITCHES: Mapping[str, tuple[Protection, ...]] = {
    "daemonSets": (Protection("daemonSets", owner_kinds=frozenset({"DaemonSet"})),),
    "mirrorPods": (Protection("mirrorPods", annotations=((well_known.MIRROR, None),)),),
    "systemPods": (
        Protection("systemPods", namespaces=frozenset({"kube-system"})),
        Protection("systemPods", priority_classes=frozenset({"system-cluster-critical", "system-node-critical"})),
    ),
    "ownPods": (
        Protection(
            "ownPods",
            selector=compile_label_selector(
                k8s.LabelSelector(match_labels={"app.kubernetes.io/name": "kube-scheduler-extender"})
            ),
        ),
    ),
}
"""Key of `protections.builtin` -> its rules."""

_BUILT_IN = (*_SWITCHES, "optOutAnnotations")


def _annotation(text: str) -> str:
    """Validate `key` or `key=value`."""
    key, _, _ = text.partition("=")
    if key in OPT_OUTS:
        raise ValueError(
            f"{key} is a keyword of protections.builtin.optOutAnnotations; the annotation is {OPT_OUTS[key]}"
        )
    annotation_name(key)
    return text


_OptOut = Annotated[str, AfterValidator(lambda text: text if text in OPT_OUTS else _annotation(text))]


def _pairs(texts: list[str]) -> tuple[tuple[str, str | None], ...]:
    """Split annotations into (key, value); value None matches any value."""
    parts = (text.partition("=") for text in texts)
    return tuple((key, value if equals else None) for key, equals, value in parts)


class BuiltinProtectionsSection(Section):
    daemon_sets: StrictBool = False
    """Pods of DaemonSets: evicting them frees nothing, they are recreated on the same node at once."""
    mirror_pods: StrictBool = False
    """Mirror pods (kubernetes.io/config.mirror): deleting one does not stop the static pod behind it."""
    system_pods: StrictBool = False
    """Pods in kube-system, and pods of the classes system-cluster-critical and system-node-critical."""
    own_pods: StrictBool = False
    """The extender's own pods (app.kubernetes.io/name: kube-scheduler-extender)."""
    preemption_toleration: StrictBool = False
    """Honor the PreemptionToleration annotations (scheduler-plugins) on the PriorityClasses of running pods."""
    tenant_label: AnnotationName | None = None
    """Namespace label that identifies a tenant: only pods whose namespace has the same value as the preemptor's, or
    lacks the label as the preemptor's does, may be evicted."""
    opt_out_annotations: list[_OptOut] = []
    """Pods with one of these annotations: `key` (any value), `key=value`, or the opt-out of another component:
    karpenter (karpenter.sh/do-not-disrupt=true), cluster-autoscaler
    (cluster-autoscaler.kubernetes.io/safe-to-evict=false), descheduler
    (descheduler.alpha.kubernetes.io/prefer-no-eviction)."""

    def rules(self) -> Iterator[Protection]:
        """Yield the enabled rules."""
        switches = self.model_dump(by_alias=True)
        for key, rules in _SWITCHES.items():
            yield from rules if switches[key] else ()
        if self.opt_out_annotations:
            written_out = [OPT_OUTS.get(one, one) for one in self.opt_out_annotations]
            yield Protection("optOutAnnotations", annotations=_pairs(written_out))


class LabelRequirement(Section):
    key: NonEmptyText
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """Operator that relates the key to the values."""
    values: list[str] = []
    """Values for the operator; none for Exists and DoesNotExist."""


class LabelSelectorSection(Section):
    match_labels: dict[str, str] = {}
    """Labels that the pod must have, ANDed."""
    match_expressions: list[LabelRequirement] = []
    """Label requirements, ANDed."""

    @model_validator(mode="after")
    def _parses(self) -> "LabelSelectorSection":
        self.compiled()
        return self

    def compiled(self) -> LabelMatcher:
        """Compile the selector. Raises SelectorError."""
        plain = self.model_dump(by_alias=True)
        return compile_label_selector(msgspec.convert(plain, k8s.LabelSelector))


class ProtectionRule(Section):
    name: RuleName
    """Name of the rule in reasons: up to 63 letters, digits, - _ and ."""
    namespaces: list[NonEmptyText] = []
    """Pods in one of these namespaces."""
    selector: LabelSelectorSection = LabelSelectorSection()
    """Pods with these labels (matchLabels, matchExpressions)."""
    priority_classes: list[NonEmptyText] = []
    """Pods of one of these priority classes."""
    owner_kinds: list[NonEmptyText] = []
    """Pods whose controller is of one of these kinds, such as StatefulSet or Job."""
    annotations: list[Annotated[str, AfterValidator(_annotation)]] = []
    """Pods with one of these annotations, as `key` (any value) or `key=value`."""
    min_runtime: PositiveDuration | None = None
    """Pods that have been running for less than this."""
    unless_priority_at_least: Annotated[StrictInt, Field(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)] | None = None
    """The rule does not protect against preemptors of this priority and above."""

    @field_validator("name")
    @classmethod
    def _no_built_in(cls, name: str) -> str:
        if name in _BUILT_IN:
            raise ValueError(f"{name} is the name of the builtin rule protections.builtin.{name}")
        return name

    def rule(self) -> Protection:
        """Convert to the engine's type."""
        return Protection(
            self.name,
            namespaces=frozenset(self.namespaces),
            selector=self.selector.compiled(),
            priority_classes=frozenset(self.priority_classes),
            owner_kinds=frozenset(self.owner_kinds),
            annotations=_pairs(self.annotations),
            min_runtime=None if self.min_runtime is None else nanoseconds(self.min_runtime),
            unless_priority_at_least=self.unless_priority_at_least,
        )


class ProtectionsSection(Section):
    builtin: BuiltinProtectionsSection = BuiltinProtectionsSection()
    """Builtin rules, each switched on by its key."""
    rules: Annotated[list[ProtectionRule], unique(attrgetter("name"))] = []
    """Further rules: each has a name and conditions that must all hold (namespaces, selector, priorityClasses,
    ownerKinds, annotations, minRuntime, unlessPriorityAtLeast). A rule without conditions protects every pod."""

    def protections(self) -> tuple[Protection, ...]:
        """Return the enabled builtin rules, then the configured rules."""
        return (*self.builtin.rules(), *(rule.rule() for rule in self.rules))


# --- limits ---------------------------------------------------------------------------------------------------------


class LimitsSection(Section):
    max_victims: Count | None = None
    """Maximum victims of one preemption; null: no limit."""
    evictions_per_minute: Count | None = None
    """Maximum evictions per minute in the cluster; null: no limit. Requires keepCandidates: 1."""
    evictions_per_minute_per_namespace: Count | None = None
    """Maximum evictions per minute in each namespace; null: no limit. Requires keepCandidates: 1."""
    workload_cooldown: Duration = 0.0
    """Time after an eviction in which no other pod of the same workload may be evicted. Requires keepCandidates: 1."""
    max_attempts: Count | None = None
    """Maximum preemptions by one pod that is still pending, within attemptsWithin; null: no limit. Requires
    keepCandidates: 1."""
    attempts_within: PositiveDuration = 600.0
    """Period over which maxAttempts counts."""

    def limits(self) -> Limits:
        """Convert to the engine's type."""
        return Limits(
            max_victims=self.max_victims,
            evictions_per_minute=self.evictions_per_minute,
            namespace_evictions_per_minute=self.evictions_per_minute_per_namespace,
            workload_cooldown=nanoseconds(self.workload_cooldown),
            max_attempts=self.max_attempts,
            attempts_within=nanoseconds(self.attempts_within),
        )

    def counting(self) -> Iterator[str]:
        """Yield the keys of the limits that count evictions, which require that the final victims are known."""
        for name in ("evictions_per_minute", "evictions_per_minute_per_namespace", "workload_cooldown", "max_attempts"):
            if getattr(self, name):
                yield f"limits.{type(self).model_fields[name].alias}"


# --- preemption -----------------------------------------------------------------------------------------------------


_Importance = Annotated[list[str], Field(min_length=1), known_names((*DEFAULT_IMPORTANCE, *EXTRA_IMPORTANCE)), unique()]
_Ranking = Annotated[list[str], Field(min_length=1), known_names((*DEFAULT_RANKING, *EXTRA_RANKING)), unique()]


class PreemptionSection(Section):
    preset: Literal["upstream", "careful", "strict"] = "upstream"
    """Defaults for the other keys of `preemption`; a key that is set takes precedence. upstream: decide as
    kube-scheduler. careful: disruptionBudgets Strict, budgetAccounting Live, limits.workloadCooldown 5m, and the
    builtin protections daemonSets, mirrorPods, systemPods and ownPods. strict: careful with candidates AllNodes and
    onFailure Veto."""
    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """Strict: never evict a pod if that violates a PodDisruptionBudget; if no candidate is left, the answer is a veto.
    A veto is costly: kube-scheduler retries the pod only after a relevant event or 5 minutes (its
    --pod-max-in-unschedulable-pods-duration). BestEffort: minimize violations, as kube-scheduler does."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """Source of the disruptions that a budget allows. Reported: its status.disruptionsAllowed, as kube-scheduler. Live:
    at most what the cached pods allow, counted as the eviction API does. Requires keepCandidates: 1."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Meaning of a budget's selector {}: Nothing, as in kube-scheduler up to v1.37, or Everything in its namespace, as
    policy/v1 specifies. From v1.38 on kube-scheduler takes Everything, and so does the extender."""
    candidates: Literal["Sent", "AllNodes"] = "Sent"
    """Sent: the candidates that kube-scheduler sends, in large clusters a sample. AllNodes: any node."""
    keep_candidates: Annotated[int | Literal["All"], BeforeValidator(positive_or_all)] = 1
    """Maximum nodes in a /preempt response, best first: a number, or All. One wrong node fails all of it."""
    importance: _Importance = list(DEFAULT_IMPORTANCE)
    """Criteria that order pods by importance, first one first: Priority, StartTime, and also PodDeletionCost,
    QoSClass, EvictionCost, GracePeriod."""
    ranking: _Ranking = list(DEFAULT_RANKING)
    """Criteria that rank candidates, first one first: PDBViolations, HighestPriority, PrioritySum,
    VictimCount, LatestStartTime, and also PodDeletionCost, QoSClass, EvictionCost, GracePeriod, Workloads, PodGroups,
    UnusedCapacity."""
    eviction_cost_annotation: AnnotationName = well_known.EVICTION_COST
    """Pod annotation that EvictionCost reads."""
    protections: ProtectionsSection = ProtectionsSection()
    """Running pods that are never evicted. Where that leaves no candidate the answer is a veto, which is costly as
    described under disruptionBudgets."""
    min_pending_duration: Duration = 0.0
    """Time that a pod must have been pending before it may preempt; until then the answer is a veto, and the next
    attempt may come 5 minutes later (kube-scheduler's --pod-max-in-unschedulable-pods-duration)."""
    limits: LimitsSection = LimitsSection()
    """Limits on evictions; a preemption that exceeds one is vetoed, which is costly as described under
    disruptionBudgets."""
    on_failure: Literal["Error", "Veto"] = "Error"
    """Answer of /preempt without a decision. Error: 503, and the scheduler's `ignorable` applies. Veto: evict no pods;
    the pod is retried as after any veto. Default: Veto with disruptionBudgets: Strict, else Error."""

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        # An unknown preset is reported by validation.
        given = _merge_defaults(PRESETS.get(preset, {}) if isinstance(preset, str) else {}, data)
        # With Strict budgets, a failure must not leave the decision to kube-scheduler, which may violate them.
        return _merge_defaults({"onFailure": "Veto"}, given) if given.get("disruptionBudgets") == "Strict" else given

    @model_validator(mode="after")
    def _final_victims_are_known(self) -> "PreemptionSection":
        requiring = ["budgetAccounting: Live"] if self.budget_accounting == "Live" else []
        requiring += self.limits.counting()
        if requiring and self.keep_candidates != 1:
            by_preset = f" (preset {self.preset})" if self.preset != "upstream" else ""
            raise ValueError(
                f"keepCandidates must be 1 with {', '.join(requiring)}{by_preset}: if several nodes are sent, "
                "kube-scheduler chooses one itself, and the evicted pods are unknown here"
            )
        return self

    @property
    def most_candidates(self) -> int | None:
        """Return `keep_candidates` for the engine; None for All."""
        return None if self.keep_candidates == "All" else self.keep_candidates

    def policy(self) -> PreemptionPolicy:
        """Convert to the engine's type."""
        return PreemptionPolicy(
            disruption_budgets=self.disruption_budgets,
            budget_accounting=self.budget_accounting,
            empty_selector=self.empty_selector,
            candidates=self.candidates,
            importance=tuple(self.importance),
            ranking=tuple(self.ranking),
            eviction_cost_annotation=self.eviction_cost_annotation,
            protections=self.protections.protections(),
            preemption_toleration=self.protections.builtin.preemption_toleration,
            tenant_label=self.protections.builtin.tenant_label,
            min_pending_duration=nanoseconds(self.min_pending_duration),
            limits=self.limits.limits(),
        )
