"""The `preemption` section: who may be evicted, where, when and how often, and the presets that answer all of it.

Rule: every default decides as kube-scheduler does; whatever forbids an eviction is switched on by somebody.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from extender.config.section import Section
from extender.config.values import (
    AnnotationName,
    Duration,
    NonEmpty,
    RuleName,
    annotation_name,
    each_once,
    known_once,
    nanoseconds,
    one_or_more_or_all,
)
from extender.core.profile import (
    IMPORTANCE,
    MORE_IMPORTANCE,
    MORE_RANKING,
    RANKING,
    Limits,
    PreemptionPolicy,
    Protection,
)
from extender.k8s import annotations
from extender.k8s import objects as k8s
from extender.k8s.selectors import LabelMatcher, compile_label_selector

# --- presets --------------------------------------------------------------------------------------------------------

_CAREFUL: Mapping[str, Any] = {
    "disruptionBudgets": "Strict",
    "budgetAccounting": "Live",
    "protect": {"daemonSets": True, "mirrorPods": True, "systemPods": True, "ownPods": True},
    "limits": {"cooldown": "5m"},
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "upstream": {},
    "careful": _CAREFUL,
    "strict": {**_CAREFUL, "candidates": "AllNodes", "onFailure": "Veto"},
}
"""Name -> what the keys of `preemption` are unless they are given; what is not in it has its own default."""


def _over(preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and of the preset what is not; mappings key by key. null is not given."""
    merged = {**preset, **{key: value for key, value in given.items() if value is not None or key not in preset}}
    for key, below in preset.items():
        if isinstance(below, Mapping) and isinstance(given.get(key), Mapping):
            merged[key] = _over(below, given[key])
    return merged


# --- protections ----------------------------------------------------------------------------------------------------

OPT_OUTS = {
    "karpenter": f"{annotations.DO_NOT_DISRUPT}=true",
    "cluster-autoscaler": f"{annotations.SAFE_TO_EVICT}=false",
    "descheduler": annotations.PREFER_NO_EVICTION,
}
"""Word -> the annotation by which a pod says to that component that it is to be left alone."""

_SWITCHES: Mapping[str, tuple[Protection, ...]] = {
    "daemonSets": (Protection("daemonSets", owner_kinds=frozenset({"DaemonSet"})),),
    "mirrorPods": (Protection("mirrorPods", annotations=((annotations.MIRROR, None),)),),
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
"""Key of `protect` -> the rules that it stands for."""

_BUILT_IN = (*_SWITCHES, "optOutAnnotations")


def _annotation(text: str) -> str:
    """A valid `key` or `key=value`; ValueError says why not."""
    key, _, _ = text.partition("=")
    if key in OPT_OUTS:
        raise ValueError(f"{key} is a word of protect.optOutAnnotations; as an annotation it is {OPT_OUTS[key]}")
    annotation_name(key)
    return text


def _opt_out(text: str) -> str:
    return text if text in OPT_OUTS else _annotation(text)


def _pairs(texts: list[str]) -> tuple[tuple[str, str | None], ...]:
    """(key, value, None for any) of each."""
    parts = (text.partition("=") for text in texts)
    return tuple((key, value if equals else None) for key, equals, value in parts)


class ProtectSection(Section):
    daemon_sets: StrictBool = False
    """Pods of DaemonSets: these come back on the same node at once."""
    mirror_pods: StrictBool = False
    """Mirror pods (kubernetes.io/config.mirror): deleting one does not stop the static pod behind it."""
    system_pods: StrictBool = False
    """Pods in kube-system, and pods of the classes system-cluster-critical and system-node-critical."""
    own_pods: StrictBool = False
    """The extender's own pods (app.kubernetes.io/name: kube-scheduler-extender)."""
    preemption_toleration: StrictBool = False
    """Heed the annotations of scheduler-plugins' PreemptionToleration on the PriorityClasses of running pods."""
    tenant_label: AnnotationName | None = None
    """A label of namespaces: only pods may be evicted whose namespace has the same value of it as the incoming pod's,
    or neither has it."""
    opt_out_annotations: list[Annotated[str, AfterValidator(_opt_out)]] = []
    """Pods with one of these annotations: `key` (any value), `key=value`, or a word for what other components heed:
    karpenter (karpenter.sh/do-not-disrupt=true), cluster-autoscaler
    (cluster-autoscaler.kubernetes.io/safe-to-evict=false), descheduler
    (descheduler.alpha.kubernetes.io/prefer-no-eviction)."""

    def rules(self) -> Iterator[Protection]:
        """The rules that are switched on."""
        switches = self.model_dump(by_alias=True)
        for key, rules in _SWITCHES.items():
            yield from rules if switches[key] else ()
        if self.opt_out_annotations:
            written_out = [OPT_OUTS.get(one, one) for one in self.opt_out_annotations]
            yield Protection("optOutAnnotations", annotations=_pairs(written_out))


class LabelRequirement(Section):
    key: NonEmpty
    """Label to look at."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How to compare."""
    values: list[str] = []
    """What to compare with; none for Exists and DoesNotExist."""


class LabelSelectorSection(Section):
    match_labels: dict[str, str] = {}
    """Labels that the pod must have."""
    match_expressions: list[LabelRequirement] = []
    """Requirements on labels, all of which must hold."""

    @model_validator(mode="after")
    def _parses(self) -> "LabelSelectorSection":
        self.compiled()
        return self

    def compiled(self) -> LabelMatcher:
        """The selector, ready to ask; SelectorError if Kubernetes would not parse it."""
        plain = self.model_dump(by_alias=True)
        return compile_label_selector(msgspec.convert(plain, k8s.LabelSelector))


class ProtectionRule(Section):
    name: RuleName
    """What reasons call the rule: up to 63 letters, digits, - _ and . in it."""
    namespaces: list[NonEmpty] = []
    """Pods in one of these namespaces."""
    selector: LabelSelectorSection = LabelSelectorSection()
    """Pods with these labels (matchLabels, matchExpressions)."""
    priority_classes: list[NonEmpty] = []
    """Pods of one of these priority classes."""
    owner_kinds: list[NonEmpty] = []
    """Pods whose controller is of one of these kinds, such as StatefulSet or Job."""
    annotations: list[Annotated[str, AfterValidator(_annotation)]] = []
    """Pods with one of these annotations, as `key` (any value) or `key=value`."""
    min_runtime: Annotated[Duration, Field(gt=0)] | None = None
    """Pods that have not run for so long yet."""
    unless_priority_at_least: Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """The rule does not protect from pods of that priority and above."""

    @field_validator("name")
    @classmethod
    def _no_built_in(cls, name: str) -> str:
        if name in _BUILT_IN:
            raise ValueError(f"{name} is what the rule of protect.{name} is called")
        return name

    def rule(self) -> Protection:
        """The rule as decisions read it."""
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


# --- limits ---------------------------------------------------------------------------------------------------------

Count = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]


