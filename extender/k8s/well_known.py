"""Well-known labels (k8s.io/api/core/v1 well_known_labels.go, v1.36), and annotations that policies read.

Rule: names only; values are parsed where they are read.
"""

from typing import Final

# --- labels of nodes and volumes --------------------------------------------------------------------------------------

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
"""Labels with a node's instance type, in order of preference."""

ZONE_DELIMITER: Final = "__"
"""Separates the zones in one label of a PersistentVolume (cloud-provider volume.LabelMultiZoneDelimiter)."""

# --- annotations of pods ----------------------------------------------------------------------------------------------

MIRROR: Final = "kubernetes.io/config.mirror"
"""Set by the kubelet on mirror pods: evicting one does not stop its static pod (core/v1)."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""The ReplicaSet controller deletes pods of lower cost first (core/v1 PodDeletionCost)."""
EVICTION_COST: Final = "scheduling.extender/eviction-cost"
"""Ours: cost of evicting the pod; the configuration can name a different annotation."""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""Karpenter: `true` opts the pod out of voluntary disruption."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Cluster Autoscaler: `false` opts the pod out of eviction."""
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""Descheduler: with any value, the pod should not be evicted."""
EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
"""Descheduler: with any value, the pod may be evicted despite protections."""

POD_ANNOTATIONS: Final = frozenset(
    {MIRROR, DELETION_COST, EVICTION_COST, DO_NOT_DISRUPT, SAFE_TO_EVICT, PREFER_NO_EVICTION, EVICT}
)
"""Pod annotations that the cache always keeps, whatever the configuration."""

# --- annotations of PriorityClasses and StorageClasses ----------------------------------------------------------------

# Each has two prefixes: PreemptionToleration (kubernetes-sigs/scheduler-plugins) reads the first; its proposal and
# older copies have the second.
_TOLERATION_PREFIXES = ("preemption-toleration.scheduling.sigs.k8s.io", "preemption-toleration.scheduling.x-k8s.io")
MINIMUM_PREEMPTABLE_PRIORITY: Final = tuple(f"{one}/minimum-preemptable-priority" for one in _TOLERATION_PREFIXES)
"""Priority from which a preemptor may evict pods of the PriorityClass."""
TOLERATION_SECONDS: Final = tuple(f"{one}/toleration-seconds" for one in _TOLERATION_PREFIXES)
"""Seconds after its start during which a pod of the PriorityClass is protected."""

PRIORITY_CLASS_ANNOTATIONS: Final = frozenset({*MINIMUM_PREEMPTABLE_PRIORITY, *TOLERATION_SECONDS})
"""PriorityClass annotations that the cache keeps."""

DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
"""`true` makes the StorageClass the default for claims that name none."""

DEFAULT_STORAGE_CLASS_ANNOTATIONS: Final = frozenset(
    {DEFAULT_STORAGE_CLASS, "storageclass.beta.kubernetes.io/is-default-class"}
)
"""Annotations, one of them `true`, of a default StorageClass; StorageClass annotations that the cache keeps."""
