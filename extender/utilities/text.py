"""Counts, lists and amounts in words."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_COMPARED_NAMES = 1000
"""Maximum number of names that a misspelt one is compared with, in pure Python: some 50 ms."""

MAX_COMPARED_CHARACTERS = 253
"""Length of the longest name in Kubernetes; a longer one is similar to none."""


MAX_QUOTED_CHARACTERS = 300
"""Length of a text of others, such as a name or an error, that a sentence quotes at most."""


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 node`, `2 nodes`; `many`: the plural if it is not `one` plus an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def join_names(names: Sequence[str], limit: int, total: int | None = None) -> str:
    """Join the first `limit` names and count the rest: `a, b and 3 more`; `total`: full count if `names` is partial."""
    left = (len(names) if total is None else total) - min(limit, len(names))
    return ", ".join(names[:limit]) + (f" and {more(left)}" if left > 0 else "")


def more(count: int, noun: str = "") -> str:
    """Return `3 more`, or with a noun `1 more node` and `3 more nodes`."""
    return f"{count} more {noun}{'' if count == 1 else 's'}" if noun else f"{count} more"


def join_counts(counts: Iterable[tuple[str, int]], limit: int) -> str:
    """Join the first `limit` reasons with their counts and sum the others: `3 a, 1 b, 2 for other reasons`."""
    ordered = list(counts)
    listed = [f"{count} {reason}" for reason, count in ordered[:limit]]
    more = sum(count for _, count in ordered[limit:])
    return ", ".join(listed + ([f"{more} for other reasons"] if more else []))


def shortened(text: str, limit: int = MAX_QUOTED_CHARACTERS) -> str:
    """Return the text, cut off after `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def similar_names(name: str, names: Iterable[str], limit: int, min_similarity: float = 0.6) -> list[str]:
    """Return the `limit` most similar names, the best first; of very many, only those near `name` in the alphabet."""
    if len(name) > MAX_COMPARED_CHARACTERS:
        return []
    ordered = sorted(names)
    first = max(0, bisect(ordered, name) - MAX_COMPARED_NAMES // 2)
    return get_close_matches(name, ordered[first : first + MAX_COMPARED_NAMES], limit, min_similarity)


def closest(name: str, known: Iterable[str], min_similarity: float = 0.6) -> str | None:
    """Return the most similar known name, ignoring case; None if none reaches `min_similarity` (difflib, up to 1)."""
    lower = {one.lower(): one for one in known}
    close = similar_names(name.lower(), lower, 1, min_similarity)
    return lower[close[0]] if close else None


def did_you_mean(names: Sequence[str]) -> str:
    """Return ` (did you mean a or b?)`, the end of a sentence about a name that is not known; "" without names."""
    return f" (did you mean {' or '.join(names)}?)" if names else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` for the closest known name, or an empty string."""
    close = closest(name, known)
    return did_you_mean([close] if close else [])


_BINARY_UNITS = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def format_amount(resource: str, value: int, *, is_exact: bool = False) -> str:
    """Format millicores, bytes or a count as manifests write it: 250m, 3, 4Gi; bytes have at most one decimal.

    `is_exact`: bytes in the largest unit that has no decimals, as kubectl prints them: 15839424Ki.
    """
    if resource == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if is_bytes(resource):
        for power, unit in _BINARY_UNITS:
            if abs(value) >= 1 << power and not (is_exact and value % (1 << power)):
                return f"{value / (1 << power):.1f}".removesuffix(".0") + unit
    return str(value)


def is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def format_together(resource: str, values: Sequence[int]) -> list[str]:
    """Format amounts of one resource in one unit, so that they compare at a glance: 3, 8; 3000m, 7910m; 4.5Gi, 32Gi.

    Bytes get the largest unit in which the smallest amount is at least a tenth and different amounts look different.
    """
    if resource == "cpu" and any(value % 1000 for value in values):
        return [f"{value}m" if value else "0" for value in values]
    if not is_bytes(resource):
        return [format_amount(resource, value) for value in values]
    smallest, shown = min((abs(value) for value in values if value), default=0), list[str]()
    for power, unit in (*_BINARY_UNITS, (0, "")):
        # Halves away from zero, as JavaScript's toFixed on the page does; Python would round them to even.
        hundredths = [(abs(value) * 200 + (1 << power)) // (2 << power) for value in values]
        amounts = [f"{one // 100}.{one % 100:02}".rstrip("0").rstrip(".") for one in hundredths]
        signs = ["-" if value < 0 < one else "" for one, value in zip(hundredths, values, strict=True)]
        shown = [f"{s}{one}{unit if value else ''}" for s, one, value in zip(signs, amounts, values, strict=True)]
        if smallest * 10 >= 1 << power and len(set(shown)) == len(set(values)):
            break
    return shown
