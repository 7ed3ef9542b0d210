"""Count, for scoring, the devices of a DeviceClass that each node publishes and those that are allocated to claims.

Mirrors calculateDRAResourceTotals (noderesources/resource_allocation.go, v1.36). Unlike the allocator, it counts slices
of every generation, and ignores taints, counters and whether the pool is valid.

Rule: the cache affects how long an answer takes, never the answer; work is counted as in `counted_selector`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.core.devices.counted_selector import (
    CountedSelector,
    WorkAccount,
)
from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.extended_resources import CLASS_PREFIX, classes_by_resource
from extender.core.devices.structured.pools import DeviceID
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.device_view import DeviceView
from extender.k8s.devices.objects import Device, ResourceSlice, ResourceSliceSpec
from extender.k8s.devices.selector import DeviceSelectorError, Selector, UnsupportedFeature, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached, call_budget, compile_steps
from extender.k8s.requests import is_extended
from extender.k8s.selectors import SelectorError, parse_node_selector
from extender.k8s.version.features import Features

PackedBits = npt.NDArray[np.uint8]
"""Eight booleans per byte (np.packbits)."""

_NO_NODE: Final = -1
_READS: Final = frozenset({"device_classes", "resource_slices", "resource_claims"})


def scored_capacity(snapshot: Snapshot, resource: str) -> IntArray:
    """Return [node]: allocatable amount of an extended resource; number of devices if the node itself has none."""
    plain, totals = snapshot.scalar_allocatable(resource), _totals(snapshot, resource)
    return plain if totals is None else np.where(plain == 0, totals.capacity, plain)


def scored_use(snapshot: Snapshot, resource: str) -> IntArray:
    """Return [node]: used part of `scored_capacity`: requests of pods, or devices allocated to claims."""
    plain, totals = snapshot.scalar_used(resource), _totals(snapshot, resource)
    if totals is None:
        return plain
    return np.where((snapshot.scalar_allocatable(resource) == 0) & (totals.capacity > 0), totals.used, plain)


@dataclass(frozen=True, slots=True)
class ClassTotals:
    """Numbers of devices of a class on each node."""

    capacity: IntArray
    """[node]: devices that the node publishes; 0 if a selector fails."""
    used: IntArray
    """[node]: devices of `capacity` that are allocated to claims, whole or in part."""


def _totals(snapshot: Snapshot, resource: str) -> ClassTotals | None:
    """Return the totals of the class that backs a resource; None if no class backs it or its totals are unknown."""
    features = snapshot.features
    if not features.dra_extended_resource or not features.extended_resource_devices_are_scored:
        return None
    if _READS & snapshot.unreadable_tables or not (is_extended(resource) or resource.startswith(CLASS_PREFIX)):
        return None
    backing = classes_by_resource(snapshot).get(resource)
    return None if backing is None else class_totals(snapshot, backing.metadata.name)


@derived_by("nodes", "device_classes", "resource_slices", "resource_claims")
def class_totals(snapshot: Snapshot, class_name: str) -> ClassTotals | None:
    """Return the totals of a class; None if evaluating its selectors exceeds the work limit."""
    parts = _parts(snapshot, class_name)
    if parts is None:
        return None
    placed, state = _placed(snapshot, class_name), snapshot.index(DeviceIndex).state
    ids, counts = [one for part in parts for one in part.ids], np.array([len(part.ids) for part in parts], np.int64)
    held = {*state.devices, *state.shared} if state.shared else state.devices
    in_use = np.fromiter(map(held.__contains__, ids), np.bool_, len(ids))
    taken = np.bincount(np.repeat(np.arange(len(parts)), counts), in_use, len(parts))
    return ClassTotals(placed.on_nodes(counts), placed.on_nodes(taken.astype(np.int64)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """The nodes that the parts of a class are for."""

    row: IntArray
    """[part]: row of the part's only node; _NO_NODE if it is for no node or for many."""
    many: tuple[tuple[int, PackedBits], ...]
    """(part, [node]: whether the part is for the node)"""
    fails: BoolArray
    """[node]: whether a selector fails for the node."""

    def on_nodes(self, of_parts: IntArray) -> IntArray:
        """Return [node]: sum of `of_parts`, [part], over the parts for the node; 0 if a selector fails."""
        has_row = self.row >= 0
        found = np.bincount(self.row[has_row], of_parts[has_row], len(self.fails)).astype(np.int64)
        for part, bits in self.many:
            found += of_parts[part] * np.unpackbits(bits, count=len(found))
        return np.where(self.fails, 0, found)