class LimitsSection(Section):
    max_victims: Count | None = None
    """Of one preemption; null: no limit."""
    evictions_per_minute: Count | None = None
    """In the whole cluster; null: no limit. Needs keepCandidates: 1."""
    evictions_per_minute_per_namespace: Count | None = None
    """In each namespace; null: no limit. Needs keepCandidates: 1."""
    cooldown: Duration = 0.0
    """For how long after an eviction no other pod of the same workload may be evicted. Needs keepCandidates: 1."""
    max_attempts: Count | None = None
    """How often a pod may have others evicted without coming to run, within attemptsWithin; null: no limit. Needs
    keepCandidates: 1."""
    attempts_within: Annotated[Duration, Field(gt=0)] = 600.0
    """How far back maxAttempts looks."""

    def limits(self) -> Limits:
        """The limits as decisions read them."""
        return Limits(
            max_victims=self.max_victims,
            evictions_per_minute=self.evictions_per_minute,
            namespace_evictions_per_minute=self.evictions_per_minute_per_namespace,
            cooldown=nanoseconds(self.cooldown),
            max_attempts=self.max_attempts,
            attempts_within=nanoseconds(self.attempts_within),
        )

    def counting(self) -> Iterator[str]:
        """The keys of the limits that hold only where it is known who is evicted."""
        for name in ("evictions_per_minute", "evictions_per_minute_per_namespace", "cooldown", "max_attempts"):
            if getattr(self, name):
                yield f"limits.{type(self).model_fields[name].alias}"


# --- all of it ------------------------------------------------------------------------------------------------------


