"""Pod affinity and anti-affinity terms of running pods: which of them match a given pod, and by which topology keys.

A pod may have thousands of terms. Terms whose topologyKey no node has never match and are not kept; of the others,
only those that some pod can match by its namespace and labels are looked at.

Rule: results are equal to checking every term of every running pod (NodeInfo.PodsWithAffinity, v1.36).
"""

import hashlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

import msgspec
import numpy as np

from extender.core.snapshot.arrays import BoolArray, RowSet
from extender.core.snapshot.pod_table import identity
from extender.core.snapshot.selector_index import MAX_REQUIREMENTS_ONE_BY_ONE, Postings, SelectorTable, Signature
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.affinity import AffinityTerm, count_requirements, preferred_terms, raw_terms, required_terms
from extender.k8s.objects import Affinity, Labels, Pod
from extender.k8s.selectors import SelectorError

_MAX_ANCHORS = 32
"""Anchors of one term; a term with more is found by less: by its namespaces only, or always."""

_MAX_KEPT_SIGNATURES = 256
_MAX_SIGNATURE_LENGTH = 64
"""Longest signature whose result ManyTerms keeps."""


# --- terms of one pod -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetPod:
    """What the terms of other pods read of a pod."""

    namespace: str
    labels: Labels
    namespace_labels: tuple[Labels, ...]
    """Label sets of its namespace, one of which a namespaceSelector has to match."""

    def is_matched_by(self, term: AffinityTerm) -> bool:
        return any(term.pods.matches(self.namespace, self.labels, labels) for labels in self.namespace_labels)


class TermSet(ABC):
    """Compiled terms of one kind of one pod."""

    terms: tuple[AffinityTerm, ...] = ()
    """The terms, if they are few."""

    @abstractmethod
    def weights_for(self, target: TargetPod, keys: Set[str]) -> Mapping[str, int]:
        """Return topology key -> sum of the weights of the terms that match the pod; `keys`: those that nodes have."""

    @abstractmethod
    def all_match(self, target: TargetPod) -> bool:
        """Return whether every term matches the pod."""


class FewTerms(TermSet):
    """Terms that are matched one by one."""

    def __init__(self, terms: Iterable[AffinityTerm] = ()) -> None:
        self.terms = tuple(terms)

    def weights_for(self, target: TargetPod, keys: Set[str]) -> Mapping[str, int]:
        weights: dict[str, int] = {}
        for term in self.terms:
            key = term.topology_key
            if key in keys and target.is_matched_by(term):
                weights[key] = weights.get(key, 0) + term.weight
        return weights

    def all_match(self, target: TargetPod) -> bool:
        return all(map(target.is_matched_by, self.terms))


class ManyTerms(TermSet):
    """Terms that are matched together; results are kept for the label sets that were matched last."""

    def __init__(self, terms: Iterable[AffinityTerm], keys: Set[str]) -> None:
        """Take the terms whose topology key is one of `keys`; raises SelectorError if a term does not parse."""
        self._selectors, self._namespace_selectors, self._named = SelectorTable(), SelectorTable(), Postings()
        self._keys: dict[str, int] = {}
        self._key_of, self._weights = array("i"), array("q")
        self._known: dict[tuple[Signature, int | None, tuple[Signature, ...]], tuple[bool, dict[str, int]]] = {}
        for term in terms:
            if term.topology_key in keys:
                self._add(term)

    def _add(self, term: AffinityTerm) -> None:
        row = len(self._key_of)
        self._key_of.append(self._keys.setdefault(term.topology_key, len(self._keys)))
        self._weights.append(term.weight)
        self._selectors.add(term.pods.selector)
        self._namespace_selectors.add(term.pods.namespace_selector)
        for namespace in term.pods.namespaces:
            self._named.add(namespace, row)

    def weights_for(self, target: TargetPod, keys: Set[str]) -> Mapping[str, int]:
        return self._matched(target)[1]

    def all_match(self, target: TargetPod) -> bool:
        return self._matched(target)[0]

    def _matched(self, target: TargetPod) -> tuple[bool, dict[str, int]]:
        """Return whether all terms match, and topology key -> sum of the weights of those that do."""
        own, named = self._selectors.signature(target.labels), self._named.find(target.namespace)
        scopes = tuple(map(self._namespace_selectors.signature, target.namespace_labels))
        known = self._known.get((own, named, scopes))
        if known is None:
            matches = self._selectors.matching(own) & self._in_scope(named, scopes)
            known = bool(matches.all()), self._sum_per_key(matches)
            if len(self._known) >= _MAX_KEPT_SIGNATURES:
                self._known.clear()
            if len(own) + sum(map(len, scopes)) <= _MAX_SIGNATURE_LENGTH:
                self._known[own, named, scopes] = known
        return known

    def _in_scope(self, named: int | None, scopes: Iterable[Signature]) -> BoolArray:
        """Return [term]: whether its namespaces or its namespaceSelector include the namespace."""
        found = np.logical_or.reduce([self._namespace_selectors.matching(scope) for scope in scopes])
        if named is not None:
            found[self._named.lists((named,))] = True
        return np.asarray(found)

    def _sum_per_key(self, matches: BoolArray) -> dict[str, int]:
        keys, weights = np.array(self._key_of, np.int32)[matches], np.array(self._weights, np.int64)[matches]
        counts, sums = np.bincount(keys, minlength=len(self._keys)), np.zeros(len(self._keys), np.int64)
        np.add.at(sums, keys, weights)
        return {key: int(sums[number]) for key, number in self._keys.items() if counts[number]}


