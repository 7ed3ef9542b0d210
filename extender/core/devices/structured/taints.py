"""Taints of devices: which requests they keep away, and which DeviceTaintRules add.

Mirrors resourceclaim.ToleratesTaint and tracker.applyPatches (k8s.io/dynamic-resource-allocation, v1.37).

Rule: facts about one device and one request.
"""

from collections.abc import Collection, Iterable

import msgspec

from extender.k8s.devices.objects import Device, DeviceTaint, DeviceTaintRule, DeviceTaintSelector, ResourceSlice
from extender.k8s.objects import Toleration

_PREVENTING_EFFECTS = ("NoSchedule", "NoExecute")
"""Other effects are ignored, None among them."""


def prevents_allocation(
    taints: Iterable[DeviceTaint], tolerations: Collection[Toleration], *, whatever_effect: bool
) -> bool:
    """Return whether a taint of a device is not tolerated; `whatever_effect`: as up to v1.34, of any effect."""
    return any(
        (whatever_effect or taint.effect in _PREVENTING_EFFECTS)
        and not any(_tolerates(one, taint) for one in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Toleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def with_rule_taints(
    published: ResourceSlice, rules: Iterable[DeviceTaintRule], *, needs_selector: bool
) -> ResourceSlice:
    """Return the slice with the taints that rules add to its devices; the slice itself if there are none.

    `needs_selector`: a rule without a selector selects no device; False: every one.
    """
    without = None if needs_selector else DeviceTaintSelector()
    selectors = [(rule.spec.device_selector or without, rule.spec.taint) for rule in rules]
    for_slice = [(selector, taint) for selector, taint in selectors if selector and _selects_slice(selector, published)]
    if not for_slice or not published.spec.devices:
        return published
    devices = [_with_taints(device, for_slice) for device in published.spec.devices]
    if all(new is old for new, old in zip(devices, published.spec.devices, strict=True)):
        return published
    return msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, devices=devices))


def _selects_slice(selector: DeviceTaintSelector, published: ResourceSlice) -> bool:
    spec = published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def _with_taints(device: Device, rules: Iterable[tuple[DeviceTaintSelector, DeviceTaint]]) -> Device:
    added = [taint for selector, taint in rules if selector.device in (None, device.name)]
    return msgspec.structs.replace(device, taints=[*(device.taints or ()), *added]) if added else device
