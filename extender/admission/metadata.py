"""Metadata of an object: what is filled in, and what is refused.

Mirrors registry/rest/create.go and meta.go of k8s.io/apiserver, and api/validation/objectmeta.go of
k8s.io/apimachinery (v1.37).

Divergences:

- `resourceVersion` and `managedFields`, as `kubectl get -o yaml` prints them, are dropped and not refused.
- A generated name follows from the manifest and the number of objects there are.
"""

from collections.abc import Callable
from zlib import crc32

from extender.admission.names import dns_label, generated_names
from extender.admission.request import Request
from extender.k8s.kinds import KINDS

_OF_SYSTEM = ("uid", "resourceVersion", "selfLink", "managedFields")
# An API server sets these, too, but they count for an object that exists.
_OF_STATE = ("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def fill_metadata(request: Request) -> None:
    """Drop what only an API server sets, and set the namespace and a name for a generateName."""
    metadata = request.object.setdefault("metadata", {})
    for key in _OF_SYSTEM if request.is_state else (*_OF_SYSTEM, *_OF_STATE):
        metadata.pop(key, None)
    # Workloads that are in no table have a namespace.
    if request.kind not in KINDS or KINDS[request.kind].namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    else:
        metadata.pop("namespace", None)  # EnsureObjectNamespaceMatchesRequestNamespace
    if not metadata.get("name") and metadata.get("generateName"):
        taken = request.cluster.objects.of(request.kind) if request.kind in KINDS else {}
        namespace, prefix = metadata.get("namespace", ""), metadata["generateName"]
        # A hash, not a count, so that a thousand pods with one prefix do not each try the names of those before. It is
        # not random either: the same manifest must get the same answer.
        start = crc32(f"{namespace}/{prefix}/{len(taken)}".encode())
        names = generated_names(prefix, start)
        metadata["name"] = next(name for name in names if (namespace, name) not in taken)


def validate_name(request: Request, name_check: Callable[[str], str | None]) -> None:
    """Check name and namespace of an object; rules.toml has the rules of the metadata that templates have, too."""
    findings, metadata = request.findings, request.object["metadata"]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    # The prefix may end with a dash, because characters follow: an API server masks it, with the character before it.
    if prefix and (detail := name_check(prefix[:-2] + "a" if len(prefix) > 1 and prefix[-1] == "-" else prefix)):
        findings.invalid_value("metadata.generateName", prefix, detail)
    elif not name:
        findings.required("metadata.name", "name or generateName is required")
    elif detail := name_check(name):
        findings.invalid_value("metadata.name", name, detail)
    if detail := dns_label(metadata.get("namespace", "default")):
        findings.invalid_value("metadata.namespace", metadata["namespace"], detail)
