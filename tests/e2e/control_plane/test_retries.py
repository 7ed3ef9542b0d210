"""How soon a real kube-scheduler retries a pod whose preemption was vetoed for a time."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.control_plane.lab import binaries
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.deploy.manifests import OVERLAYS

FLAG = re.search(
    r"--pod-max-in-unschedulable-pods-duration=30s", (OVERLAYS / "second-scheduler" / "deployment.yaml").read_text()
)
PROFILES = [{"schedulerName": f"scheduler-{version}"} for version in binaries.SCHEDULERS]
CONFIG = {"preemption": {"minPendingDuration": "30s"}, "scheduler": {"profiles": PROFILES}}


@pytest.fixture(scope="module")
def cluster(plane):
    """A full node for each version of kube-scheduler."""
    plane.kubelet.deletion_seconds = 0.1
    plane.api.create(priority_class("high", 1000))
    for version in binaries.SCHEDULERS:
        name = node_of(version)
        plane.api.create(node(name, cpu="4", labels={"version": version}), pod(f"low-{name}", cpu="3", node=name))
    return plane


def node_of(version):
    return f"n-{version.replace('.', '-')}"


def test_a_pod_that_was_too_young_preempts_within_a_minute(cluster):
    """Each kube-scheduler is asked once in vain, and the second time the pod has been pending for long enough."""
    api = cluster.api
    assert FLAG is not None
    with Service(cluster, CONFIG) as service, CallRecorder(service.url) as recorder:
        for version, profile in zip(binaries.SCHEDULERS, PROFILES, strict=True):
            config = {"profiles": [profile], "extenders": [service.extender(recorder.url)]}
            cluster.start_scheduler(config, version, flags=[FLAG[0]])
        for version in binaries.SCHEDULERS:
            selector: dict[str, Any] = {
                "nodeSelector": {"version": version},
                "schedulerName": f"scheduler-{version}",
            }
            api.create(pod(f"urgent-{version}", cpu="3", priority_class="high", **selector))
        for version in binaries.SCHEDULERS:
            name = f"urgent-{version}"
            api.wait_until(lambda name=name: api.get("Pod", name)["spec"].get("nodeName"), 75, f"{name} to be bound")
            created = datetime.fromisoformat(api.get("Pod", name)["metadata"]["creationTimestamp"])
            first, *later = recorder.calls_of("preempt", f"default/{name}")
            assert first.answered_victims == {}
            assert "may not preempt until" in first.headers["x-extender-vetoed"]
            assert later[-1].answered_victims.keys() == {node_of(version)}
            waited = (datetime.fromtimestamp(later[-1].time, UTC) - created).total_seconds()
            assert waited >= 30  # at most 75 by the wait above; without the flag it is up to 5 minutes
