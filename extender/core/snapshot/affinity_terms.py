"""Match pod affinity and anti-affinity terms of running pods with a given pod, by topology key.

A pod may have thousands of terms. Terms whose topologyKey no node has never match and are dropped; others are found
by an anchor: a namespace and a label that a pod must have to match.

Rule: results equal those of checking every term of every running pod (NodeInfo.PodsWithAffinity, v1.36).
"""

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

import msgspec
import numpy as np

from extender.core.snapshot.arrays import BoolArray, IntArray, RowSet
from extender.core.snapshot.pod_table import identity
from extender.core.snapshot.selector_index import MAX_REQUIREMENTS_ONE_BY_ONE, Postings, SelectorTable, Signature
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.affinity import (
    AffinityTerm,
    PodSelector,
    count_requirements,
    preferred_terms,
    raw_terms,
    required_terms,
)
from extender.k8s.objects import Affinity, Labels, Pod
from extender.k8s.selectors import SelectorError
from extender.utilities.groups import remove_member

_MAX_ANCHORS = 32
"""Maximum number of anchors of a pod's terms; with more, the terms are found by namespace only, or for every pod."""

_MAX_CACHED_NAMESPACES = 16
_MAX_CACHED_SIGNATURES = 256
_MAX_SIGNATURE_LENGTH = 64
"""Maximum length of a signature whose result ManyTerms caches."""


# --- terms of one pod -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetPod:
    """The part of a pod that terms of other pods read."""

    namespace: str
    labels: Labels
    namespace_labels: tuple[Labels, ...]
    """Label sets of the pod's namespace; a namespaceSelector has to match one of them."""

    def is_matched_by(self, term: AffinityTerm) -> bool:
        return term.pods.matches(self.namespace, self.labels, self.namespace_labels)


class FewTerms:
    """Terms that are matched one by one."""

    def __init__(self, terms: Iterable[AffinityTerm] = ()) -> None:
        self.terms = tuple(terms)

    def weights_for(self, target: TargetPod, keys: Set[str]) -> Mapping[str, int]:
        """Return topology key -> sum of the weights of the terms that match the pod; `keys`: label keys of nodes."""
        weights: dict[str, int] = defaultdict(int)
        for term in self.terms:
            if term.topology_key in keys and target.is_matched_by(term):
                weights[term.topology_key] += term.weight
        return weights

    def all_match(self, target: TargetPod) -> bool:
        """Return whether every term matches the pod."""
        return all(map(target.is_matched_by, self.terms))


_Namespace = tuple[int | None, tuple[Signature, ...]]
"""The part of a namespace that terms read: index of the list of terms that name it, signatures of its label sets."""


