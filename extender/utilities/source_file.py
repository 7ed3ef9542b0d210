"""The files that a cluster was read from, as answers name them."""

import msgspec


class SourceFile(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A file or folder that a cluster was read from."""

    path: str
    modified: str = ""
    """When it, or the newest file in the folder, was written, UTC; empty for standard input."""
