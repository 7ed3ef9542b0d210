"""Admit an object as an API server of the cluster's version does with its default admission plugins.

The order is that of a create request: decoding and defaulting (k8s.io/apiserver endpoints/handlers/create.go), mutating
admission plugins (pkg/kubeapiserver/options/plugins.go), the kind's strategy and validation (registry/rest/create.go),
then validating admission plugins.

Rule: an object that an API server would refuse raises Refused with all its mistakes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, Protocol

from extender.admission import rules, schema
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import MAX_MISTAKES, MAX_VALUE_CHARACTERS, Findings, Refused
from extender.admission.metadata import fill_metadata
from extender.admission.plugins import (
    default_storage_class,
    default_toleration_seconds,
    limit_ranger,
    priority,
    resource_quota,
    runtime_class,
)
from extender.admission.pods.defaults import default_pod
from extender.admission.pods.strategy import prepare_pod
from extender.admission.request import Manifest, Request
from extender.utilities.text import shortened

AdmissionMode = Literal["local", "server", "none"]
"""local: this module; server: a dry run of the API server; none: only types are checked."""


class Admit(Protocol):
    """Makes of a manifest what an API server stores; raises Refused."""

    def __call__(
        self, kind: str, manifest: Mapping[str, Any], cluster: AdmissionCluster
    ) -> tuple[Manifest, Findings]: ...


Step = Callable[[Request], None]
"""Changes the object of a request in place and adds to its findings; raises nothing."""

MUTATING_PLUGINS: Mapping[str, tuple[Step, ...]] = {
    "Pod": (limit_ranger.admit, priority.admit, default_toleration_seconds.admit, runtime_class.admit),
    "PersistentVolumeClaim": (default_storage_class.admit,),
}
"""Kind -> admission plugins that change the object, in the order in which an API server runs them."""

VALIDATING_PLUGINS: Mapping[str, tuple[Step, ...]] = {
    "Pod": (limit_ranger.validate, runtime_class.validate, resource_quota.validate),
    "PersistentVolumeClaim": (limit_ranger.validate, resource_quota.validate),
    "PriorityClass": (priority.validate,),
    **dict.fromkeys(resource_quota.COUNTED_KINDS, (resource_quota.validate,)),
}
"""Kind -> admission plugins that only refuse, in order."""


def admit(
    kind: str,
    manifest: Mapping[str, Any],
    cluster: AdmissionCluster,
    *,
    is_state: bool = False,
    strict: bool = False,
) -> tuple[Manifest, Findings]:
    """Return the object as an API server stores it, and the findings; the manifest itself does not change.

    `is_state`: see Request. `strict`: refuse also fields that are left out and that scheduling does not read.
    Raises Refused with every mistake.
    """
    request = Request(kind, dict(manifest), cluster, is_state)
    # 1. Types: an object that does not decode has no fields to look at.
    schema.decode(request)
    _raise_refused(request, strict)
    fill_metadata(request)
    # 2. Everything else, so that all mistakes are reported at once.
    for step in _steps(kind):
        step(request)
    _raise_refused(request, strict)
    return request.object, request.findings


def _steps(kind: str) -> Iterator[Step]:
    """Yield the steps of a kind in order; none for a kind without rules, such as a custom resource."""
    if kind in rules.KINDS:
        yield default_pod if kind == "Pod" else rules.set_defaults
        yield from MUTATING_PLUGINS.get(kind, ())
        yield prepare_pod if kind == "Pod" else rules.prepare_for_create
        yield rules.validate
        yield from VALIDATING_PLUGINS.get(kind, ())


def decoded(kind: str, manifest: Mapping[str, Any], cluster: AdmissionCluster) -> Manifest:
    """Return the object without unknown fields and nulls, and nothing else done; Refused for wrong types."""
    request = Request(kind, dict(manifest), cluster)
    schema.decode(request)
    _raise_refused(request, strict=False)
    return request.object


def admission_of(mode: AdmissionMode, strict: bool, server: Admit | None = None) -> Admit:
    """Return the function for a mode; ValueError if mode server has no API server."""
    if mode == "none":
        return lambda kind, given, cluster: (decoded(kind, given, cluster), Findings())
    if mode == "local":
        return partial(admit, strict=strict)
    if server is None:
        raise ValueError("admission: server needs an API server")
    return server


def _raise_refused(request: Request, strict: bool) -> None:
    found = request.findings
    mistakes = [*found.forbidden, *found.invalid]
    if strict:
        mistakes += [f"{path}: Required value" for path in found.left_out]
        mistakes += [f"unknown field {pruned}" for pruned in found.pruned]
    elif mistakes:
        # A misspelled field is often why a required one is missing.
        mistakes += [f"beside it, unknown and dropped: {pruned}" for pruned in found.pruned]
    if mistakes:
        more = len(mistakes) - MAX_MISTAKES
        shown = mistakes[:MAX_MISTAKES] + ([f"and {more} more"] if more > 0 else [])
        metadata = request.object.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        name = shortened(str(name or ""), MAX_VALUE_CHARACTERS)
        problem = "is forbidden" if mistakes == found.forbidden else "is invalid"
        raise Refused(" ".join(filter(None, (request.kind, name, problem))) + ": " + "; ".join(shown))
