"""Decode a manifest by the types of its API version: refuse wrong types, drop unknown fields and nulls.

Mirrors Go's decoding of JSON with field validation Warn (sigs.k8s.io/json, apimachinery runtime/serializer/json,
v1.37): names are case-sensitive, null is absent, and null as an element or a map's value is the zero value of its type.
So is a field that must be there and is not.
schema.json has the types of all minors; tests/upstream/api_types.py writes it.

Divergences:

- All wrong types are reported, with their places; an API server stops at the first.
- Amounts and times are read as `extender.k8s.quantity` and `extender.k8s.time` read them.
- A limit that is null is absent. An API server makes 0 of it, and refuses a request beside it.
- A version of an API that an older API server does not have yet is decoded all the same.

Rule: decoding copies what it keeps, so that later steps may change the object in place.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from extender.admission.findings import Findings, quoted
from extender.admission.request import Request
from extender.k8s import quantity
from extender.k8s.kinds import kind_without_group
from extender.k8s.time import parse_datetime
from extender.utilities.text import suggestion

Decoder = Callable[[Any, str, Findings], Any]
"""(value, its path, findings) -> the decoded value; null gives the zero value."""

_SCHEMA: Final = Path(__file__).with_name("schema.json")
_FIELD = re.compile(r"(\[\]|map |)([^@!]+)(!?)(?:@(\d+)(?:-(\d+))?)?")
_POINTERS = ("meta.v1.LabelSelector", "intOrString", "any", "time")
"""Types that stay absent where they are required: most are pointers in Go, or an empty value says something else."""

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")
_MAX_SUGGESTIONS = 10  # of an object


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field of an API type."""

    shape: str
    """`[]` for a list, `map ` for a map of the type, or empty."""
    type: str
    is_required: bool
    since: int
    """First minor that has the field."""
    until: int
    """Last minor that has the field."""


@cache
def fields_of(name: str) -> Mapping[str, FieldType]:
    """Return the fields of a type; none for a scalar."""
    fields = {}
    for key, spelled in _schema()["types"].get(name, {}).items():
        parts = _FIELD.fullmatch(spelled)
        assert parts is not None, spelled
        shape, type_name, required, since, until = parts.groups()
        fields[key] = FieldType(shape, type_name, bool(required), int(since or 0), int(until or sys.maxsize))
    return fields


def decode(request: Request) -> None:
    """Check the types of all fields, and replace the object by a copy without unknown fields and nulls."""
    given, findings = request.object, request.findings
    kind = kind_without_group(request.kind)
    served = _served().get(kind, ())
    version = given.get("apiVersion") or (served[0] if served else "")
    if not served or kind != request.kind:
        # A custom resource: its schema is not known here, but its metadata is like any other's.
        metadata = _struct("meta.v1.ObjectMeta", request.cluster.minor)(given.get("metadata"), "metadata", findings)
        request.object = {**given, "metadata": metadata}
        return
    if version not in served:
        findings.invalid.append(
            f'no matches for kind "{kind}" in version {quoted(version)} (known: {", ".join(served)})'
        )
        return
    request.object = _struct(_schema()["kinds"][f"{version}/{kind}"], request.cluster.minor)(given, "", findings)


@cache
def _schema() -> dict[str, dict[str, Any]]:
    schema: dict[str, dict[str, Any]] = json.loads(_SCHEMA.read_bytes())
    return schema


@cache
def _served() -> dict[str, tuple[str, ...]]:
    """Return the API versions of each kind, stable ones first."""
    versions: dict[str, list[str]] = {}
    for key in _schema()["kinds"]:
        version, _, kind = key.rpartition("/")
        versions.setdefault(kind, []).append(version)
    return {
        kind: tuple(sorted(found, key=lambda one: ("alpha" in one or "beta" in one, one)))
        for kind, found in versions.items()
    }


# --- decoders of types ----------------------------------------------------------------------------------------------


