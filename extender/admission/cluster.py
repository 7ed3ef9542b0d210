"""What admission reads of the cluster: classes, LimitRanges, quotas, and the version of its API server."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from extender.k8s.kinds import ObjectTables
from extender.k8s.version.features import Features


@dataclass(frozen=True, slots=True)
class AdmissionCluster:
    """The cluster that an object is created in."""

    objects: ObjectTables
    features: Features
    """Those of kube-scheduler's version, which is taken for the API server's."""
    minor: int
    """Minor version of the API server: 37 is 1.37."""
    unreadable: Collection[str] = ()
    """Fields of ObjectTables that could not be read."""
    quota_usage: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What ResourceQuotas counted so far, so that each object is counted once in a run."""
