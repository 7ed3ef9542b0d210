"""Decide when a changed file is reloaded; cluster files, configuration, certificates and keys are polled.

A change is loaded once two polls in a row saw the same signature, so that a partly written file is not read.
Configuration and certificates are loaded after MAX_UNSETTLED_POLLS polls in any case, at most 6 s after a change.
Cluster files are not: half a cluster may be valid, and decisions on it would be wrong.

Rule: compares file signatures, never file contents.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

POLL_INTERVAL_SECONDS = 2.0  # Time between two polls of a file

MAX_UNSETTLED_POLLS = 3  # Polls after which a configuration or certificate that keeps changing is loaded anyway

Signature = tuple[object, ...]  # Identifies the state of a file or a set of files: differs after a change


class ChangeDetector:
    """Detects that a file, or a set of files, has changed and settled."""

    def __init__(self, loaded: Signature | None = None, *, must_settle: bool = True) -> None:
        """`loaded`: signature of the files in use; None if the next poll is to see a change in any case.

        `must_settle`: if False, a change that does not settle is loaded after MAX_UNSETTLED_POLLS polls.
        """
        self._last_attempt = self._previous = loaded
        self._must_settle = must_settle
        self._unsettled_polls = 0

    def should_reload(self, now: Signature) -> bool:
        """Return whether to load the files now; `now`: their signature at this poll."""
        has_changed, has_settled, self._previous = now != self._last_attempt, now == self._previous, now
        self._unsettled_polls = self._unsettled_polls + 1 if has_changed else 0
        is_overdue = not self._must_settle and self._unsettled_polls >= MAX_UNSETTLED_POLLS
        if not has_changed or not (has_settled or is_overdue):
            return False
        self._last_attempt, self._unsettled_polls = now, 0
        return True

    def retry(self) -> None:
        """Make the next poll reload without a change: the last attempt failed, but not because of the contents."""
        self._last_attempt = None


def signature_of(paths: Iterable[str | Path]) -> Signature:
    """Return the signature of files; a missing file has one, too, so that the other files are still watched."""
    found: list[object] = []
    for path in paths:
        try:
            found.append((str(path), *file_signature(path)))
        except OSError as error:
            found.append((str(path), error.strerror))
    return tuple(found)


def file_signature(path: str | Path) -> Signature:
    """Return (inode, modification time in nanoseconds, size) of a file; raises OSError if it is not accessible.

    Symbolic links are followed: the kubelet updates mounted Secrets and ConfigMaps by swapping a link.
    """
    try:
        stat = os.stat(path)
    except ValueError as error:  # a NUL byte
        raise OSError(errno.EINVAL, "is not a valid path") from error
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
