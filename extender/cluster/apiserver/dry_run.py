"""Ask an API server what it would store of a manifest: a create request with `dryRun=All`, which writes nothing.

Everything that admits an object there takes part: admission plugins, policies, quotas, and webhooks that support dry
runs. Only what exists in the cluster does: a priority class beside the pod in a file does not.

    answer                       then
    2xx                          the object as it would be stored; its Warning headers become findings
    409 AlreadyExists            ask again under a generated name
    401, 403 of an authorizer    the API server cannot be asked: ClusterLost
    any other 4xx                Refused, with the API server's message
    429, 5xx, none               ask again while time is left, at most MAX_TRIES times in all; then ClusterLost

Unlike `kubectl create --dry-run=server`, unknown fields are dropped with a warning (`fieldValidation=Warn`),
and refused only if `strict`; a name may be taken, because what-if questions are about objects of the cluster, too.

Rule: no request without `dryRun=All`.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from extender.admission.findings import Findings, Refused, quoted
from extender.admission.request import Manifest
from extender.cluster.apiserver.binding import DNS_LABEL
from extender.cluster.apiserver.client import QueryParams, Timeout
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.errors import ClusterLost, printable
from extender.k8s.kinds import KINDS, kind_without_group, plural_of

MAX_TRIES = 3
"""Number of requests for one object, while the API server does not answer or is overloaded."""

MIN_REQUEST_SECONDS = 0.2
"""Minimum time left for a request: with less, a timeout is likelier than a response."""

_WORKLOAD_VERSIONS = {"Deployment": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1"}
"""apiVersion of workloads that are not in KINDS, for a manifest without one."""

_API_VERSION = re.compile(r"([a-z0-9][-.a-z0-9]*/)?v[0-9a-z]+")
_UNKNOWN_FIELD = re.compile(r'unknown field "(.+)"')

_NOT_ALLOWED = '" cannot create resource "'
"""Part of an authorizer's message (apiserver, responsewriters.Forbidden), which no admission plugin's 403 has."""


class CreateApi(Protocol):
    """The request of a dry run, as ApiServer implements it; raises ApiError or ApiUnreachable."""

    def create(
        self, path: str, params: QueryParams, body: bytes, timeout: Timeout
    ) -> tuple[bytes, tuple[str, ...]]: ...


@dataclass(frozen=True, slots=True)
class ServerAdmission:
    """Admits objects by asking the API server; the counterpart of `admission.admit`."""

    api: CreateApi
    deadline: float
    """Time by the clock after which nothing more is asked."""
    strict: bool = False
    """Whether unknown and duplicate fields are refused, as kubectl has it by default."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def admit(self, kind: str, manifest: Manifest, namespace: str) -> tuple[Manifest, Findings]:
        """Return the object as the API server would store it, and findings; `namespace`: for a manifest without one.

        Raises Refused if the API server refuses the object, and ClusterLost if it cannot be asked.
        """
        sent = _complete(kind, manifest, namespace)
        metadata, path, called = sent["metadata"], _path(kind, sent), _called(sent)
        try:
            try:
                return self._create(path, sent, called)
            except ApiError as error:
                if error.reason != "AlreadyExists" or "name" not in metadata:
                    raise
            # An API server admits and validates an object before it looks whether the name is taken: only the answer
            # with the object is missing.
            name, others = metadata["name"], {key: value for key, value in metadata.items() if key != "name"}
            found, findings = self._create(path, sent | {"metadata": others | {"generateName": f"{name}-"}}, called)
        except ApiError as error:
            raise _failure(error, kind, sent, called) from error
        found["metadata"].pop("generateName", None)
        found["metadata"]["name"] = name
        findings.warnings.append(f"{called} exists: the API server was asked about another one like it")
        return found, findings

    def _create(self, path: str, sent: Manifest, called: str) -> tuple[Manifest, Findings]:
        body, warnings = self._send(path, msgspec.json.encode(sent), called)
        try:
            found = msgspec.json.decode(body, type=dict[str, Any])
        except (ValueError, RecursionError):
            found = {}
        if not isinstance(found.get("metadata"), dict) or found.get("kind") != sent["kind"]:
            raise ClusterLost(f"the API server did not answer with {called}")
        findings = Findings()
        for warning in warnings:
            unknown = _UNKNOWN_FIELD.fullmatch(warning)
            if unknown:
                findings.pruned.append(unknown[1])
            else:
                findings.warnings.append(warning)
        return found, findings

    def _send(self, path: str, body: bytes, called: str) -> tuple[bytes, tuple[str, ...]]:
        """Send the request, again after a failure that may be transient: nothing is written, so that does no harm."""
        params = {"dryRun": "All", "fieldValidation": "Strict" if self.strict else "Warn"}
        problem = "no time left"
        for attempt in range(MAX_TRIES):
            left = self.deadline - self.clock()
            if left < MIN_REQUEST_SECONDS:
                break
            wait = float(attempt)
            try:
                return self.api.create(path, params, body, timeout=(left / 4, left * 3 / 4))
            except ApiUnreachable as error:
                problem = str(error)
            except ApiError as error:
                if error.code != 429 and error.code < 500:
                    raise
                problem, wait = str(error), max(wait, error.retry_after or 0.0)
            if attempt + 1 < MAX_TRIES and self.clock() + wait + MIN_REQUEST_SECONDS < self.deadline:
                self.pause(wait)
            else:
                break
        raise ClusterLost(f"the API server does not say what it makes of {called}: {problem}")


def _failure(error: ApiError, kind: str, sent: Manifest, called: str) -> ClusterLost | Refused:
    if error.code == 401:
        return ClusterLost(f"the API server does not say what it makes of {called}: {error}")
    if error.code == 403 and _NOT_ALLOWED in error.message:
        namespace = sent["metadata"].get("namespace")
        where = f" in namespace {namespace}" if namespace else ""
        needs = f"permission to create {plural_of(kind)}{where}, although a dry run writes nothing"
        return ClusterLost(printable(f"the API server cannot be asked about {called}, which requires {needs}: {error}"))
    return Refused(f"the API server refuses {called}: {error.message or error}")


def _complete(kind: str, manifest: Manifest, namespace: str) -> Manifest:
    """Return the manifest with what the path of its request needs: apiVersion, kind and namespace."""
    of_kind, given = KINDS.get(kind), manifest.get("metadata")
    metadata = dict(given) if isinstance(given, dict) else {}
    if of_kind is None or of_kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or namespace
    version = of_kind.api_version if of_kind is not None else _WORKLOAD_VERSIONS.get(kind, "v1")
    found = {"apiVersion": manifest.get("apiVersion") or version, "kind": kind_without_group(kind)}
    return manifest | found | {"metadata": metadata}


def _path(kind: str, sent: Manifest) -> str:
    """Return the path of the collection; Refused for a name that would change the path, like `..`."""
    api_version, namespace = str(sent["apiVersion"]), str(sent["metadata"].get("namespace") or "")
    if not _API_VERSION.fullmatch(api_version):
        raise Refused(f"apiVersion: Invalid value: {quoted(api_version)}")
    if namespace and not DNS_LABEL.fullmatch(namespace):
        raise Refused(f"metadata.namespace: Invalid value: {quoted(namespace)}: must be a DNS label")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural_of(kind)}" if namespace else f"{root}/{plural_of(kind)}"


def _called(sent: Manifest) -> str:
    metadata, name = sent["metadata"], sent["metadata"].get("name") or sent["metadata"].get("generateName") or ""
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return printable(f"{sent['kind']} {namespace}{name}")
