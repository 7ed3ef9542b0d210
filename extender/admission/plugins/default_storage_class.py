"""DefaultStorageClass: the class of claims that name none.

Mirrors plugin/pkg/admission/storage/storageclass/setdefault/admission.go and pkg/volume/util/storageclass.go (v1.37).
"""

from collections.abc import Iterable

from extender.admission.plugins.shared import is_given, spec_of
from extender.admission.request import Request
from extender.k8s.storage.objects import StorageClass
from extender.k8s.storage.volumes import BETA_CLASS
from extender.k8s.well_known import DEFAULT_STORAGE_CLASS_ANNOTATIONS


def admit(request: Request) -> None:
    """Set the class of a claim without one; an empty class means none, and is kept."""
    spec, metadata = spec_of(request), request.object.get("metadata") or {}
    if spec.get("storageClassName") is not None or BETA_CLASS in (metadata.get("annotations") or {}):
        return
    default = default_class(request.cluster.objects.storage_classes.values())
    if default is not None:
        spec["storageClassName"] = default.metadata.name
    elif not is_given(request.cluster, "storage_classes"):
        request.findings.assumed.append("the default StorageClass")


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the newest default StorageClass, the first by name of equally new ones."""
    found = [
        one
        for one in classes
        if any((one.metadata.annotations or {}).get(name) == "true" for name in DEFAULT_STORAGE_CLASS_ANNOTATIONS)
    ]
    # max() returns the first of equals. Times of an API server compare as texts.
    found.sort(key=lambda one: one.metadata.name)
    return max(found, key=lambda one: one.metadata.creation_timestamp or "", default=None)
