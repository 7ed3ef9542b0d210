"""Required pod affinity and anti-affinity terms, ready to be asked whether they match a pod.

Mirrors kube-scheduler/framework GetAffinityTerms and AffinityTerm.Matches (v1.36). matchLabelKeys and
mismatchLabelKeys need no work here: the API server has merged them into the label selector.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from extender.k8s.objects import Labels, Pod, PodAffinity, PodAffinityTerm
from extender.k8s.selectors import LabelMatcher, compile_label_selector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelMatcher
    selector: LabelMatcher

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels | None) -> bool:
        """Is a pod of that namespace, with those labels, meant by this term?"""
        named = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return named and self.selector.matches(labels)


def required_terms(owner: Pod, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
    """The required terms of one side of `owner`'s affinity; SelectorError if one does not parse."""
    terms = (affinity.required if affinity else None) or ()
    return tuple(_compile(owner.metadata.namespace, term) for term in terms)


def _compile(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    own_only = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        frozenset((namespace,) if own_only else term.namespaces or ()),
        compile_label_selector(term.namespace_selector),
        compile_label_selector(term.label_selector),
    )


def merge_namespaces(term: AffinityTerm, namespace_labels: Mapping[str, Labels]) -> AffinityTerm:
    """The incoming pod's term with the namespaces that its selector picks added to those it names.

    Quirk, kept as upstream has it (interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty takes the term by
    value in v1.36): the selector stays and is later matched against no labels at all, so that one made of
    NotIn or DoesNotExist matches pods of every namespace.
    """
    if term.namespace_selector.is_empty:
        return term
    picked = {name for name, labels in namespace_labels.items() if term.namespace_selector.matches(labels)}
    return AffinityTerm(term.topology_key, term.namespaces | picked, term.namespace_selector, term.selector)