def are_many(affinity: Affinity | None) -> bool:
    """Return whether the terms are so many, or their selectors so long, that they are matched together."""
    return sum(1 + count_requirements(term) for term in raw_terms(affinity)) > MAX_REQUIREMENTS_ONE_BY_ONE


_TermList = Callable[[], Iterator[AffinityTerm]]


@dataclass(frozen=True, slots=True)
class PodTerms:
    """Compiled pod affinity and anti-affinity terms of one pod."""

    affinity: TermSet
    anti_affinity: TermSet
    preferred: TermSet
    """Preferred terms of both kinds; anti-affinity terms have negative weights."""


_NO_TERMS = PodTerms(FewTerms(), FewTerms(), FewTerms())


class ExistingTerms:
    """Terms of a running or nominated pod; a list that has a term that does not parse counts as empty."""

    __slots__ = ("_affinity", "_compiled", "_keys", "_live_keys", "_namespace", "are_many")

    def __init__(self, namespace: str, affinity: Affinity | None) -> None:
        self._namespace, self._affinity, self.are_many = namespace, affinity, are_many(affinity)
        self._keys: Set[str] | None = None
        self._live_keys: Set[str] = frozenset()
        self._compiled = _NO_TERMS if self.are_many else self._compile(frozenset())

    def on(self, keys: frozenset[str]) -> PodTerms:
        """Return the terms; of many, those whose topology key is one of `keys`, the label keys that nodes have."""
        if self.are_many and keys is not self._keys:
            live_keys = {term.topology_key for term in raw_terms(self._affinity)} & keys
            if live_keys != self._live_keys:
                self._compiled, self._live_keys = self._compile(live_keys), live_keys
            self._keys = keys
        return self._compiled

    def _compile(self, keys: Set[str]) -> PodTerms:
        namespace, affinity = self._namespace, self._affinity
        if affinity is None or (self.are_many and not keys):
            return _NO_TERMS

        def build(lists: Iterable[_TermList]) -> TermSet:
            terms = chain.from_iterable(one() for one in lists)
            return ManyTerms(terms, keys) if self.are_many else FewTerms(terms)

        def term_set(*lists: _TermList) -> TermSet:
            try:
                return build(lists)
            except SelectorError:  # an existing pod with terms that do not parse must not fail the incoming pod
                return build(one for one in lists if _parses(one()))

        attracts, repels = affinity.pod_affinity, affinity.pod_anti_affinity
        return PodTerms(
            term_set(partial(required_terms, namespace, attracts)),
            term_set(partial(required_terms, namespace, repels)),
            term_set(partial(preferred_terms, namespace, attracts, 1), partial(preferred_terms, namespace, repels, -1)),
        )


def _parses(terms: Iterator[AffinityTerm]) -> bool:
    try:
        for _ in terms:
            pass
    except SelectorError:
        return False
    return True


# --- terms of all running pods --------------------------------------------------------------------------------------

_LabelAnchor = tuple[str | None, str | None]
"""Label key and value that a pod must have to match a term; (key, None): any value, (None, None): any labels."""


class _TermOwners(RowSet):
    """Running pods of one namespace that have the same affinity spec, hence the same terms."""

    __slots__ = ("anchors", "has_namespace_selector", "terms")

    def __init__(self, namespace: str, affinity: Affinity) -> None:
        super().__init__()
        self.terms = ExistingTerms(namespace, affinity)
        self.has_namespace_selector = any(term.namespace_selector is not None for term in raw_terms(affinity))
        self.anchors: frozenset[tuple[str | None, _LabelAnchor]] = frozenset(self._anchors(namespace, affinity))
        """What a pod must have to match one of the terms: (namespace or None for any, label anchor)."""

    def _anchors(self, namespace: str, affinity: Affinity) -> Iterable[tuple[str | None, _LabelAnchor]]:
        if not self.terms.are_many:
            compiled = self.terms.on(frozenset())
            return chain.from_iterable(
                _anchors(term)
                for terms in (compiled.affinity, compiled.anti_affinity, compiled.preferred)
                for term in terms.terms
            )
        named = {name for term in raw_terms(affinity) for name in term.namespaces or (namespace,)}
        anywhere = self.has_namespace_selector or len(named) > _MAX_ANCHORS
        return product((None,) if anywhere else named, ((None, None),))


