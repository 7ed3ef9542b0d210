"""What Kubernetes takes for a valid object: its own schemas, of the package kubernetes-validate.

Rule: a key that the schema does not know is a mistake; that is what `strict` means there.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource

_SCHEMAS = files("kubernetes_validate") / "kubernetes-json-schema"

OLDEST = 29
"""Minor of the oldest Kubernetes that the manifests are for: the first with sidecars."""

VERSIONS = tuple(
    f"1.{minor}"
    for minor in sorted(int(one.name.split(".")[1]) for one in _SCHEMAS.iterdir() if one.name.endswith("-local-strict"))
    if minor >= OLDEST
)
"""All minors from the oldest to the newest that kubernetes-validate has."""

KINDS_OF_OTHERS = {
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "Certificate": "cert-manager.io/v1",
    "Issuer": "cert-manager.io/v1",
}
"""Kinds that Kubernetes does not have itself, which test_manifests.py looks at by hand."""


def mistakes(one: dict[str, Any], version: str) -> list[str]:
    """Return what that version of Kubernetes has against an object, with the place of it."""
    validator = _validator(one["kind"], one["apiVersion"], version)
    return [f"{one['kind']} {error.json_path}: {error.message}" for error in validator.iter_errors(one)]


@cache
def _validator(kind: str, api_version: str, version: str) -> Draft202012Validator:
    group, _, name = api_version.rpartition("/")
    suffix = "-".join(part for part in (group.partition(".")[0], name) if part)
    schema = _read(version, f"{kind.lower()}-{suffix}.json")
    return Draft202012Validator(schema, registry=_registry(version))


@cache
def _registry(version: str) -> Registry[Any]:
    return Resource.from_contents(_read(version, "_definitions.json")) @ Registry()


def _read(version: str, name: str) -> Any:
    return json.loads((_SCHEMAS / f"v{version}.0-local-strict" / name).read_text(encoding="utf-8"))
