"""Counts and lists in words."""


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 node`, `2 nodes`; `many`: the plural, where it is not `one` with an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"
