"""Taints of devices: the requests that do not tolerate them, and the taints that DeviceTaintRules add.

Mirrors resourceclaim.ToleratesTaint and tracker.applyPatches (k8s.io/dynamic-resource-allocation, v1.37).

Rule: facts about one device and one request.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from extender.k8s.devices.objects import Device, DeviceTaint, DeviceTaintRule, DeviceTaintSelector, ResourceSlice
from extender.k8s.objects import Toleration
from extender.k8s.selectors import tolerates

_PREVENTING_EFFECTS = ("NoSchedule", "NoExecute")
"""Effects of taints that prevent allocation; all others, including "None", are ignored."""


def prevents_allocation(
    taints: Iterable[DeviceTaint], tolerations: Collection[Toleration], *, whatever_effect: bool
) -> bool:
    """Return whether a taint is not tolerated; `whatever_effect`: taints of all effects count, as up to v1.34."""
    return any(
        (whatever_effect or taint.effect in _PREVENTING_EFFECTS)
        and not any(tolerates(one, taint, compares=False) for one in tolerations)
        for taint in taints
    )


def with_rule_taints(
    published: ResourceSlice, rules: Iterable[DeviceTaintRule], *, needs_selector: bool
) -> ResourceSlice:
    """Return the slice with the taints that rules add to its devices; the slice itself if there are none.

    `needs_selector`: whether a rule without a selector selects no device, instead of every device.
    """
    without = None if needs_selector else DeviceTaintSelector()
    selectors = [(rule.spec.device_selector or without, rule.spec.taint) for rule in rules]
    spec = published.spec
    # Rules that select by class or by CEL exist in v1alpha3 before v1.35 only, and are not evaluated.
    for_slice = [
        (selector.device, taint)
        for selector, taint in selectors
        if selector and selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)
    ]
    devices, is_tainted = list[Device](), False
    for device in spec.devices or ():
        added = [taint for name, taint in for_slice if name in (None, device.name)]
        is_tainted |= bool(added)
        devices.append(replace(device, taints=[*(device.taints or ()), *added]) if added else device)
    return replace(published, spec=replace(spec, devices=devices)) if is_tainted else published
