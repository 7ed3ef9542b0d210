"""Well-known labels of nodes and volumes (k8s.io/api/core/v1 well_known_labels, v1.36); labels as a key."""

from typing import Final

from extender.k8s.objects import Labels

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

ZONE_DELIMITER: Final = "__"
"""Between the zones that one label of a volume names."""

LabelsKey = tuple[tuple[str, str], ...]


def labels_key(labels: Labels | None) -> LabelsKey:
    """The same for the same labels, in whatever order; hashable."""
    return tuple(sorted((labels or {}).items()))
