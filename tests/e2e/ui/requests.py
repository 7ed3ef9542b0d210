"""Requests that kube-scheduler would send for the example cluster."""

from typing import Any

JSON = dict[str, Any]

SENT = ["worker-a1", "worker-b1", "worker-c3", "gpu-a1"]

WEB = ["f37ee957-c55a-4f4e-a718-3a4ad4b43b78", "0466cb19-03f5-49a2-947d-647de6392c71"]
"""UIDs of pods on worker-a1, whose budget allows one disruption."""
ETL = ["51a58faf-51dd-4f2e-bab8-091e79e90057"]
"""UIDs of pods on worker-b1."""


def pod(name: str = "cart-9", *, cpu: str = "3", memory: str = "4Gi", **metadata: str) -> JSON:
    """Return a pod; with requests of 3 cpu and 4Gi it fits on no node."""
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid of {name}", **metadata},
        "spec": {
            "priority": 100_000,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
    }


def preempt(incoming: JSON | None = None) -> JSON:
    victims = {
        "worker-a1": {"Pods": [{"UID": uid} for uid in WEB], "NumPDBViolations": 1},
        "worker-b1": {"Pods": [{"UID": uid} for uid in ETL], "NumPDBViolations": 0},
    }
    return {"Pod": incoming or pod(), "NodeNameToMetaVictims": victims}


def nodes(incoming: JSON | None = None) -> JSON:
    """Return a request to /filter or /prioritize."""
    return {"Pod": incoming or pod(cpu="500m", memory="1Gi"), "NodeNames": SENT}
