"""Well-known labels of nodes and volumes (k8s.io/api/core/v1 well_known_labels.go, v1.36), and label sets as keys.

Rule: the only module that spells the topology labels.
"""

from typing import Final

from extender.k8s.objects import Labels

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
"""Labels that name a node's instance type, in order of preference."""

ZONE_DELIMITER: Final = "__"
"""Separates the zones in one label of a PersistentVolume (cloud-provider volume.LabelMultiZoneDelimiter)."""

LabelsKey = tuple[tuple[str, str], ...]


def labels_key(labels: Labels | None) -> LabelsKey:
    """Return a hashable key that is equal for equal labels, in any order."""
    return tuple(sorted((labels or {}).items()))
