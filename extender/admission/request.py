"""One object on its way through admission."""

from dataclasses import dataclass, field
from typing import Any

from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Findings

Manifest = dict[str, Any]
"""An object as parsed JSON or YAML."""


@dataclass(slots=True)
class Request:
    """An object to create, which steps of admission change in place, and what they find in it."""

    kind: str
    """Key of KINDS, or the kind of a workload."""
    object: Manifest
    cluster: AdmissionCluster
    is_state: bool = False
    """Whether the object stands for one that exists, as in a cluster file: its status counts, and what depends on other
    objects is filled in where it is missing, but refuses nothing."""
    findings: Findings = field(default_factory=Findings)
