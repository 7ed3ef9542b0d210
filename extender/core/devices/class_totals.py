"""Count the devices of a DeviceClass on each node for scores: those published there, and those that claims have.

Mirrors calculateDRAResourceTotals (noderesources/resource_allocation.go, v1.36). Unlike the allocator, it counts slices
of every generation, and reads neither taints nor counters nor whether the pool is valid.

Rule: what is remembered decides how long an answer takes, never what it is; work is counted as by `counted_selector`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.core.devices.counted_selector import (
    MAX_STEPS,
    STEPS_PER_CHARACTER,
    CountedSelector,
    WorkAccount,
    compiled,
)
from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.extended_resources import CLASS_PREFIX, classes_by_resource
from extender.core.devices.structured.pools import DeviceID
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.cost.budget import WorkBudget, WorkLimitReached
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.objects import Device, DeviceClass, ResourceSlice, ResourceSliceSpec
from extender.k8s.devices.selector import DeviceSelectorError, NotFollowed
from extender.k8s.objects import Object
from extender.k8s.requests import is_extended
from extender.k8s.selectors import SelectorError, parse_node_selector
from extender.k8s.version.features import Features

PackedBits = npt.NDArray[np.uint8]
"""Eight booleans a byte (np.packbits)."""

_NO_NODE: Final = -1
_READS: Final = frozenset({"device_classes", "resource_slices", "resource_claims"})


def scored_capacity(snapshot: Snapshot, resource: str) -> IntArray:
    """Return [node]: allocatable amount of an extended resource; devices, where the node itself has none."""
    plain, totals = snapshot.scalar_allocatable(resource), _totals(snapshot, resource)
    return plain if totals is None else np.where(plain == 0, totals.capacity, plain)


def scored_use(snapshot: Snapshot, resource: str) -> IntArray:
    """Return [node]: amount in use of what `scored_capacity` returns: requests of pods, or devices that claims have."""
    plain, totals = snapshot.scalar_used(resource), _totals(snapshot, resource)
    if totals is None:
        return plain
    return np.where((snapshot.scalar_allocatable(resource) == 0) & (totals.capacity > 0), totals.used, plain)


@dataclass(frozen=True, slots=True)
class ClassTotals:
    """How many devices of a class nodes have."""

    capacity: IntArray
    """[node]: 0 where a selector fails."""
    used: IntArray
    """[node]: of these, those that claims have, whole or in part."""


def _totals(snapshot: Snapshot, resource: str) -> ClassTotals | None:
    """Return the totals of the class that backs a resource; None without one, or if they are not known."""
    features = snapshot.features
    if not features.dra_extended_resource or not features.extended_resource_devices_are_scored:
        return None
    if _READS & snapshot.unreadable_tables or not (is_extended(resource) or resource.startswith(CLASS_PREFIX)):
        return None
    backing = classes_by_resource(snapshot).get(resource)
    return None if backing is None else class_totals(snapshot, backing.metadata.name)


@derived_by("nodes", "device_classes", "resource_slices", "resource_claims")
def class_totals(snapshot: Snapshot, class_name: str) -> ClassTotals | None:
    """Return the totals of a class; None if its selectors are more work than MAX_STEPS."""
    placed, found = _placed(snapshot, class_name), snapshot.index(ClassDeviceIndex).devices(class_name)
    if placed is None or found is None:
        return None
    state = snapshot.index(DeviceIndex).state
    held = {*state.devices, *state.shared} if state.shared else state.devices
    in_use = np.fromiter(map(held.__contains__, found.ids), np.bool_, len(found.ids))
    taken = np.bincount(np.repeat(np.arange(len(found.parts)), found.counts), in_use, len(found.parts))
    return ClassTotals(placed.on_nodes(found.counts), placed.on_nodes(taken.astype(np.int64)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """Which nodes the parts of a class are for."""

    row: IntArray
    """[part]: the only node; _NO_NODE: none or many."""
    many: tuple[tuple[int, PackedBits], ...]
    """(part, [node]: whether it is for the node)"""
    fails: BoolArray
    """[node]"""

    def on_nodes(self, of_parts: IntArray) -> IntArray:
        """Return [node]: the sum of what its parts have, [part]; 0 where a selector fails."""
        has_row = self.row >= 0
        found = np.bincount(self.row[has_row], of_parts[has_row], len(self.fails)).astype(np.int64)
        for part, bits in self.many:
            found += of_parts[part] * np.unpackbits(bits, count=len(found))
        return np.where(self.fails, 0, found)


@derived_by("nodes", "device_classes", "resource_slices")
def _placed(snapshot: Snapshot, class_name: str) -> _Placed | None:
    found = snapshot.index(ClassDeviceIndex).devices(class_name)
    if found is None:
        return None
    row, many = np.full(len(found.parts), _NO_NODE, np.int64), list[tuple[int, PackedBits]]()
    fails = np.zeros(len(snapshot.nodes), np.bool_)
    for number, part in enumerate(found.parts):
        try:
            nodes = _nodes_of(snapshot, part.on)
        except SelectorError:
            fails[:] = True
            continue
        if isinstance(nodes, int):
            row[number] = nodes
            if part.fails and nodes != _NO_NODE:
                fails[nodes] = True
        else:
            many.append((number, np.packbits(nodes)))
            fails |= nodes & part.fails
    return _Placed(row, tuple(many), fails)


def _nodes_of(snapshot: Snapshot, on: ResourceSliceSpec | Device) -> BoolArray | int:
    """Return [node]: whether a slice or device is for it, or the row of the only node; raises SelectorError.

    Quirk: a slice without any node selection is for every node, a device without any for none.
    """
    if not on.all_nodes:
        if on.node_name:
            return snapshot.node_row.get(on.node_name, _NO_NODE)
        if on.node_selector is not None:
            return nodes_matching(snapshot, parse_node_selector(on.node_selector))
        if isinstance(on, Device):
            return _NO_NODE
    return np.ones(len(snapshot.nodes), np.bool_)


# --- which devices are of a class -----------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Devices of one slice that are for the same nodes."""

    on: ResourceSliceSpec | Device
    """Where the nodes are named: in the device, with perDeviceNodeSelection."""
    ids: tuple[DeviceID, ...]
    """Those of the class."""
    fails: bool
    """A selector fails on one of them, which leaves the nodes without totals."""


