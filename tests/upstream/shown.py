"""Objects of a scenario that the kube-scheduler of a minor is shown: kinds and versions that its API server serves."""

from typing import Any, Final

from tests.parity.versions import cluster_of

JSON = dict[str, Any]

TAINT_RULES_V1: Final = 37
"""First minor that serves DeviceTaintRule as resource.k8s.io/v1."""


def shown(scenario: JSON, minor: int) -> JSON:
    """Return the scenario with the objects as the minor serves them."""
    cluster = cluster_of(scenario, minor)
    return scenario | {"cluster": cluster | {"items": [_served(item, minor) for item in cluster["items"]]}}


def _served(item: JSON, minor: int) -> JSON:
    """Return the object in the version that the minor serves; DeviceTaintRule has the same fields in all."""
    if item["kind"] != "DeviceTaintRule" or minor >= TAINT_RULES_V1:
        return item
    return item | {"apiVersion": f"resource.k8s.io/{'v1beta2' if minor == 36 else 'v1alpha3'}"}
