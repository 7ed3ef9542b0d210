"""Pod affinity and anti-affinity terms, ready to be asked which pods they mean.

Mirrors kube-scheduler/framework GetAffinityTerms and AffinityTerm.Matches (v1.36). matchLabelKeys and
mismatchLabelKeys need no work here: the API server has merged them into the label selector.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from extender.k8s.objects import Labels, Pod, PodAffinity, PodAffinityTerm
from extender.k8s.selectors import LabelMatcher, compile_label_selector


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Which pods are meant, wherever they run."""

    namespaces: frozenset[str]
    namespace_selector: LabelMatcher
    selector: LabelMatcher

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels | None) -> bool:
        """Is a pod of that namespace, with those labels, meant?"""
        named = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return named and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    topology_key: str
    pods: PodSelector
    weight: int = 0
    """Of a preferred term, below zero for anti-affinity; a required one has none."""


def required_terms(owner: Pod, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
    """The required terms of one side of `owner`'s affinity; SelectorError if one does not parse."""
    return _compile(owner, ((term, 0) for term in (affinity.required if affinity else None) or ()))


def preferred_terms(owner: Pod, affinity: PodAffinity | None, sign: int) -> tuple[AffinityTerm, ...]:
    """The preferred terms of one side, their weights times `sign`; SelectorError if one does not parse."""
    terms = (affinity.preferred if affinity else None) or ()
    return _compile(owner, ((term.pod_affinity_term, sign * term.weight) for term in terms))


def _compile(owner: Pod, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm(term.topology_key, _pods(owner, term), weight) for term, weight in terms)


def _pods(owner: Pod, term: PodAffinityTerm) -> PodSelector:
    own_only = not term.namespaces and term.namespace_selector is None
    return PodSelector(
        frozenset((owner.metadata.namespace,) if own_only else term.namespaces or ()),
        compile_label_selector(term.namespace_selector),
        compile_label_selector(term.label_selector),
    )


def merge_namespaces(term: AffinityTerm, namespace_labels: Mapping[str, Labels]) -> AffinityTerm:
    """The incoming pod's term with the namespaces that its selector picks added to those it names.

    Quirk, kept as upstream has it (interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty takes the term by
    value in v1.36): the selector stays and is later matched against no labels at all, so that one made of
    NotIn or DoesNotExist matches pods of every namespace.
    """
    if term.pods.namespace_selector.is_empty:
        return term
    picked = {name for name, labels in namespace_labels.items() if term.pods.namespace_selector.matches(labels)}
    return replace(term, pods=replace(term.pods, namespaces=term.pods.namespaces | picked))
