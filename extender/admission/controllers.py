"""Claims that the ephemeral volume controller creates for a new pod.

Mirrors pkg/controller/volume/ephemeral/controller.go, v1.37.
"""

from collections.abc import Iterator

from extender.admission.request import Manifest


def ephemeral_claims(pod: Manifest) -> Iterator[Manifest]:
    """Yield the PersistentVolumeClaims of the pod's generic ephemeral volumes; `pod` is an admitted manifest."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        given = template.get("metadata") or {}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{metadata['name']}-{volume['name']}",
                "namespace": metadata["namespace"],
                "labels": given.get("labels"),
                "annotations": given.get("annotations"),
                "ownerReferences": [owner],
            },
            "spec": template.get("spec") or {},
        }
