"""Match label selectors with labels, node selectors with nodes, and tolerations with taints.

Selectors are compiled once into frozen, hashable matchers and used many times. Matchers are equal when their
requirements are, in any order.

Rule: compiling a selector that apimachinery rejects raises SelectorError, except for a term of a required node
selector, which matches no node while the other terms still count.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from extender.k8s.devices.objects import DeviceTaint
from extender.k8s.limits.limits import MAX_LABEL_CHARACTERS, MAX_NAME_CHARACTERS, MAX_QUALIFIED_NAME_CHARACTERS
from extender.k8s.objects import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from extender.k8s.quantity import truncated
from extender.utilities.text import join_names

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_SUBDOMAIN_PART}(?:\.{_SUBDOMAIN_PART})*")
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")
FIELD_OPERATORS: Final = ("In", "NotIn")

HARD_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of the taints that keep a pod off a node."""

LabelPredicate = Callable[[Mapping[str, str]], bool]
"""Predicate that returns whether labels are selected."""

_MAX_SHOWN = 5
"""Maximum number of requirements and values in the text of a selector: a pod may have thousands."""

# Number of requirements up to which checking each of them is as fast as looking up the labels.
_MAX_REQUIREMENTS_ONE_BY_ONE = 16


class SelectorError(ValueError):
    """Raised for a selector that apimachinery rejects; the message has the invalid part and the reason."""


def _quoted(text: str) -> str:
    return truncated(repr(text))


# --- syntax of keys and values --------------------------------------------------------------------------------------


def is_qualified_name(name: str) -> bool:
    """Return whether `name` is a valid label key, with or without DNS prefix (validate/content.IsLabelKey, v1.36)."""
    return len(name) <= MAX_QUALIFIED_NAME_CHARACTERS and _is_qualified_name(name)


@lru_cache(maxsize=4096)
def _is_qualified_name(name: str) -> bool:
    prefix, slash, rest = name.partition("/")
    if not slash:
        return _is_name(prefix)
    return len(prefix) <= MAX_NAME_CHARACTERS and _SUBDOMAIN.fullmatch(prefix) is not None and _is_name(rest)


def is_label_value(value: str) -> bool:
    """Return whether `value` is a valid label value (validate/content.IsLabelValue, apimachinery v1.36)."""
    return value == "" or _is_name(value)


def _is_name(text: str) -> bool:
    return len(text) <= MAX_LABEL_CHARACTERS and _NAME.fullmatch(text) is not None


def parse_int64(text: str | None) -> int | None:
    """Parse as strconv.ParseInt(text, 10, 64) does; None for None and for invalid text."""
    parts = _INTEGER.fullmatch(text) if text is not None else None
    if parts is None:
        return None
    number = int(parts[1] + parts[2])
    return number if -(2**63) <= number < 2**63 else None


# --- requirements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `requirement` builds and validates it."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0
    """Operand of Gt and Lt."""

    def holds(self, value: str | None) -> bool:
        """Return whether a label value, or None for a missing label, satisfies the requirement.

        Mirrors labels.Requirement.Matches (apimachinery, v1.36): a missing label satisfies NotIn.
        """
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number = parse_int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator == "Gt" else number < self.bound

    def __str__(self) -> str:
        """Return the requirement as kubectl prints it: `app=web`, `tier in (a, b)`, `!old`, `cores>4`."""
        values = sorted(self.values)
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.bound}"
        if len(values) == 1:
            return f"{self.key}{'=' if self.operator == 'In' else '!='}{values[0]}"
        return f"{self.key} {'in' if self.operator == 'In' else 'notin'} ({join_names(values, _MAX_SHOWN)})"


