"""Compile pod affinity and anti-affinity terms into matchers for pods.

Mirrors kube-scheduler/framework GetAffinityTerms and AffinityTerm.Matches (v1.36). matchLabelKeys and
mismatchLabelKeys need no work here: the API server has merged them into the label selector.

Rule: facts about one term; `selector_index` finds the pods that it matches in a cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from extender.k8s.objects import Affinity, Labels, PodAffinity, PodAffinityTerm
from extender.k8s.selectors import NOTHING, LabelMatcher, compile_label_selector


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Namespaces and labels of the pods that a term selects."""

    namespaces: frozenset[str]
    namespace_selector: LabelMatcher
    selector: LabelMatcher

    def matches(self, namespace: str, labels: Labels, namespace_labels: Iterable[Labels]) -> bool:
        """Return whether the term selects a pod with the given labels in the given namespace.

        `namespace_labels`: label sets of the namespace; the namespaceSelector must match one of them.
        """
        named = namespace in self.namespaces or any(map(self.namespace_selector.matches, namespace_labels))
        return named and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    topology_key: str
    pods: PodSelector
    weight: int = 1
    """Weight of a preferred term, negative for anti-affinity; 1 for a required term."""


def required_terms(namespace: str, affinity: PodAffinity | None) -> Iterator[AffinityTerm]:
    """Compile the required terms of a pod in `namespace`, one by one. Raises SelectorError."""
    return (_compile(namespace, term, 1) for term in (affinity.required if affinity else None) or ())


def preferred_terms(namespace: str, affinity: PodAffinity | None, sign: int) -> Iterator[AffinityTerm]:
    """Compile the preferred terms of a pod in `namespace`, with weights times `sign`. Raises SelectorError."""
    terms = (affinity.preferred if affinity else None) or ()
    return (_compile(namespace, term.pod_affinity_term, sign * term.weight) for term in terms)


def raw_terms(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    """Yield all terms of pod affinity and anti-affinity, required and preferred, uncompiled."""
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if side is not None:
            yield from side.required or ()
            yield from (one.pod_affinity_term for one in side.preferred or ())


def count_requirements(term: PodAffinityTerm) -> int:
    """Return the number of requirements in the term's two selectors."""
    selectors = (one for one in (term.label_selector, term.namespace_selector) if one is not None)
    return sum(len(one.match_labels or ()) + len(one.match_expressions or ()) for one in selectors)


def _compile(namespace: str, term: PodAffinityTerm, weight: int) -> AffinityTerm:
    # Without namespaces and namespaceSelector, the term means the pod's own namespace; an empty selector means all.
    own_only = not term.namespaces and term.namespace_selector is None
    namespaces = frozenset((namespace,) if own_only else term.namespaces or ())
    namespace_selector = compile_label_selector(term.namespace_selector)
    pods = PodSelector(namespaces, namespace_selector, compile_label_selector(term.label_selector))
    return AffinityTerm(term.topology_key, pods, weight)


def merge_namespaces(
    term: AffinityTerm, namespace_labels: Mapping[str, Labels], *, keeps_selector: bool
) -> AffinityTerm:
    """Return the incoming pod's term with its namespaceSelector resolved to the matching namespaces.

    Mirrors interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty.
    """
    if term.pods.namespace_selector.is_empty:
        return term
    selector = term.pods.namespace_selector
    matching = {name for name, labels in namespace_labels.items() if selector.matches(labels)}
    # Since v1.34 upstream takes the term by value, so the selector stays and is later matched against no labels at all:
    # a selector of NotIn or DoesNotExist then matches every namespace.
    kept = selector if keeps_selector else NOTHING
    return replace(term, pods=replace(term.pods, namespaces=term.pods.namespaces | matching, namespace_selector=kept))
