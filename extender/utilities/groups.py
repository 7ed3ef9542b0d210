"""Groups by key that exist while they have members.

Rule: a key is removed with its last member, so that memory stays bounded however many keys come and go.
"""

from collections.abc import Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)


def remove_member(groups: dict[K, Any], key: K, member: Hashable) -> None:
    """Remove a member from the set or dict of the key, if it is there; remove the key once that is empty."""
    group = groups.get(key)
    if group is None:
        return
    if isinstance(group, set):
        group.discard(member)
    else:
        group.pop(member, None)
    if not group:
        del groups[key]