def _anchors(term: AffinityTerm) -> Iterable[tuple[str | None, _LabelAnchor]]:
    """Return pairs of a namespace and labels, one of which every pod that the term matches has."""
    pods = term.pods
    if pods.selector.is_nothing:
        return ()
    namespaces: tuple[str | None, ...] = tuple(pods.namespaces) if pods.namespace_selector.is_nothing else (None,)
    required = [one for one in pods.selector.requirements if one.operator in ("In", "Exists")]
    labels: list[_LabelAnchor] = [(None, None)]
    if required:
        # A requirement with one value selects the fewest pods; Exists, which has none, accepts any value.
        narrowest = min(required, key=lambda one: len(one.values) or _MAX_ANCHORS)
        labels = [(narrowest.key, value) for value in narrowest.values] or [(narrowest.key, None)]
    if len(namespaces) * len(labels) > _MAX_ANCHORS:
        labels = [(None, None)]
    if len(namespaces) > _MAX_ANCHORS:
        namespaces = (None,)
    return product(namespaces, labels)


class TermOwnerIndex(Index):
    """Running pods that have pod affinity or anti-affinity terms, grouped by equal terms.

    Upstream: NodeInfo.PodsWithAffinity and PodsWithRequiredAntiAffinity.
    """

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._by_key: dict[tuple[str, bytes], _TermOwners] = {}
        self._by_anchor: dict[str | None, dict[_LabelAnchor, dict[_TermOwners, None]]] = {}
        """Namespace of the pods that the terms can match (None: any) -> label anchor -> the same entries."""
        self._with_namespace_selector = 0
        self._nominees: dict[str, tuple[Affinity | None, ExistingTerms]] = {}

    def pod_added(self, row: int, pod: Pod) -> None:
        key = _owners_key(pod)
        if key is None:
            return
        owners = self._by_key.get(key)
        if owners is None:
            assert pod.spec.affinity is not None
            owners = self._by_key[key] = _TermOwners(key[0], pod.spec.affinity)
            owners.terms.on(self.snapshot.node_label_keys)  # compiled now, so that no decision waits for it
            self._with_namespace_selector += owners.has_namespace_selector
            for namespace, anchor in owners.anchors:
                self._by_anchor.setdefault(namespace, {}).setdefault(anchor, {})[owners] = None
        owners.add(row)

    def pod_removed(self, row: int, pod: Pod) -> None:
        key = _owners_key(pod)
        if key is None:
            return
        owners = self._by_key[key]
        owners.remove(row)
        if owners.members:
            return
        del self._by_key[key]
        self._with_namespace_selector -= owners.has_namespace_selector
        for namespace, anchor in owners.anchors:
            anchored = self._by_anchor[namespace]
            del anchored[anchor][owners]
            if not anchored[anchor]:
                del anchored[anchor]
            if not anchored:
                del self._by_anchor[namespace]

    @property
    def has_namespace_selectors(self) -> bool:
        """Return whether a term of a running pod has a namespaceSelector."""
        return self._with_namespace_selector > 0

    def owners_for(self, target: TargetPod) -> Iterable[_TermOwners]:
        """Return the owners, each once, whose terms can match the pod by its namespace and labels."""
        found: dict[_TermOwners, None] = {}
        for anchored in (self._by_anchor.get(target.namespace), self._by_anchor.get(None)):
            if anchored:
                found |= anchored.get((None, None), {})
                for label in target.labels.items():
                    found |= anchored.get(label, {})
                    found |= anchored.get((label[0], None), {})
        return found

    def terms_of_nominee(self, pod: Pod) -> ExistingTerms:
        """Return the terms of a nominated pod; they are kept while it is one, because every decision reads them."""
        kept = self._nominees.get(identity(pod))
        if kept is None or kept[0] is not pod.spec.affinity:
            nominated = set(map(identity, self.snapshot.nominees))
            self._nominees = {key: terms for key, terms in self._nominees.items() if key in nominated}
            kept = pod.spec.affinity, ExistingTerms(pod.metadata.namespace, pod.spec.affinity)
            self._nominees[identity(pod)] = kept
        return kept[1]


def _owners_key(pod: Pod) -> tuple[str, bytes] | None:
    """Return a key that is equal for pods with equal terms; None for a pod without terms."""
    affinity = pod.spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return None
    # A digest, because a spec of a megabyte would be kept a second time.
    return pod.metadata.namespace, hashlib.blake2b(msgspec.json.encode(affinity), digest_size=16).digest()
