"""Open and read the files that an operator names: regular files only, up to a size, gzipped or not.

A FIFO, a socket or a terminal would block its reader, and /dev/zero never ends. Files are opened without blocking and
checked once they are open, so that what is read is what was checked. Symbolic links are followed: the kubelet mounts
ConfigMaps and Secrets through them.

Rule: every refusal is an OSError, and its `strerror` describes the file; gunzip raises ValueError.
"""

import errno
import gzip
import os
import stat
import zlib
from io import BytesIO
from typing import BinaryIO

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)

_GUNZIP_CHUNK_BYTES = 1 << 20

_KINDS = (
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISFIFO, "is a FIFO, not a regular file"),
    (stat.S_ISSOCK, "is a socket, not a regular file"),
    (stat.S_ISCHR, "is a character device, not a regular file"),
    (stat.S_ISBLK, "is a block device, not a regular file"),
)


def open_regular_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> BinaryIO:
    """Return the file, opened for reading; OSError if it is not a regular file or is larger than `max_bytes`."""
    try:
        _check(os.stat(path), path, max_bytes)  # before it is opened: opening a device may have an effect
    except ValueError as error:  # a NUL byte
        raise OSError(errno.EINVAL, "is not a valid path") from error
    descriptor = os.open(path, _OPEN_FLAGS | getattr(os, "O_CLOEXEC", 0))
    try:
        _check(os.fstat(descriptor), path, max_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return the contents of a regular file; OSError for any other file, or one larger than `max_bytes`."""
    with open_regular_file(path, max_bytes) as file:
        size = os.fstat(file.fileno()).st_size
        parts, left = [], max_bytes + 1
        # Read the expected size in one part, so that large files are not copied to join parts.
        while left and (part := os.read(file.fileno(), min(max(size + 1, _GUNZIP_CHUNK_BYTES), left))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise _too_large(path, max_bytes)
    return b"".join(parts)


def descriptor_path(file: BinaryIO) -> str | None:
    """Return a path that opens the same file even if it has been renamed or replaced; None without /proc."""
    path = f"/proc/self/fd/{file.fileno()}"
    return path if os.access(path, os.R_OK) else None


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """Decompress gzipped data; ValueError if it is damaged, truncated or larger than `max_bytes`."""
    size = 0
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            # Decompressed twice, first only to count, so that a bomb uses no memory and large data is not copied.
            while part := file.read(_GUNZIP_CHUNK_BYTES):
                size += len(part)
                if size > max_bytes:
                    raise ValueError(f"is larger than {size_text(max_bytes)} once decompressed")
            file.seek(0)
            return file.read(size)
    except EOFError:
        raise ValueError("the gzip file is truncated") from None
    except (OSError, zlib.error) as error:
        raise ValueError(f"the gzip file is damaged: {error}") from None


def size_text(size: int) -> str:
    """Return a limit in bytes as text: `64 MiB`, `32 KiB`."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _check(status: os.stat_result, path: str | os.PathLike[str], max_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        text = next((text for is_kind, text in _KINDS if is_kind(status.st_mode)), "is not a regular file")
        raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, text, os.fspath(path))
    if max_bytes is not None and status.st_size > max_bytes:
        raise _too_large(path, max_bytes)


def _too_large(path: str | os.PathLike[str], max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {size_text(max_bytes)}", os.fspath(path))
