"""The checks that rules.toml names beside those of names: of fields, and of what several fields of a struct have to do.

Mirrors the small validators of pkg/apis/core/validation and k8s.io/apimachinery api/validate (v1.37).
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from extender.admission import names
from extender.admission.pods.resources import amount, validate_resources
from extender.admission.request import Manifest, Request
from extender.k8s import quantity

_PERCENT = re.compile("(?=[0-9])0*([0-9]*)%")
MAX_ANNOTATIONS_BYTES: Final = 256 << 10

NAMES: Final = vars(names)
"""Checks of names by name, each with the text as its only argument."""

# --- checks of fields -------------------------------------------------------------------------------------------------


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (path, text) for a text that is not empty, for the items of a list, or for the keys of a map."""
    if isinstance(value, str):
        if value:
            yield path, value
    else:
        for key, text in enumerate(value) if isinstance(value, list) else zip(value, value, strict=True):
            yield f"{path}[{key}]", text


def named(request: Request, path: str, value: Any, check: str) -> None:
    for at, text in _texts(path, value):
        if detail := NAMES[check](text):
            request.findings.invalid_value(at, text, detail)


def one_of(request: Request, path: str, value: Any, *supported: str) -> None:
    for at, text in _texts(path, value):
        if text not in supported:
            request.findings.unsupported(at, text, supported)


def not_empty(request: Request, path: str, value: Any) -> None:
    if value is False or value == "":
        request.findings.invalid_value(path, value, "must be either unset or set to a non-empty value")


def alone(request: Request, path: str, value: list[str], item: str) -> None:
    if item in value and {*value} != {item}:
        request.findings.forbid(path, f"may not use {item} with other access modes")


def not_both(request: Request, path: str, value: list[str], *items: str) -> None:
    if {*items} <= {*value}:
        request.findings.invalid_value(path, value, "conflicting scopes")


def at_least(request: Request, path: str, value: int, minimum: str) -> None:
    if value < int(minimum):
        words = "greater than zero" if minimum == "1" else f"greater than or equal to {minimum}"
        request.findings.invalid_value(path, value, f"must be {words}")


def between(request: Request, path: str, value: int, low: str, high: str) -> None:
    if not int(low) <= value <= int(high):
        request.findings.invalid_value(path, value, f"must be between {low} and {high}, inclusive")


def at_most(request: Request, path: str, value: Any, maximum: str) -> None:
    """Check the number of items, or the length of a text."""
    if len(value) > int(maximum):
        many, items = ("Too long", "bytes") if isinstance(value, str) else ("Too many", "items")
        request.findings.invalid.append(f"{path}: {many}: {len(value)}: must have at most {maximum} {items}")


def unique(request: Request, path: str, value: list[Any], *keys: str) -> None:
    """Check that no two items are equal, or have the same texts in these fields, if they have any."""
    seen: set[Any] = set()
    for index, item in enumerate(value):
        identity = tuple([item.get(key, "") for key in keys]) if keys else json.dumps(item, sort_keys=True)
        if identity in seen and any(identity):
            request.findings.duplicate(f"{path}[{index}]", {key: item.get(key) for key in keys} if keys else item)
        seen.add(identity)


def ascending(request: Request, path: str, value: list[str]) -> None:
    if value != sorted({*value}):
        request.findings.invalid_value(path, value, "list must be sorted, without duplicates")


def not_negative(request: Request, path: str, value: Any) -> None:
    if quantity.parse(value) < 0:
        request.findings.invalid_value(path, value, "must be greater than or equal to 0")


def above_zero(request: Request, path: str, value: Any) -> None:
    """Check a quantity, or all of a map."""
    for key, one in value.items() if isinstance(value, dict) else (("", value),):
        if quantity.parse(one) <= 0:
            request.findings.invalid_value(f"{path}[{key}]" if key else path, one, "must be greater than zero")


def amounts(request: Request, path: str, value: Manifest) -> None:
    """Check quantities by resource (ValidateResourceQuantityValue)."""
    for name, text in value.items():
        if detail := amount(name, text):
            request.findings.invalid_value(f"{path}.{name}", text, detail)


def number_or_percent(request: Request, path: str, value: int | str, maximum: str = "") -> None:
    """Check a number, or a percentage up to a maximum (ValidatePositiveIntOrPercent, IsNotMoreThan100Percent)."""
    if isinstance(value, int):
        at_least(request, path, value, "0")
    elif not (found := _PERCENT.fullmatch(value)):
        detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
        request.findings.invalid_value(path, value, detail)
    # The length comes first: Python refuses to convert thousands of digits.
    elif maximum and (len(found[1]) > len(maximum) or int(found[1] or "0") > int(maximum)):
        request.findings.invalid_value(path, value, f"must not be greater than {maximum}%")


def labels(request: Request, path: str, value: dict[str, str]) -> None:
    """Check the keys and values of labels (ValidateLabels)."""
    for key, text in value.items():
        if detail := names.qualified_name(key):
            request.findings.invalid_value(path, key, detail)
        if detail := names.label_value(text):
            request.findings.invalid_value(path, text, detail)


def annotations(request: Request, path: str, value: dict[str, str]) -> None:
    for key in value:
        if detail := names.qualified_name(key.lower()):
            request.findings.invalid_value(path, key, detail)
    # UTF-8 takes at most four bytes per character, so most annotations need not be encoded.
    if 4 * sum(len(key) + len(text) for key, text in value.items()) > MAX_ANNOTATIONS_BYTES:
        size = sum(len(key.encode()) + len(text.encode()) for key, text in value.items())
        if size > MAX_ANNOTATIONS_BYTES:
            request.findings.invalid.append(f"{path}: Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes")


def owners(request: Request, path: str, value: list[Manifest]) -> None:
    controllers = [f"{one['kind']}/{one['name']}" for one in value if one.get("controller")]
    if len(controllers) > 1:
        both = " and ".join(controllers[:2])
        detail = f"only one reference can have controller set to true, found {both}"
        request.findings.invalid_value(path, value, detail)


def overhead(request: Request, path: str, value: Manifest) -> None:
    validate_resources(request.findings, {"limits": value}, path, names.container_resource_name)


# --- checks of a struct -----------------------------------------------------------------------------------------------


def number_of_values(request: Request, path: str, value: Manifest) -> None:
    """Check that a requirement of a selector has as many values as its operator takes."""
    operator, number = value["operator"], len(value.get("values") or ())
    if operator in ("In", "NotIn") and not number:
        request.findings.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and number:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        request.findings.forbid(f"{path}.values", detail)
    elif operator in ("Gt", "Lt") and number != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        request.findings.required(f"{path}.values", detail)


def needs(request: Request, path: str, value: Manifest, *fields: str) -> None:
    """Require fields that are no texts."""
    for one in fields:
        if not value.get(one):
            request.findings.required(f"{path}.{one}")


def any_of(request: Request, path: str, value: Manifest, *fields: str) -> None:
    if all(value.get(one) in (None, []) for one in fields):
        request.findings.required(path, f"one of {', '.join(f'`{one}`' for one in fields)} is required")


def at_most_one(request: Request, path: str, value: Manifest, *fields: str) -> None:
    given = [one for one in fields if value.get(one) not in (None, [])]
    if len(given) > 1:
        request.findings.invalid_value(path, given, f"{' and '.join(given[:2])} cannot be both set")


def exactly_one(request: Request, path: str, value: Manifest, *fields: str) -> None:
    any_of(request, path, value, *fields)
    at_most_one(request, path, value, *fields)