class _Devices:
    """The devices of a class."""

    def __init__(self, parts: tuple[_Part, ...]) -> None:
        self.parts = parts
        self.ids = tuple([one for part in parts for one in part.ids])
        """IDs of all parts, one after the other."""
        self.counts = np.array([len(part.ids) for part in parts], np.int64)
        """[part]"""


class _Matched(NamedTuple):
    """What a class has of one slice."""

    parts: tuple[_Part, ...]
    steps: int
    """Steps that it took, without those of selectors."""
    results: Mapping[int, int]
    """As in `WorkAccount.used`."""


class ClassDeviceIndex(Index):
    """The devices of each class that was asked for; selectors are evaluated again for slices that changed."""

    reads = ("device_classes", "resource_slices")

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._classes: dict[str, _ClassDevices] = {}
        """Name of the class -> its devices: of classes that a profile's scoring strategy names."""

    def object_changed(self, field: str, before: Object | None, after: Object | None) -> None:
        for name in {one.metadata.name for one in (before, after) if one is not None}:
            if field == "device_classes":
                self._classes.pop(name, None)
            else:
                for of_class in self._classes.values():
                    of_class.forget(name)

    def devices(self, class_name: str) -> _Devices | None:
        """Return the devices of a class; None if that is too much work."""
        tables = self.snapshot.objects
        if class_name not in self._classes:
            self._classes[class_name] = _ClassDevices(tables.device_classes["", class_name], self.snapshot.features)
        return self._classes[class_name].devices(tables.resource_slices.values())


class _ClassDevices:
    """The devices of one class, slice by slice."""

    def __init__(self, device_class: DeviceClass, features: Features) -> None:
        of_class = (one.cel for one in device_class.spec.selectors or ())
        expressions = [one.expression for one in of_class if one is not None]
        self._features = features
        self._account = WorkAccount()
        self._steps = STEPS_PER_CHARACTER * sum(map(len, set(expressions)))
        """Steps that it takes to compile the selectors."""
        self._selectors = [
            CountedSelector(compiled(one, of_1_37=features.selectors_of_1_37), {}, self._account)
            for one in expressions
            if self._steps <= MAX_STEPS
        ]
        self._of_slice: dict[str, _Matched] = {}
        self._devices: _Devices | None = None
        self._is_current = False

    def forget(self, slice_name: str) -> None:
        """Forget what is known of a slice that changed."""
        self._of_slice.pop(slice_name, None)
        self._is_current = False

    def devices(self, slices: Iterable[ResourceSlice]) -> _Devices | None:
        """Return the devices of all slices; None if that is too much work."""
        if not self._is_current:
            try:
                self._devices = _Devices(self._match_all(slices))
            except WorkLimitReached:
                self._devices = None
            self._account.end_call()
            self._is_current = True
        return self._devices

    def _match_all(self, slices: Iterable[ResourceSlice]) -> tuple[_Part, ...]:
        budget, found = WorkBudget(MAX_STEPS), list[_Part]()
        budget.spend(self._steps)
        for one in slices:
            matched = self._of_slice.get(one.metadata.name)
            if matched is None:
                matched = self._of_slice[one.metadata.name] = self._match(one, budget)
            else:
                budget.spend(matched.steps + self._account.charge(matched.results))
            found += matched.parts
        return tuple(found)

    def _match(self, one: ResourceSlice, budget: WorkBudget) -> _Matched:
        """Evaluate the selectors on the devices of a slice; raises WorkLimitReached."""
        left, spec, devices = budget.left, one.spec, one.spec.devices or ()
        self._account.next_node()
        if spec.per_device_node_selection:
            parts = tuple([self._part(spec, device, [device], budget) for device in devices])
        else:
            parts = (self._part(spec, spec, devices, budget),)
        return _Matched(parts, left - budget.left - self._account.steps, self._account.used)

    def _part(
        self, spec: ResourceSliceSpec, on: ResourceSliceSpec | Device, devices: Sequence[Device], budget: WorkBudget
    ) -> _Part:
        try:
            matching = [one for one in devices if self._selects(spec.driver, one, budget)]
        except (DeviceSelectorError, NotFollowed):
            return _Part(on, (), fails=True)
        return _Part(on, tuple([(spec.driver, spec.pool.name, one.name) for one in matching]), fails=False)

    def _selects(self, driver: str, device: Device, budget: WorkBudget) -> bool:
        """Return whether all selectors hold; raises DeviceSelectorError, NotFollowed, WorkLimitReached."""
        view = DeviceView(driver, device, shows_sharing=False, shows_lists=self._features.selectors_of_1_37)
        for selector in self._selectors:
            if selector.error or selector.unsupported:
                raise DeviceSelectorError(selector.error or selector.unsupported)
            if not selector.matches(view, budget):
                return False
        return True
