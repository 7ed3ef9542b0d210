"""Compile pod affinity and anti-affinity terms into matchers for pods.

Mirrors kube-scheduler/framework GetAffinityTerms and AffinityTerm.Matches (v1.36). matchLabelKeys and
mismatchLabelKeys need no work here: the API server has merged them into the label selector.

Rule: facts about one term; which pods it matches in a cluster is decided by `selector_index`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from extender.k8s.objects import Labels, Pod, PodAffinity, PodAffinityTerm
from extender.k8s.selectors import LabelMatcher, compile_label_selector


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Namespaces and labels of the pods that a term selects, on any node."""

    namespaces: frozenset[str]
    namespace_selector: LabelMatcher
    selector: LabelMatcher

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels | None) -> bool:
        """Return whether the term selects a pod with these labels in this namespace."""
        named = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return named and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    topology_key: str
    pods: PodSelector
    weight: int = 0
    """Weight of a preferred term, negative for anti-affinity; 0 for a required term."""


def required_terms(owner: Pod, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
    """Compile the required terms of `owner`'s affinity or its anti-affinity; raises SelectorError."""
    return _compile(owner, ((term, 0) for term in (affinity.required if affinity else None) or ()))


def preferred_terms(owner: Pod, affinity: PodAffinity | None, sign: int) -> tuple[AffinityTerm, ...]:
    """Compile the preferred terms of one side, with weights multiplied by `sign`; raises SelectorError."""
    terms = (affinity.preferred if affinity else None) or ()
    return _compile(owner, ((term.pod_affinity_term, sign * term.weight) for term in terms))


def _compile(owner: Pod, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
    compiled = []
    for term, weight in terms:
        own_only = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((owner.metadata.namespace,) if own_only else term.namespaces or ())
        namespace_selector = compile_label_selector(term.namespace_selector)
        pods = PodSelector(namespaces, namespace_selector, compile_label_selector(term.label_selector))
        compiled.append(AffinityTerm(term.topology_key, pods, weight))
    return tuple(compiled)


def merge_namespaces(term: AffinityTerm, namespace_labels: Mapping[str, Labels]) -> AffinityTerm:
    """Return the incoming pod's term, the namespaces that its namespaceSelector matches added to its namespaces.

    Quirk, kept as upstream has it (interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty takes the term by
    value in v1.36): the selector stays and is later matched against no labels at all, so that one made of
    NotIn or DoesNotExist matches pods of every namespace.
    """
    if term.pods.namespace_selector.is_empty:
        return term
    matching = {name for name, labels in namespace_labels.items() if term.pods.namespace_selector.matches(labels)}
    return replace(term, pods=replace(term.pods, namespaces=term.pods.namespaces | matching))