@derived_by("nodes", "device_classes", "resource_slices")
def _placed(snapshot: Snapshot, class_name: str) -> _Placed:
    parts = _parts(snapshot, class_name) or ()
    row, many = np.full(len(parts), _NO_NODE, np.int64), list[tuple[int, PackedBits]]()
    fails = np.zeros(len(snapshot.nodes), np.bool_)
    for number, part in enumerate(parts):
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
            many.append((number, np.packbits(nodes)))  # bits, as each device of a slice may be for different nodes
            fails |= nodes & part.fails
    return _Placed(row, tuple(many), fails)


def _nodes_of(snapshot: Snapshot, on: ResourceSliceSpec | Device) -> BoolArray | int:
    """Return [node]: whether a slice or device is for the node, or the row of its only node; raises SelectorError.

    Quirk: without any node selection, a slice is for every node, but a device is for none.
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
    """The object that selects the nodes: the slice, or with perDeviceNodeSelection the device."""
    ids: tuple[DeviceID, ...]
    """Devices that the class selects."""
    fails: bool
    """Whether a selector fails on one of the devices, which leaves the nodes without totals."""


class _Matched(NamedTuple):
    """The devices of one slice that a class selects, cached."""

    published: ResourceSlice
    parts: tuple[_Part, ...]
    steps: int
    """Steps that the evaluation took, except those of selectors."""
    results: Mapping[int, int]
    """Selector results that were used, as in `WorkAccount.used`."""


@derived_by("device_classes")
def _matched(_snapshot: Snapshot, _class_name: str) -> dict[str, _Matched]:
    """Return the cache of a class, which `_parts` fills: name of the slice -> matched devices."""
    return {}


@derived_by("device_classes")
def _selectors(snapshot: Snapshot, class_name: str) -> tuple[Selector, ...] | None:
    """Return the compiled selectors of a class; None if compiling them exceeds the work limit."""
    of_class = (one.cel for one in snapshot.objects.device_classes["", class_name].spec.selectors or ())
    expressions = [one.expression for one in of_class if one is not None]
    if compile_steps(expressions) > call_budget().left:
        return None
    return tuple([compile_selector(one, of_1_37=snapshot.features.selectors_of_1_37) for one in expressions])


@derived_by("device_classes", "resource_slices")
def _parts(snapshot: Snapshot, class_name: str) -> tuple[_Part, ...] | None:
    """Return the parts of a class; None if that exceeds the work limit. Only changed slices are evaluated again."""
    compiled, account, found = _selectors(snapshot, class_name), WorkAccount(), list[_Part]()
    if compiled is None:
        return None
    selectors = [CountedSelector(one, {}, account) for one in compiled]
    budget = call_budget()
    budget.spend(compile_steps(one.expression for one in compiled))
    matched = _matched(snapshot, class_name)
    slices = {one.metadata.name: one for one in snapshot.objects.resource_slices.values()}
    for gone in matched.keys() - slices.keys():
        del matched[gone]
    with suppress(WorkLimitReached):
        for name, one in slices.items():
            known = matched.get(name)
            if known is None or known.published is not one:
                left = budget.left
                account.next_node()
                parts = tuple(_parts_of_slice(one.spec, selectors, budget, snapshot.features))
                known = matched[name] = _Matched(one, parts, left - budget.left - account.steps, account.used)
            else:
                budget.spend(known.steps + account.charge(known.results))
            found += known.parts
        return tuple(found)
    return None


def _parts_of_slice(
    spec: ResourceSliceSpec, selectors: Sequence[CountedSelector], budget: WorkBudget, features: Features
) -> Iterator[_Part]:
    """Yield the parts of a slice, each with the devices that all selectors match; raises WorkLimitReached."""
    devices = spec.devices or ()
    for on, here in [(one, [one]) for one in devices] if spec.per_device_node_selection else [(spec, devices)]:
        try:
            matching = [one for one in here if _selects(spec.driver, one, selectors, budget, features)]
        except (DeviceSelectorError, UnsupportedFeature):
            yield _Part(on, (), fails=True)
        else:
            yield _Part(on, tuple([(spec.driver, spec.pool.name, one.name) for one in matching]), fails=False)


def _selects(
    driver: str, device: Device, selectors: Sequence[CountedSelector], budget: WorkBudget, features: Features
) -> bool:
    """Return whether all selectors match; raises DeviceSelectorError, UnsupportedFeature, WorkLimitReached."""
    view = DeviceView(driver, device, shows_sharing=False, shows_lists=features.selectors_of_1_37)
    for selector in selectors:
        if selector.error or selector.unsupported:
            raise DeviceSelectorError(selector.error or selector.unsupported)
        if not selector.matches(view, budget):
            return False
    return True