class ManyTerms:
    """Terms that are matched together; results are cached for recent namespaces and label sets."""

    # Matches of a pod without labels are computed once per namespace; labels only change them for terms that name them.

    def __init__(self, terms: Iterable[AffinityTerm], keys: Set[str]) -> None:
        """Take the terms whose topology key is one of `keys`; raises SelectorError if a term does not parse."""
        self._selectors, self._namespace_selectors, self._naming = SelectorTable(), SelectorTable(), Postings()
        self._keys: dict[str, int] = {}
        self._key_of, self._weights = array("i"), array("q")
        self._unlabelled: dict[_Namespace, tuple[BoolArray, BoolArray, IntArray]] = {}
        """Namespace -> [term]: matches it, [term]: also matches a pod without labels in it, totals of the latter."""
        self._known: dict[tuple[_Namespace, Signature], tuple[bool, dict[str, int]]] = {}
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
            self._naming.add(namespace, row)

    def weights_for(self, target: TargetPod, _keys: Set[str]) -> Mapping[str, int]:
        """Return topology key -> sum of the weights of the terms that match the pod."""
        return self._matched(target)[1]

    def all_match(self, target: TargetPod) -> bool:
        """Return whether every term matches the pod."""
        return self._matched(target)[0]

    def _matched(self, target: TargetPod) -> tuple[bool, dict[str, int]]:
        """Return whether all terms match, and topology key -> sum of the weights of the matching terms."""
        signatures = tuple(map(self._namespace_selectors.signature, target.namespace_labels))
        namespace, labels = (self._naming.find(target.namespace), signatures), self._selectors.signature(target.labels)
        known = self._known.get((namespace, labels))
        if known is None:
            counts, weights = self._totals(namespace, labels)
            by_key = {key: int(weights[number]) for key, number in self._keys.items() if counts[number]}
            known = bool(counts.sum() == len(self._key_of)), by_key
            if len(self._known) >= _MAX_CACHED_SIGNATURES:
                self._known.clear()
            if len(labels) + sum(map(len, signatures)) <= _MAX_SIGNATURE_LENGTH:
                self._known[namespace, labels] = known
        return known

    def _totals(self, namespace: _Namespace, labels: Signature) -> IntArray:
        """Return [0: number of matching terms, 1: sum of their weights][topology key]."""
        if namespace not in self._unlabelled:
            if len(self._unlabelled) >= _MAX_CACHED_NAMESPACES:
                self._unlabelled.clear()
            naming, signatures = namespace
            selected = np.logical_or.reduce([self._namespace_selectors.matching(one) for one in signatures])
            if naming is not None:
                selected[self._naming.lists((naming,))] = True
            matches = self._selectors.matching(()) & selected
            self._unlabelled[namespace] = selected, matches, self._sums(np.flatnonzero(matches), 1)
        selected, unlabelled, totals = self._unlabelled[namespace]
        matches = self._selectors.matching(labels) & selected
        changed = np.flatnonzero(matches != unlabelled)
        return totals + self._sums(changed, np.where(matches[changed], 1, -1))

    def _sums(self, rows: IntArray, counts: IntArray | int) -> IntArray:
        """Return the totals of the terms `rows`, each counted `counts` times."""
        totals, keys = np.zeros((2, len(self._keys)), np.int64), np.asarray(self._key_of)[rows]
        np.add.at(totals[0], keys, counts)
        np.add.at(totals[1], keys, counts * np.asarray(self._weights)[rows])
        return totals


TermSet = FewTerms | ManyTerms
"""Compiled terms of one kind, of one pod."""


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
    """Terms of a running or nominated pod; a list with a term that does not parse counts as empty."""

    __slots__ = ("_affinity", "_compiled", "_keys", "_live_keys", "_namespace", "are_many")

    def __init__(self, namespace: str, affinity: Affinity | None) -> None:
        self._namespace, self._affinity, self.are_many = namespace, affinity, are_many(affinity)
        self._keys: Set[str] | None = None
        self._live_keys: Set[str] = frozenset()
        self._compiled = _NO_TERMS if self.are_many else self._compile(frozenset())

    def on(self, keys: frozenset[str]) -> PodTerms:
        """Return the terms; if they are many, only those with a topology key in `keys`, the label keys of nodes."""
        # `node_label_keys` is one object until it changes, so usually nothing is compared.
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
            except SelectorError:
                # An existing pod with terms that do not parse must not fail the incoming pod. As upstream, a list with
                # such a term counts as empty.
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

_Anchor = tuple[str | None, tuple[str, ...]]
"""(namespace, (label key, value)) that a pod must have to match a term; None is any namespace, (key,) any value of the
label, () any labels."""


class _TermOwners(RowSet):
    """Running pods of one namespace that have the same affinity spec, hence the same terms."""

    __slots__ = ("anchors", "has_namespace_selector", "terms")

    def __init__(self, namespace: str, affinity: Affinity) -> None:
        super().__init__()
        self.terms = ExistingTerms(namespace, affinity)
        self.has_namespace_selector = any(term.namespace_selector is not None for term in raw_terms(affinity))
        self.anchors = self._anchors(namespace, affinity)
        """Every pod that one of the terms matches has one of these anchors."""

    def _anchors(self, namespace: str, affinity: Affinity) -> Set[_Anchor]:
        if not self.terms.are_many:
            compiled = self.terms.on(frozenset())
            kinds = (compiled.affinity, compiled.anti_affinity, compiled.preferred)
            terms = chain.from_iterable(kind.terms for kind in kinds if isinstance(kind, FewTerms))
            anchors = {anchor for term in terms for anchor in _anchors(term.pods)}
            if len(anchors) <= _MAX_ANCHORS:
                return anchors
        named = {name for term in raw_terms(affinity) for name in term.namespaces or (namespace,)}
        anywhere = self.has_namespace_selector or len(named) > _MAX_ANCHORS
        return {(name, ()) for name in ((None,) if anywhere else named)}


