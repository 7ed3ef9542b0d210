"""All ResourceClaims, in parts that are copied when they change: claims change with every pod that is bound.

Rule: what was read stays as it was; a claim that changes costs the copy of one part.
"""

from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import Key

_PARTS = 256


class ResourceClaimParts(Index):
    """All ResourceClaims in parts, by their names."""

    reads = ("resource_claims",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._parts: list[dict[Key, ResourceClaim]] = [{} for _ in range(_PARTS)]
        self._frozen: list[tuple[ResourceClaim, ...]] = [()] * _PARTS
        self._changed: set[int] = set()

    def object_changed(self, _field: str, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        metadata = (after or before).metadata  # type: ignore[union-attr]  # one of them is there
        key = metadata.namespace, metadata.name
        number = hash(key) % _PARTS
        self._changed.add(number)
        if after is not None:
            self._parts[number][key] = after
        else:
            del self._parts[number][key]

    def frozen(self) -> tuple[tuple[ResourceClaim, ...], ...]:
        """Return the claims; only parts that changed are copied."""
        for number in self._changed:
            self._frozen[number] = tuple(self._parts[number].values())
        self._changed.clear()
        return tuple(self._frozen)