@cache
def _struct(name: str, minor: int) -> Decoder:
    decoders: dict[str, Decoder] = {}
    zeros: dict[str, Decoder] = {}
    of_other_minors: dict[str, str] = {}
    for key, field in fields_of(name).items():
        if field.since <= minor <= field.until:
            one = _SCALARS[field.type] if field.type in _SCALARS else _struct(field.type, minor)
            decoders[key] = _SHAPES[field.shape](one)
            if field.is_required and not field.shape and field.type not in _POINTERS:
                zeros[key] = one
        else:
            of_other_minors[key] = f"since 1.{field.since}" if field.since > minor else f"until 1.{field.until}"

    def decode_struct(value: Any, path: str, findings: Findings) -> dict[str, Any]:
        if value is not None and type(value) is not dict:
            _mistake(findings, path, "an object", value)
            return {}
        place = f"{path}." if path else ""
        decoded = {}
        for key, one in (value or {}).items():
            if (decoder := decoders.get(key)) is None:
                meant = f" ({of_other_minors[key]})" if key in of_other_minors else ""
                if not meant and len(findings.pruned) < _MAX_SUGGESTIONS:  # comparing a name with all others takes long
                    meant = suggestion(str(key), decoders)
                findings.pruned.append(f"{place}{key}{meant}")
            elif one is not None:
                decoded[key] = decoder(one, place + key, findings)
        for key, zero in zeros.items():
            if key not in decoded:
                decoded[key] = zero(None, place + key, findings)
        return decoded

    return decode_struct


def _list(element: Decoder) -> Decoder:
    def decode_list(value: Any, path: str, findings: Findings) -> list[Any]:
        if type(value) is not list:
            return [] if value is None else _mistake(findings, path, "a list", value)
        return [element(one, f"{path}[{index}]", findings) for index, one in enumerate(value)]

    return decode_list


def _map(element: Decoder) -> Decoder:
    def decode_map(value: Any, path: str, findings: Findings) -> dict[str, Any]:
        if type(value) is not dict:
            return {} if value is None else _mistake(findings, path, "an object", value)
        return {
            key: element(one, f"{path}[{key}]", findings)
            for key, one in value.items()
            # A limit that a chart leaves empty means no limit; an API server's 0 would be below every request.
            if not (one is None and element is _quantity and path.endswith(".limits"))
        }

    return decode_map


def _plain(python_type: type, expected: str, hint: str = "") -> Decoder:
    zero = python_type()

    def decode_plain(value: Any, path: str, findings: Findings) -> Any:
        if type(value) is python_type:
            return value
        return zero if value is None else _mistake(findings, path, expected, value, hint)

    return decode_plain


def _integer(bits: int) -> Decoder:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def decode_integer(value: Any, path: str, findings: Findings) -> int:
        if type(value) is not int:
            return 0 if value is None else _mistake(findings, path, "an integer", value)
        return value if low <= value <= high else _mistake(findings, path, f"an integer of {bits} bits", value)

    return decode_integer


def _quantity(value: Any, path: str, findings: Findings) -> Any:
    if value is None:
        return "0"
    if type(value) not in (str, int, float):
        return _mistake(findings, path, "a quantity", value)
    try:
        quantity.parse(value)
    except ValueError as error:
        findings.invalid.append(f"{path}: {error}")
    return value


def _time(value: Any, path: str, findings: Findings) -> Any:
    if type(value) is not str:
        return None if value is None else _mistake(findings, path, "a time", value)
    try:
        if not _RFC_3339.fullmatch(value):
            raise ValueError
        parse_datetime(value)
    except ValueError:
        return _mistake(findings, path, "a time such as 2026-01-31T08:00:00Z", value)
    return value


# YAML reads an unquoted 1.10 or true as a number or a boolean.
_string, _int32 = _plain(str, "a string", "; put it in quotes"), _integer(32)

_SCALARS: Final[dict[str, Decoder]] = {
    "string": _string,
    "byte": _string,
    "bool": _plain(bool, "true or false"),
    "int32": _int32,
    "int64": _integer(64),
    "quantity": _quantity,
    "time": _time,
    "intOrString": lambda value, *place: value if type(value) is str else _int32(value, *place),
    "any": lambda value, *_: value,
}


_SHAPES: Final[dict[str, Callable[[Decoder], Decoder]]] = {"": lambda one: one, "[]": _list, "map ": _map}


def _mistake(findings: Findings, path: str, expected: str, value: Any, hint: str = "") -> Any:
    """Report a wrong type, and return the value as it is: an object with mistakes is not read any further."""
    if isinstance(value, dict | list):
        shown, hint = ("an object" if isinstance(value, dict) else "a list"), ""
    else:
        shown = quoted(value)
    findings.invalid.append(f"{path or 'the manifest'}: expected {expected}, got {shown}{hint}")
    return value