def _anchors(pods: PodSelector) -> Iterable[_Anchor]:
    """Return the anchors of a term: every pod that the term matches has one of them."""
    if pods.selector.is_nothing:
        return ()
    required = [one for one in pods.selector.requirements if one.operator in ("In", "Exists")]
    # A requirement with one value selects the fewest pods.
    label = next(((one.key, *one.values) for one in required if len(one.values) == 1), None)
    namespaces = pods.namespaces if pods.namespace_selector.is_nothing else (None,)
    return product(namespaces, (label or tuple(one.key for one in required[:1]),))


class TermOwnerIndex(Index):
    """Running pods that have pod affinity or anti-affinity terms, grouped by equal terms.

    Upstream: NodeInfo.PodsWithAffinity and PodsWithRequiredAntiAffinity.
    """

    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._by_key: dict[tuple[str, bytes], _TermOwners] = {}
        self._by_anchor: dict[str | None, dict[tuple[str, ...], dict[_TermOwners, None]]] = {}
        """Namespace of the pods that the terms can match (None: any) -> label anchor -> owners of the terms."""
        self.version = 0
        """Incremented when a pod that has terms is added or removed."""
        self._with_namespace_selector = 0
        self._nominees: dict[str, tuple[Affinity | None, ExistingTerms]] = {}

    def pod_added(self, row: int, pod: Pod) -> None:
        key = _owners_key(pod)
        if key is None:
            return
        self.version += 1
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
        self.version += 1
        owners = self._by_key[key]
        owners.remove(row)
        if owners.members:
            return
        del self._by_key[key]
        self._with_namespace_selector -= owners.has_namespace_selector
        for namespace, anchor in owners.anchors:
            remove_member(self._by_anchor[namespace], anchor, owners)
            if not self._by_anchor[namespace]:
                del self._by_anchor[namespace]

    @property
    def has_namespace_selectors(self) -> bool:
        """Whether a term of a running pod has a namespaceSelector."""
        return self._with_namespace_selector > 0

    def owners_for(self, target: TargetPod) -> Iterable[_TermOwners]:
        """Return the distinct owners whose terms can match the pod by namespace and labels."""
        found: dict[_TermOwners, None] = {}
        for anchored in (self._by_anchor.get(target.namespace), self._by_anchor.get(None)):
            if anchored:
                found |= anchored.get((), {})
                for label in target.labels.items():
                    found |= anchored.get(label, {}) | anchored.get(label[:1], {})
        return found

    def terms_of_nominee(self, pod: Pod) -> ExistingTerms:
        """Return the terms of a nominated pod; they are cached while it is nominated, as every decision reads them."""
        cached = self._nominees.get(identity(pod))
        if cached is None or cached[0] is not pod.spec.affinity:
            nominated = set(map(identity, self.snapshot.nominees))
            self._nominees = {key: terms for key, terms in self._nominees.items() if key in nominated}
            cached = pod.spec.affinity, ExistingTerms(pod.metadata.namespace, pod.spec.affinity)
            self._nominees[identity(pod)] = cached
        return cached[1]


def _owners_key(pod: Pod) -> tuple[str, bytes] | None:
    """Return a key that is equal for pods with equal terms; None for a pod without terms."""
    affinity = pod.spec.affinity
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return None
    # A digest: the terms may take a megabyte, which the pod already holds.
    return pod.metadata.namespace, hashlib.blake2b(msgspec.json.encode(affinity), digest_size=16).digest()
