"""What an expression asks for, and what of that there is not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from promql_parser import AggregateExpr, BinaryExpr, MatchOp, MatrixSelector, VectorSelector

from tests.e2e.monitoring.everything import Series

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"

TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus adds to everything that it scrapes."""

OF_PROMETHEUS = {"up": Series()}
"""Series that Prometheus itself adds for every target."""


def alerts() -> list[dict[str, Any]]:
    """Return the alerts of the PrometheusRule, in order."""
    return [rule for group in rule_groups() for rule in group["rules"]]


def rule_groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = manifest()["spec"]["groups"]
    return groups


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8"))
    return loaded


def plain(expression: str) -> str:
    """On one line."""
    return " ".join(expression.split())


def nodes(expression: str) -> list[Any]:
    """The syntax tree, from its root; ValueError if it is none."""
    found: list[Any] = []
    promql_parser.walk(promql_parser.parse(expression), lambda node: found.append(node))
    return found


def selectors(expression: str) -> list[VectorSelector]:
    """Those of ranges too."""
    return [
        node.vector_selector if isinstance(node, MatrixSelector) else node
        for node in nodes(expression)
        if isinstance(node, (MatrixSelector, VectorSelector))
    ]


def metrics_of(expression: str) -> set[str]:
    """Names that are asked for."""
    return {selector.name or "" for selector in selectors(expression)}


def labels_of(expression: str, known: dict[str, Series]) -> set[str]:
    """All that its metrics have."""
    return set(TARGET).union(*(known[name].labels for name in metrics_of(expression)))


def mistakes(expression: str, known: dict[str, Series]) -> list[str]:
    """Names, labels and values that do not exist."""
    try:
        found = selectors(expression)
    except ValueError as error:
        return [f"is not PromQL: {error}"]
    known = known | OF_PROMETHEUS
    unknown = [f"no metric {one.name}" for one in found if one.name not in known]
    if unknown:
        return unknown
    wrong = [text for one in found for text in _of_matchers(one, known[one.name or ""])]
    there = labels_of(expression, known)
    return wrong + [f"no label {label}" for label in _of_modifiers(expression) if label not in there]


def _of_matchers(selector: VectorSelector, series: Series) -> Iterator[str]:
    for matcher in selector.matchers.matchers:
        if matcher.name in TARGET:
            continue
        if matcher.name not in series.labels:
            yield f"{selector.name} has no label {matcher.name}"
            continue
        values = [matcher.value] if matcher.op in (MatchOp.Equal, MatchOp.NotEqual) else matcher.value.split("|")
        for value in values:
            if value not in series.labels[matcher.name]:
                yield f"{selector.name} has no {matcher.name} {value}"


def _of_modifiers(expression: str) -> Iterator[str]:
    for node in nodes(expression):
        if isinstance(node, AggregateExpr) and node.modifier is not None:
            yield from node.modifier.labels
        if isinstance(node, BinaryExpr) and node.modifier is not None:
            if node.modifier.matching is not None:
                yield from node.modifier.matching.labels
            yield from node.modifier.group_labels or ()
