"""Decide when a changed file is reloaded: configuration, certificates, keys and CA bundles, polled for changes.

A changed file is reloaded once two polls in a row saw the same signature, so that a partly written file is not read;
and after MAX_UNSETTLED_POLLS polls in any case, so at most 6 s after a change.

Rule: knows file signatures, not file contents.
"""

import os
from pathlib import Path
from typing import Generic, TypeVar

POLL_INTERVAL_SECONDS = 2.0
"""Time between two polls of a file."""

MAX_UNSETTLED_POLLS = 3
"""Number of polls after which a file that keeps changing is reloaded anyway."""

FileSignature = tuple[int, int, int]
"""(inode, modification time in nanoseconds, size) of a file, through symbolic links: the kubelet updates mounted
Secrets and ConfigMaps by swapping a link."""

SignatureT = TypeVar("SignatureT")


class ChangeDetector(Generic[SignatureT]):
    """Detect that a file, or a set of files, has changed and settled; `SignatureT`: one or several FileSignatures."""

    def __init__(self, last_attempt: SignatureT | None = None) -> None:
        self.last_attempt = last_attempt
        """Signature at the last load, failed or not; None: whatever the next poll sees counts as a change."""
        self._previous = last_attempt
        self._unsettled_polls = 0

    def should_reload(self, now: SignatureT) -> bool:
        """Return whether `now`, the signature of this poll, is a change to load: settled, or unsettled for too long."""
        has_changed, is_unchanged_since_poll = now != self.last_attempt, now == self._previous
        self._previous = now
        self._unsettled_polls = self._unsettled_polls + 1 if has_changed else 0
        is_due = has_changed and (is_unchanged_since_poll or self._unsettled_polls >= MAX_UNSETTLED_POLLS)
        if is_due:
            self._unsettled_polls = 0
        return is_due


def file_signature(path: str | Path) -> FileSignature:
    """Return the signature of one file; raises OSError if it is missing or not accessible."""
    stat = os.stat(path)
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