def requirement(key: str, operator: str, values: Sequence[str] | None, allowed: Sequence[str]) -> Requirement:
    """Validate a requirement (labels.NewRequirement, apimachinery v1.36). Raises SelectorError."""
    given = values or ()
    if operator not in allowed:
        raise SelectorError(f"{_quoted(operator)} is not a valid operator here (these are: {', '.join(allowed)})")
    if not is_qualified_name(key):
        raise SelectorError(f"{_quoted(key)} is not a valid label key")
    if operator in ("In", "NotIn") and not given:
        raise SelectorError(f"{key}: {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and given:
        raise SelectorError(f"{key}: {operator} takes no values")
    if operator in ("Gt", "Lt") and len(given) != 1:
        raise SelectorError(f"{key}: {operator} needs exactly one value")
    for value in given:
        if not is_label_value(value):
            raise SelectorError(f"{key}: {_quoted(value)} is not a valid label value")
    bound = parse_int64(given[0]) if operator in ("Gt", "Lt") else 0
    if bound is None:
        raise SelectorError(f"{key}: {_quoted(given[0])} is not an integer, which Gt and Lt need")
    return Requirement(key, operator, frozenset(given), bound)


def _canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Sort and deduplicate, so that matchers with the same requirements are equal."""
    return tuple(sorted(set(requirements), key=lambda one: (one.key, one.operator, sorted(one.values))))


def _merged(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    """Yield equivalent requirements, at most one per key and operator."""
    values: dict[tuple[str, str, int], set[str]] = {}
    for one in requirements:
        kind = one.key, one.operator, one.bound
        # A value must be in all sets of In, and in none of NotIn.
        if kind not in values:
            values[kind] = set(one.values)
        elif one.operator == "In":
            values[kind] &= one.values
        else:
            values[kind] |= one.values
    for (key, operator, bound), kept in values.items():
        yield Requirement(key, operator, frozenset(kept), bound)


# --- label selectors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """A compiled label selector: all requirements must hold."""

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False
    """Whether it was compiled from an unset selector: it matches nothing, whatever requirements are added."""

    @property
    def is_empty(self) -> bool:
        """Return whether the selector matches everything (labels.Selector.Empty, v1.36)."""
        return not self.requirements and not self.is_nothing

    def __str__(self) -> str:
        """Return the selector as kubectl prints it; `<none>` matches nothing, `<all>` everything."""
        if self.is_nothing or self.is_empty:
            return "<none>" if self.is_nothing else "<all>"
        return join_names([str(one) for one in self.requirements[: _MAX_SHOWN + 1]], _MAX_SHOWN, len(self.requirements))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the labels satisfy every requirement; None means no labels."""
        if self.is_nothing:
            return False
        present = labels or {}
        return all(one.holds(present.get(one.key)) for one in self.requirements)

    def predicate(self) -> LabelPredicate:
        """Return an equivalent of `matches` whose cost grows with the labels, not with the requirements."""
        if self.is_nothing or len(self.requirements) <= _MAX_REQUIREMENTS_ONE_BY_ONE:
            return self.matches
        # Labels are looked up in the requirements, not the other way round: clients may send thousands of requirements.
        by_key: dict[str, list[Requirement]] = {}
        for one in _merged(self.requirements):
            by_key.setdefault(one.key, []).append(one)
        needed = {key for key, here in by_key.items() if not all(one.holds(None) for one in here)}

        def matches(labels: Mapping[str, str]) -> bool:
            return labels.keys() >= needed and all(
                one.holds(value) for key, value in labels.items() for one in by_key.get(key, ())
            )

        return matches

    def with_labels(self, labels: Mapping[str, str]) -> "LabelMatcher":
        """Return the selector with a requirement added for each of `labels`, which are not validated.

        Mirrors podtopologyspread.mergeLabelSetWithSelector (v1.36), which matchLabelKeys needs.
        """
        if self.is_nothing:
            return self
        added = (Requirement(key, "In", frozenset((value,))) for key, value in labels.items())
        return LabelMatcher(_canonical([*self.requirements, *added]))


EVERYTHING: Final = LabelMatcher()
NOTHING: Final = LabelMatcher(is_nothing=True)


def compile_label_selector(selector: LabelSelector | None) -> LabelMatcher:
    """Compile a label selector (metav1.LabelSelectorAsSelector, apimachinery v1.36). Raises SelectorError.

    An unset selector matches nothing, an empty one everything.
    """
    if selector is None:
        return NOTHING
    # matchLabels are requirements like any other, as in upstream; so both spellings compile to equal matchers.
    equal = ((key, "In", (value,)) for key, value in (selector.match_labels or {}).items())
    others = ((one.key, one.operator, one.values) for one in selector.match_expressions or ())
    return LabelMatcher(_canonical(requirement(*one, LABEL_OPERATORS) for one in (*equal, *others)))


# --- node selectors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class FieldRequirement:
    """One condition on a node's field; an unknown field has the value "" (fields.OneTermEqualSelector, v1.36)."""

    key: str
    value: str
    negated: bool

    def __str__(self) -> str:
        return f"{self.key}{'!=' if self.negated else '='}{self.value}"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A compiled term of a node selector: all requirements must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """Compiled nodeSelector and required node affinity: `selector` and one of the `terms` must match.

    Mirrors nodeaffinity.RequiredNodeAffinity (component-helpers, v1.36) without parse errors.
    """

    selector: LabelMatcher = EVERYTHING
    terms: tuple[NodeTerm, ...] | None = None
    """None without required node affinity; an empty tuple matches no node."""


def compile_node_selector(selector: NodeSelector) -> NodeMatcher:
    """Compile a node selector; a term that is empty or invalid matches no node.

    Mirrors nodeaffinity.NewLazyErrorNodeSelector (component-helpers, v1.36), whose errors kube-scheduler ignores.
    """
    return NodeMatcher(terms=_compile_terms(selector))


def parse_node_selector(selector: NodeSelector) -> NodeMatcher:
    """Compile a node selector (nodeaffinity.NewNodeSelector, v1.36). Raises SelectorError for an invalid term."""
    terms = [term for term in selector.node_selector_terms or () if not _is_empty(term)]
    return NodeMatcher(terms=tuple(map(_compile_term, terms)))


def required_node_affinity(pod: Pod) -> NodeMatcher | None:
    """Compile nodeSelector and required node affinity; None if the pod has neither.

    Mirrors nodeaffinity.GetRequiredNodeAffinity (component-helpers, v1.36): nodeSelector is not validated.
    """
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required if affinity else None
    if not pod.spec.node_selector and required is None:
        return None
    terms = None if required is None else _compile_terms(required)
    return NodeMatcher(EVERYTHING.with_labels(pod.spec.node_selector or {}), terms)


def compile_preferred_terms(terms: Sequence[PreferredSchedulingTerm]) -> list[tuple[int, NodeTerm]]:
    """Compile preferred terms to (weight, term), without empty terms and weight 0. Raises SelectorError.

    Mirrors nodeaffinity.NewPreferredSchedulingTerms (component-helpers, v1.36).
    """
    counted = [term for term in terms if term.weight and not _is_empty(term.preference)]
    return [(term.weight, _compile_term(term.preference)) for term in counted]


def _compile_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    # Only the term that fails is dropped: nodeSelectorTerms are ORed.
    parsed = []
    for term in selector.node_selector_terms or ():
        with contextlib.suppress(SelectorError):
            if not _is_empty(term):
                parsed.append(_compile_term(term))
    return tuple(parsed)


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_term(term: NodeSelectorTerm) -> NodeTerm:
    labels = [requirement(one.key, one.operator, one.values, NODE_OPERATORS) for one in term.match_expressions or ()]
    return NodeTerm(_canonical(labels), tuple(sorted({_field(one) for one in term.match_fields or ()})))


def _field(one: NodeSelectorRequirement) -> FieldRequirement:
    if one.operator not in FIELD_OPERATORS:
        raise SelectorError(f"{_quoted(one.operator)} is not a valid operator for a field (In and NotIn are)")
    if one.values is None or len(one.values) != 1:
        raise SelectorError(f"{_quoted(one.key)}: a field requirement needs exactly one value")
    return FieldRequirement(one.key, one.values[0], one.operator == "NotIn")


# --- taints and tolerations -----------------------------------------------------------------------------------------


def tolerates(toleration: Toleration, taint: Taint | DeviceTaint, *, compares: bool) -> bool:
    """Return whether the toleration tolerates the taint (Toleration.ToleratesTaint, k8s.io/api/core/v1, v1.36).

    `compares`: feature gate TaintTolerationComparisonOperators; without it, Gt and Lt tolerate nothing.
    """
    # An empty effect or key matches any.
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if compares and toleration.operator in ("Gt", "Lt"):
        limit, value = _decimal_integer(toleration.value), _decimal_integer(taint.value)
        if limit is None or value is None:
            return False
        return value > limit if toleration.operator == "Gt" else value < limit
    return toleration.operator == "Exists"


def _decimal_integer(text: str) -> int | None:
    """Parse an int64 in canonical form, such as -5 but not +5 or 05; else None (content.IsDecimalInteger, v1.36)."""
    number = parse_int64(text)
    return number if str(number) == text else None


def find_untolerated(
    taints: Iterable[Taint] | None, tolerations: Sequence[Toleration] | None, effects: frozenset[str], *, compares: bool
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration tolerates; None if all are tolerated.

    Mirrors corev1.FindMatchingUntoleratedTaint (component-helpers, v1.36).
    """
    for taint in taints or ():
        if taint.effect in effects and not any(tolerates(one, taint, compares=compares) for one in tolerations or ()):
            return taint
    return None
