"""Names of the annotations that preemption policies read, with the project that defines each.

Rule: names only; values are parsed where they are read.
"""

MIRROR = "kubernetes.io/config.mirror"
"""Pod annotation that the kubelet sets on mirror pods: evicting one does not stop its static pod (core/v1)."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Pod annotation (core/v1 PodDeletionCost): the ReplicaSet controller deletes pods of lower cost first."""

EVICTION_COST = "scheduling.extender/eviction-cost"
"""Pod annotation of this extender: cost of evicting the pod; the configuration can name another annotation."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Pod annotation of Karpenter: `true` opts the pod out of voluntary disruption."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Pod annotation of the cluster autoscaler: `false` opts the pod out of eviction."""

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""Pod annotation of the descheduler, with any value: the pod should not be evicted."""

EVICT = "descheduler.alpha.kubernetes.io/evict"
"""Pod annotation of the descheduler, with any value: the pod may be evicted despite protections."""

MINIMUM_PREEMPTABLE_PRIORITY = (
    "preemption-toleration.scheduling.sigs.k8s.io/minimum-preemptable-priority",
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority",
)
"""PriorityClass annotation of the plugin PreemptionToleration of kubernetes-sigs/scheduler-plugins: the key that its
code reads, and the key of its proposal and of older copies."""

TOLERATION_SECONDS = (
    "preemption-toleration.scheduling.sigs.k8s.io/toleration-seconds",
    "preemption-toleration.scheduling.x-k8s.io/toleration-seconds",
)
"""PriorityClass annotation of that plugin, with its two prefixes: seconds for which a pod is protected after its
start."""

DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
"""StorageClass annotation: `true` makes it the class of claims that name none."""

POD_ANNOTATIONS = frozenset(
    {MIRROR, DELETION_COST, EVICTION_COST, DO_NOT_DISRUPT, SAFE_TO_EVICT, PREFER_NO_EVICTION, EVICT}
)
"""Annotations that the cache keeps of every pod, whatever is configured."""

PRIORITY_CLASS_ANNOTATIONS = frozenset({*MINIMUM_PREEMPTABLE_PRIORITY, *TOLERATION_SECONDS})
"""Annotations that the cache keeps of every PriorityClass."""
