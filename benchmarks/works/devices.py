"""The filter of a pod with a claim on nodes with devices: the first, the next, and the first after a claim changed.

The nodes run no other pods. The indexes are built ahead, as in the service.
"""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from benchmarks import devices
from benchmarks.generate import JSON
from benchmarks.measure import Run, Work, nothing
from benchmarks.works import Maker
from benchmarks.world import World
from extender.core.engine import prepare
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod


class Devices:
    """The nodes of the generated cluster with their devices, and a pod with a claim and without it."""

    def __init__(self, world: World) -> None:
        plan = world.plan
        self._objects = ClusterObjects(
            nodes=world.objects.nodes,
            device_classes=(devices.device_class(),),
            resource_slices=tuple(devices.slices(plan)),
            resource_claims=tuple(devices.claims(plan)),
        )
        self._changes = 0
        self.snapshot = self.built()

    def built(self) -> Snapshot:
        return prepare(Snapshot.build(self._objects))

    def build(self) -> None:
        """Forget everything that earlier filters have kept; what is left is frozen, as a live cluster cache does."""
        self.snapshot = self.built()
        gc.collect()
        gc.freeze()

    def change_a_claim(self) -> None:
        """Give a claim one device of the first node, or take it away again."""
        self._changes += 1
        claim = devices.allocated(0, [0] * (self._changes % 2), "changing")
        self.snapshot.put("ResourceClaim", claim)
        self.snapshot.refresh_layout()

    def filter(self, pod: Pod) -> Any:
        return run_filter_plugins(scheduling_context(self.snapshot, pod, Profile()))


def pod(*claims: str) -> Pod:
    """Return a pod that fits everywhere but for its claims."""
    spec: JSON = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}]}
    spec["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    return msgspec.convert({"metadata": {"name": "incoming", "namespace": "default"}, "spec": spec}, Pod)


def filtering(of: Devices, prepare: Run, *claims: str) -> Work:
    """Run the filter plugins for a pod with these claims."""
    return Work(partial(of.filter, pod(*claims)), prepare)


PREPARED: dict[str, Callable[[Devices], Run]] = {
    "first": lambda of: of.build,
    "repeated": lambda _: nothing,
    "after a claim changed": lambda of: of.change_a_claim,
}
"""When the filter runs -> what happens before."""


def with_claim(world: World, when: str) -> Work:
    of = Devices(world)
    return filtering(of, PREPARED[when](of), devices.CLAIM)


WORKS: dict[str, Maker] = {f"filter of a pod with a claim, {when}": partial(with_claim, when=when) for when in PREPARED}
