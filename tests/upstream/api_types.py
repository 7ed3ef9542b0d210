"""Write extender/admission/schema.json: the fields and types of the kinds that admission decodes.

    python -m tests.upstream.api_types

Reads the OpenAPI document that each release of Kubernetes has (api/openapi-spec/swagger.json of k8s.io/kubernetes) from
Go's module cache. A minor that is missing: go mod download k8s.io/kubernetes@v1.29.14
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from extender.k8s.kinds import KINDS

SCHEMA: Final = Path(__file__).parents[2] / "extender/admission/schema.json"

OLDEST, NEWEST = 29, 37

_WORKLOADS: Final = ("apps/v1/Deployment", "apps/v1/DaemonSet", "batch/v1/Job", "batch/v1/CronJob")

# `apiVersion/Kind` of all that is decoded; PodGroups of scheduler-plugins are no part of Kubernetes.
DECODED: Final = {
    *_WORKLOADS,
    *(f"{kind.group}/{version}/{name}".lstrip("/") for name, kind in KINDS.items() for version in kind.versions),
}

_SCALARS: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
}

Types = dict[str, dict[str, str]]
"""Type -> field -> its type: a scalar or a name of Types, after `[]` or `map ` for lists and maps; `!` if required."""


def documents() -> dict[int, Path]:
    """Return the OpenAPI document of the newest patch of each minor in Go's module cache."""
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    found: dict[int, tuple[int, Path]] = {}
    for folder in Path(cache, "k8s.io").glob("kubernetes@v1.*"):
        if (version := re.fullmatch(r"kubernetes@v1\.(\d+)\.(\d+)", folder.name)) is not None:
            minor, patch = int(version[1]), int(version[2])
            document = folder / "api/openapi-spec/swagger.json"
            if document.exists() and patch >= found.get(minor, (0, document))[0]:
                found[minor] = patch, document
    return {minor: found[minor][1] for minor in range(OLDEST, NEWEST + 1) if minor in found}


def types_of(definitions: dict[str, Any]) -> tuple[Types, dict[str, str]]:
    """Return the types of one minor, and `apiVersion/Kind` -> type."""
    kinds, types = {}, {}
    for name, definition in definitions.items():
        for one in definition.get("x-kubernetes-group-version-kind", ()):
            if (key := f"{one['group']}/{one['version']}/{one['kind']}".lstrip("/")) in DECODED:
                kinds[key] = name
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in types:
            fields = definitions[name].get("properties", {})
            required = definitions[name].get("required", ())
            types[_short(name)] = {field: _spelled(one) + "!" * (field in required) for field, one in fields.items()}
            waiting += [ref for one in fields.values() if (ref := _reference(one)) and _short(ref) not in types]
    return types, {key: _short(name) for key, name in kinds.items()}


def _reference(schema: dict[str, Any]) -> str | None:
    """Return the type of Types that a field, its elements or its values have."""
    inner = schema.get("items") or schema.get("additionalProperties")
    if inner:
        return _reference(inner)
    name: str = schema.get("$ref", "").removeprefix("#/definitions/")
    return name if name and name not in _SCALARS and "RawExtension" not in name and "FieldsV1" not in name else None


def _spelled(schema: dict[str, Any]) -> str:
    if (name := _reference({"$ref": schema.get("$ref", "")})) is not None:
        return _short(name)
    if "$ref" in schema:
        return _SCALARS.get(schema["$ref"].removeprefix("#/definitions/"), "any")
    if schema["type"] == "array":
        return "[]" + _spelled(schema["items"])
    if schema["type"] == "object":
        return "map " + _spelled(schema["additionalProperties"]) if "additionalProperties" in schema else "any"
    return {"integer": schema.get("format", "int64"), "boolean": "bool"}.get(schema["type"], schema["type"])


def _short(name: str) -> str:
    """Return `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`."""
    return name.removeprefix("io.k8s.api.").removeprefix("io.k8s.apimachinery.pkg.apis.")


def merged(by_minor: dict[int, Types]) -> Types:
    """Return all types, with the minors of a field after it: `int32@31` since 1.31, `int32@29-30` up to 1.30."""
    out: dict[str, dict[str, str]] = {}
    for name in sorted({name for types in by_minor.values() for name in types}):
        having = {minor: types[name] for minor, types in by_minor.items() if name in types}
        out[name] = {}
        for field in sorted({field for fields in having.values() for field in fields}):
            minors = [minor for minor, fields in having.items() if field in fields]
            # A field is not newer than its type: that of the field that leads here tells.
            since = min(minors) if min(minors) > min(having) else OLDEST
            until = max(minors) if max(minors) < max(having) else NEWEST
            span = f"@{since}" if until == NEWEST else f"@{since}-{until}"
            out[name][field] = having[max(minors)][field] + (span if span != f"@{OLDEST}" else "")
    return out


def schema(paths: dict[int, Path]) -> str:
    """Return the text of schema.json, a line for each type."""
    by_minor: dict[int, Types] = {}
    kinds: dict[str, str] = {}
    for minor, path in paths.items():
        by_minor[minor], found = types_of(json.loads(path.read_bytes())["definitions"])
        kinds |= found
    parts = [
        f"{json.dumps(name)}: {json.dumps(fields, separators=(',', ':'))}" for name, fields in merged(by_minor).items()
    ]
    return f'{{"kinds": {json.dumps(kinds, indent=0, sort_keys=True)},\n"types": {{\n' + ",\n".join(parts) + "\n}}\n"


if __name__ == "__main__":
    found = documents()
    if missing := sorted(set(range(OLDEST, NEWEST + 1)) - set(found)):
        raise SystemExit(f"not in Go's module cache: k8s.io/kubernetes of 1.{', 1.'.join(map(str, missing))}")
    SCHEMA.write_text(schema(found))
