"""Validation of what places a pod: affinity, tolerations, topology spread and node selectors.

Mirrors ValidateTolerations, ValidateNodeSelector and validateTopologySpreadConstraints
(pkg/apis/core/validation/validation.go, v1.37), beside the rules of single fields in rules.toml.
"""

from collections import Counter
from typing import Final

from extender.admission.checks import named, number_of_values, one_of
from extender.admission.pods.strategy import merges_spread_keys
from extender.admission.request import Manifest, Request
from extender.k8s.selectors import NODE_OPERATORS, parse_int64

_COMPARISONS: Final = ("Lt", "Gt")


def toleration(request: Request, path: str, value: Manifest) -> None:
    findings, operator, text = request.findings, value.get("operator", ""), value.get("value", "")
    if not value.get("key") and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        findings.invalid_value(f"{path}.operator", operator, detail)
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        findings.invalid_value(f"{path}.effect", value.get("effect", ""), detail)
    has_comparisons = request.cluster.features.taint_toleration_comparison_operators
    if operator in ("Equal", ""):
        named(request, f"{path}.operator", text, "label_value")
    elif operator == "Exists":
        if text:
            findings.invalid_value(f"{path}.operator", text, "value must be empty when `operator` is 'Exists'")
    elif operator not in _COMPARISONS or not has_comparisons:
        one_of(request, f"{path}.operator", operator, "Equal", "Exists", *(_COMPARISONS if has_comparisons else ()))
    elif (number := parse_int64(text)) is None or str(number) != text:
        findings.invalid_value(f"{path}.value", text, "must be a decimal integer of 64 bits")


def node_selector(request: Request, path: str, value: Manifest) -> None:
    """Check a required node selector; its terms are checked as terms are everywhere."""
    terms = value.get("nodeSelectorTerms") or ()
    if not terms:
        request.findings.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        for at, one in enumerate(term.get("matchExpressions") or ()):
            place = f"{path}.nodeSelectorTerms[{index}].matchExpressions[{at}].values"
            named(request, place, one.get("values") or [], "label_value")


def node_selector_term(request: Request, path: str, value: Manifest) -> None:
    """Check the requirements of a term; values of labels only count in a required node selector."""
    for index, one in enumerate(value.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        named(request, f"{place}.key", one["key"], "qualified_name")
        one_of(request, f"{place}.operator", one["operator"], *NODE_OPERATORS)
        number_of_values(request, place, one)
    for index, one in enumerate(value.get("matchFields") or ()):
        place, values = f"{path}.matchFields[{index}]", one.get("values") or []
        one_of(request, f"{place}.key", one["key"], "metadata.name")
        one_of(request, f"{place}.operator", one["operator"], "In", "NotIn")
        named(request, f"{place}.values", values, "dns_subdomain")
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            request.findings.required(f"{place}.values", detail)


def spread_constraint(request: Request, path: str, value: Manifest) -> None:
    action = value["whenUnsatisfiable"]
    if "minDomains" in value and action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        request.findings.invalid_value(f"{path}.minDomains", value["minDomains"], detail)
    _check_label_keys(request, path, value, merged=merges_spread_keys(request))


def affinity_term(request: Request, path: str, value: Manifest) -> None:
    _check_label_keys(request, path, value, merged=True)


def _check_label_keys(request: Request, path: str, value: Manifest, *, merged: bool) -> None:
    """Check matchLabelKeys and mismatchLabelKeys.

    `merged`: matchLabelKeys are in the selector by now, so that a key which the selector has twice was there before. In
    a template they are not, and an API server does not notice.
    """
    findings, selector = request.findings, value.get("labelSelector") or {}
    matched, mismatched = value.get("matchLabelKeys") or (), value.get("mismatchLabelKeys") or ()
    if not matched and not mismatched:
        return
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and value.get("labelSelector") is None:
            findings.forbid(f"{path}.{field}", "must not be specified when labelSelector is not set")
    expressions = selector.get("matchExpressions") or ()
    seen = Counter([*(selector.get("matchLabels") or ()), *(one.get("key", "") for one in expressions)])
    both = set(matched).intersection(mismatched)
    for index, key in enumerate(matched):
        for other in ("labelSelector",) * (seen[key] > int(merged)) + ("mismatchLabelKeys",) * (key in both):
            findings.invalid_value(f"{path}.matchLabelKeys[{index}]", key, f"exists in both matchLabelKeys and {other}")
