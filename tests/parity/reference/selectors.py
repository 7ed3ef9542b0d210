"""Do labels match a selector, a node a node selector, a toleration a taint.

Rule: a selector that upstream would not parse matches nothing, and says so by `InvalidSelectorError` where it is built.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.parity.reference.objects import JSON, labels

Labels = Mapping[str, str]

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = re.compile(rf"(?=.{{0,63}}$)({_NAME})?")
_KEY = re.compile(rf"(?=(.*/)?[^/]{{1,63}}$)([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}")
_INTEGER = re.compile(r"[+-]?\d+")


class InvalidSelectorError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """`labels.NewRequirement`."""
        count = len(self.values)
        right_count = {
            "In": count > 0,
            "NotIn": count > 0,
            "Exists": count == 0,
            "DoesNotExist": count == 0,
            "Gt": count == 1 and _is_integer(self.values[0]),
            "Lt": count == 1 and _is_integer(self.values[0]),
        }
        if not right_count.get(self.operator, False):
            raise InvalidSelectorError(f"{self.operator} with {count} values")
        if not _KEY.fullmatch(self.key) or not all(map(_VALUE.fullmatch, self.values)):
            raise InvalidSelectorError(f"not a label: {self.key} {self.values}")

    def matches(self, found: Labels) -> bool:
        value = found.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _is_integer(value):
            return False
        limit = int(self.values[0])
        return int(value) > limit if self.operator == "Gt" else int(value) < limit


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector; `requirements` is None for one that is not given, which matches nothing."""

    requirements: tuple[Requirement, ...] | None

    @property
    def is_empty(self) -> bool:
        return self.requirements == ()

    def matches(self, found: Labels) -> bool:
        return self.requirements is not None and all(one.matches(found) for one in self.requirements)

    def and_also(self, other: "Selector") -> "Selector":
        """What both match; one that matches nothing stays so."""
        if self.requirements is None or other.requirements is None:
            return Selector(None)
        return Selector((*self.requirements, *other.requirements))


def equal_to(wanted: Labels) -> Selector:
    """All of these labels."""
    return Selector(tuple(Requirement(key, "In", (value,)) for key, value in wanted.items()))


def label_selector(given: JSON | None) -> Selector:
    """`LabelSelectorAsSelector`: nothing given matches nothing, an empty one everything."""
    if given is None:
        return Selector(None)
    equal = equal_to(given.get("matchLabels") or {})
    listed = given.get("matchExpressions") or ()
    if any(one["operator"] in ("Gt", "Lt") for one in listed):
        raise InvalidSelectorError("Gt and Lt are for nodes")
    return equal.and_also(Selector(tuple(map(_requirement, listed))))


def node_matches_terms(node: JSON, terms: list[JSON]) -> bool:
    """Any term matches; one that is empty or does not parse never does."""
    return any(node_matches_term(node, term) for term in terms)


def node_matches_term(node: JSON, term: JSON) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    try:
        wanted = [_requirement(one) for one in expressions]
        right_name = [_field_matches(node, one) for one in fields]
    except InvalidSelectorError:
        return False
    return all(one.matches(labels(node)) for one in wanted) and all(right_name)


def tolerates(tolerations: list[JSON], taint: JSON) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def _field_matches(node: JSON, given: JSON) -> bool:
    """Upstream's quirk: a node without a name, as VolumeBinding makes one up, has every field."""
    values = given.get("values") or []
    if given["operator"] not in ("In", "NotIn") or len(values) != 1:
        raise InvalidSelectorError("a field is compared with one value")
    if "name" not in node["metadata"]:
        return True
    value = node["metadata"]["name"] if given["key"] == "metadata.name" else ""
    return bool((value == values[0]) == (given["operator"] == "In"))


def _requirement(given: JSON) -> Requirement:
    return Requirement(given["key"], given["operator"], tuple(given.get("values") or ()))


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63
