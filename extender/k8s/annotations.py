"""The annotations that policies of preemption read, and who defines each.

Rule: names only. What a value means is decided where it is read.
"""

MIRROR = "kubernetes.io/config.mirror"
"""Of mirror pods, by the kubelet: the pod is a static one, and evicting it stops nothing (k8s.io/api core/v1)."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Of pods, by Kubernetes (k8s.io/api core/v1 PodDeletionCost): what the ReplicaSet controller deletes first."""

EVICTION_COST = "scheduling.extender/eviction-cost"
"""Of pods, by this extender: what it costs to evict the pod, unless another annotation is configured for it."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Of pods, by Karpenter."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Of pods, by the cluster autoscaler."""

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""Of pods, by the descheduler, which looks at its presence only."""

EVICT = "descheduler.alpha.kubernetes.io/evict"
"""Of pods, by the descheduler, which looks at its presence only: evictable whatever protects it."""

MINIMUM_PREEMPTABLE_PRIORITY = (
    "preemption-toleration.scheduling.sigs.k8s.io/minimum-preemptable-priority",
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority",
)
"""Of PriorityClasses, by the plugin PreemptionToleration of kubernetes-sigs/scheduler-plugins: the key that its
code reads, and the one of its proposal and of older copies of it."""

TOLERATION_SECONDS = (
    "preemption-toleration.scheduling.sigs.k8s.io/toleration-seconds",
    "preemption-toleration.scheduling.x-k8s.io/toleration-seconds",
)
"""The same."""

POD_ANNOTATIONS = frozenset(
    {MIRROR, DELETION_COST, EVICTION_COST, DO_NOT_DISRUPT, SAFE_TO_EVICT, PREFER_NO_EVICTION, EVICT}
)
"""Kept of every pod, whatever is configured."""

PRIORITY_CLASS_ANNOTATIONS = frozenset({*MINIMUM_PREEMPTABLE_PRIORITY, *TOLERATION_SECONDS})
"""Kept of every PriorityClass."""
