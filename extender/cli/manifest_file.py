"""Files of manifests on the command line, with - for standard input."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def readable_path(file: str) -> Iterator[Path]:
    """Yield a path to read; standard input is copied to a temporary file."""
    from extender.cluster.files.manifests import MAX_BYTES

    if file != "-":
        yield Path(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin.yaml")
        path.write_bytes(sys.stdin.buffer.read(MAX_BYTES + 1))  # one more, which is refused as a file of that size
        yield path
