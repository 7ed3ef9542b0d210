"""Read the query parameters of a request; RequestError names the parameter and what it may be."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from extender.errors import RequestError

T = TypeVar("T", bound=str)


def check_parameters(given: Mapping[str, str], known: Collection[str]) -> None:
    """Raise RequestError for a parameter that does not exist."""
    if unknown := sorted(set(given) - set(known)):
        *others, last = known or ("none",)
        available = f"{', '.join(others)} and {last}" if others else last
        raise RequestError(f"{unknown[0]}: no such parameter; available: {available}")


def choice(given: Mapping[str, str], key: str, known: Collection[T]) -> T | None:
    """Return the parameter, which is one of `known`; None if it is not given."""
    if key not in given:
        return None
    found = next((one for one in known if one == given[key]), None)
    if found is None:
        raise RequestError(f"{key}: must be one of {', '.join(known)}, not {given[key]!r}")
    return found


def number(given: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    """Return the parameter as a number."""
    text = given.get(key, str(default))
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
        raise RequestError(f"{key}: must be a number from {least} to {most}, not {text!r}")
    return int(text)