class PreemptionSection(Section):
    preset: Literal["upstream", "careful", "strict"] = "upstream"
    """What the other keys of `preemption` default to; a key that is given always wins. upstream: kube-scheduler's own
    verdict. careful: disruptionBudgets Strict, budgetAccounting Live, limits.cooldown 5m, and protect.daemonSets,
    mirrorPods, systemPods and ownPods. strict: careful, and candidates AllNodes, onFailure Veto."""
    disruption_budgets: Literal["BestEffort", "Strict"] = "BestEffort"
    """Strict: nobody is evicted whose loss breaks a PodDisruptionBudget; where that leaves no node, the answer is a
    veto. A veto is costly: kube-scheduler does not try the pod again before a relevant event or about 5 minutes.
    BestEffort: as few as possible, as kube-scheduler does."""
    budget_accounting: Literal["Reported", "Live"] = "Reported"
    """How much a budget still allows. Reported: its status.disruptionsAllowed, as kube-scheduler. Live: never more than
    the pods that are seen leave over, counted as the eviction API does. Needs keepCandidates: 1."""
    empty_selector: Literal["Nothing", "Everything"] = "Nothing"
    """Whom a budget with the selector {} protects: nobody, as in kube-scheduler, or all pods of its namespace, as
    policy/v1 says."""
    candidates: Literal["Offered", "AllNodes"] = "Offered"
    """Offered: the nodes that kube-scheduler offers, which in large clusters are a sample. AllNodes: any node."""
    keep_candidates: Annotated[int | Literal["All"], BeforeValidator(one_or_more_or_all)] = 1
    """How many nodes /preempt answers at most, best first: a number, or All. One wrong node fails the whole answer."""
    victims: Literal["Reprieve", "Fewest"] = "Reprieve"
    """How victims are chosen on a node. Reprieve: all are taken off and put back one by one, as kube-scheduler does.
    Fewest: the best set there is, on each node that is answered."""
    importance: Annotated[list[str], Field(min_length=1)] = list(IMPORTANCE)
    """By what the more important of two pods is found, in that order: Priority, StartTime, and also PodDeletionCost,
    QoSClass, EvictionCost, GracePeriod."""
    ranking: Annotated[list[str], Field(min_length=1)] = list(RANKING)
    """By what the better of two nodes is found, in that order: PDBViolations, HighestPriority, PrioritySum,
    VictimCount, LatestStartTime, and also PodDeletionCost, QoSClass, EvictionCost, GracePeriod, Workloads, PodGroups,
    UnusedCapacity."""
    eviction_cost_annotation: AnnotationName = annotations.EVICTION_COST
    """The annotation of pods that EvictionCost reads."""
    protect: ProtectSection = ProtectSection()
    """Which running pods are never evicted. Where that leaves no node the answer is a veto, which is costly as said
    under disruptionBudgets."""
    protections: list[ProtectionRule] = []
    """More pods that are never evicted, rule by rule: a name, and conditions that must all hold (namespaces, selector,
    priorityClasses, ownerKinds, annotations, minRuntime, unlessPriorityAtLeast). A rule without a condition protects
    every pod."""
    preempt_after: Duration = 0.0
    """For how long a pod must have been pending before others are evicted for it; until then the answer is a veto, and
    the next try may come only about 5 minutes later."""
    limits: LimitsSection = LimitsSection()
    """How much is evicted, and how soon again; what goes beyond is vetoed, which is costly as said under
    disruptionBudgets."""
    on_failure: Literal["Error", "Veto"] = "Error"
    """What /preempt answers when it cannot decide. Error: 503, the scheduler's `ignorable` decides. Veto: nobody is
    evicted, and the pod is not retried before a relevant event or about 5 minutes. Default: Veto with disruptionBudgets
    Strict, else Error."""

    @model_validator(mode="before")
    @classmethod
    def _preset_below(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        given = _over(PRESETS.get(preset, {}) if isinstance(preset, str) else {}, data)
        # Who forbids breaking budgets does not want kube-scheduler to break them when no decision is possible.
        return _over({"onFailure": "Veto"}, given) if given.get("disruptionBudgets") == "Strict" else given

    @field_validator("importance")
    @classmethod
    def _known_importance(cls, names: list[str]) -> list[str]:
        return known_once(names, (*IMPORTANCE, *MORE_IMPORTANCE))

    @field_validator("ranking")
    @classmethod
    def _known_ranking(cls, names: list[str]) -> list[str]:
        return known_once(names, (*RANKING, *MORE_RANKING))

    @field_validator("protections")
    @classmethod
    def _named_once(cls, rules: list[ProtectionRule]) -> list[ProtectionRule]:
        each_once([rule.name for rule in rules])
        return rules

    @model_validator(mode="after")
    def _knows_whom_it_evicts(self) -> "PreemptionSection":
        needing = ["budgetAccounting: Live"] if self.budget_accounting == "Live" else []
        needing += self.limits.counting()
        if needing and self.keep_candidates != 1:
            raise ValueError(
                f"keepCandidates must be 1 with {', '.join(needing)}{self._by_preset()}: of several nodes "
                "kube-scheduler chooses one itself, and nobody here would know whom it evicts"
            )
        return self

    def _by_preset(self) -> str:
        return f" (preset {self.preset})" if self.preset != "upstream" else ""

    def policy(self) -> PreemptionPolicy:
        """The choices as decisions read them."""
        return PreemptionPolicy(
            disruption_budgets=self.disruption_budgets,
            budget_accounting=self.budget_accounting,
            empty_selector=self.empty_selector,
            candidates=self.candidates,
            victims=self.victims,
            importance=tuple(self.importance),
            ranking=tuple(self.ranking),
            eviction_cost_annotation=self.eviction_cost_annotation,
            protections=(*self.protect.rules(), *(one.rule() for one in self.protections)),
            preemption_toleration=self.protect.preemption_toleration,
            tenant_label=self.protect.tenant_label,
            preempt_after=nanoseconds(self.preempt_after),
            limits=self.limits.limits(),
        )
