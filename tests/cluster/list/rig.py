"""A read of the fake API server for one pod."""

from collections.abc import Callable, Iterable
from typing import Any

from extender.cluster.list.read import ClusterForPod, read_for_pod
from extender.core.profile import UNCONFIGURED, KubeScheduler
from extender.k8s.objects import Pod
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import FakeAPI

QUICKLY = 20.0
"""Seconds that no read comes near."""


def read(
    api: FakeAPI,
    subject: tuple[str, str] | Pod = ("default", "incoming"),
    scheduler: KubeScheduler = UNCONFIGURED,
    *,
    timeout: float = QUICKLY,
    on_progress: Callable[[str, int, int | None], None] | None = None,
    manifest: dict[str, Any] | None = None,
) -> ClusterForPod:
    return read_for_pod(
        server_at(api.url), subject, lambda _: scheduler, timeout=timeout, on_progress=on_progress, manifest=manifest
    )


def put(api: FakeAPI, objects: Iterable[dict[str, Any]]) -> None:
    for one in objects:
        api.put(one["kind"], one)


def lists(api: FakeAPI) -> list[str]:
    """Paths and selectors of the lists that were asked for, each once, sorted."""
    asked = {
        (one.path, one.params.get("fieldSelector") or one.params.get("labelSelector") or "") for one in api.requests
    }
    return sorted(f"{path} {selector}".rstrip() for path, selector in asked)
