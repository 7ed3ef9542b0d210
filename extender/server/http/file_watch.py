"""When files that change are read again, for those who look at them every INTERVAL.

What has changed is due once it has stood still for one look, so that a file which is just being written is not taken
for what it will be; and after MOST_LOOKS whether it has or not: 6 s after a change.

Rule: knows signatures of files, not what is in them.
"""

import os
from pathlib import Path
from typing import Generic, TypeVar

INTERVAL = 2.0
"""Seconds between two looks."""

MOST_LOOKS = 3
"""After so many looks at what does not stand still it is due all the same."""

Signature = tuple[int, int, int]
"""(inode, modification time in nanoseconds, size) of a file, through symbolic links, as Secrets and ConfigMaps are
mounted by these."""

Seen = TypeVar("Seen")


class Looks(Generic[Seen]):
    """`Seen`: the signature, or those of several files."""

    def __init__(self, tried: Seen | None = None) -> None:
        self.tried = tried
        """What was read last; None: whatever is seen next is a change."""
        self._seen = tried
        self._count = 0

    def is_due(self, now: Seen) -> bool:
        """Has it changed since it was read, and stood still since the last look or been given time enough to?"""
        changed, still = now != self.tried, now == self._seen
        self._seen = now
        self._count = self._count + 1 if changed else 0
        is_due = changed and (still or self._count >= MOST_LOOKS)
        if is_due:
            self._count = 0
        return is_due


def signature(path: str | Path) -> Signature:
    """Of one file; OSError if it cannot be seen."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
