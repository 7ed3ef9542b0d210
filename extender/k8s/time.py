"""Times as the Kubernetes API writes them (metav1.Time and MicroTime: RFC 3339 with a zone), as nanoseconds since 1970.

Rule: the only module that parses or formats RFC 3339.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND = 10**9
"""Nanoseconds in one second."""

MINUTE = 60 * SECOND

_FRACTION = re.compile(r"\.\d+")
# Maximum length of cached texts: a time with nanoseconds and a zone has 35 characters.
_MAX_CACHED_CHARACTERS = 40

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> int:
    """Parse a time to nanoseconds since 1970. Raises ValueError without a zone, or outside 1678 to 2261 (64 bits)."""
    return _parse_cached(text) if len(text) <= _MAX_CACHED_CHARACTERS else _parse(text)


def _parse(text: str) -> int:
    time = parse_datetime(text)
    if not 1678 <= time.year < 2262:
        raise _time_error(text)
    since = time - _EPOCH
    fraction = _FRACTION.search(text) if "." in text else None
    beyond = int(fraction[0][1:10].ljust(9, "0")) if fraction else 0
    return (since.days * 86_400 + since.seconds) * SECOND + beyond


_parse_cached = lru_cache(maxsize=1024)(_parse)


def parse_datetime(text: str) -> datetime:
    """Parse a time of any year to whole seconds; 9999 can mean "never". Raises ValueError without a zone."""
    try:
        # fromisoformat keeps microseconds only; parse_time adds the fraction with all its digits.
        time = datetime.fromisoformat(_FRACTION.sub("", text) if "." in text else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise _time_error(text)
    return time


def _time_error(text: str) -> ValueError:
    return ValueError(f"expected a time such as 2026-01-31T08:00:00Z, got {text[:40]!r}")


def format_time(nanoseconds: int, digits: int = 0) -> str:
    """Return the UTC time, `2026-01-31T08:00:00Z`, with `digits` of the second's fraction, truncated."""
    seconds, rest = divmod(nanoseconds, SECOND)
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def read_time(text: str, now: Callable[[], int]) -> int:
    """Parse `2026-03-01T12:00:00Z` or an age such as `15m` into Unix nanoseconds; ValueError for anything else."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return now() - int(duration[1]) * _SECONDS[duration[2]] * SECOND
    return parse_time(text) // _MILLISECOND * _MILLISECOND


_MILLISECOND = 10**6
"""Nanoseconds; filters round down to milliseconds, because decisions show no more."""

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


# Go accepts the micro sign (U+00B5) and the Greek letter mu (U+03BC).
_MICROSECONDS = dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 10**3)
# Unit -> nanoseconds; "ms" comes before "m", because _GO_PART takes the first that matches.
_GO_UNITS = {"ns": 1, **_MICROSECONDS, "ms": 10**6, "s": SECOND, "m": MINUTE, "h": 60 * MINUTE}
# With possessive quantifiers, which do not try a number again with fewer digits.
_GO_NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)"
_GO_PART = re.compile(rf"({_GO_NUMBER})({'|'.join(_GO_UNITS)})")
_GO_DURATION = re.compile(rf"0|(?:{_GO_NUMBER}(?:{'|'.join(_GO_UNITS)}))++")


def parse_duration(text: str) -> int | None:
    """Parse a Go duration such as 1m30s or -5s to nanoseconds of any size (time.ParseDuration); None for other text."""
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not _GO_DURATION.fullmatch(unsigned):
        return None
    total = 0
    for number, unit in _GO_PART.findall(unsigned):
        whole, _, fraction = number.partition(".")
        total += int(whole + fraction) * _GO_UNITS[unit] // 10 ** len(fraction)
    return -total if text.startswith("-") else total


def human_duration(nanoseconds: int) -> str:
    """Return a duration as kubectl prints ages: `12s`, `5m30s`, `3h`, `2d4h` (duration.HumanDuration, apimachinery)."""
    seconds = max(nanoseconds // SECOND, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 2:
        return f"{seconds}s"
    if hours < 3:
        return _two_units(minutes, "m", seconds % 60, "s", first_alone=10)
    if days < 2:
        return _two_units(hours, "h", minutes % 60, "m", first_alone=8)
    if days < 2 * 365:
        return _two_units(days, "d", hours % 24, "h", first_alone=8)
    return _two_units(days // 365, "y", days % 365, "d", first_alone=8)


def _two_units(first: int, unit: str, rest: int, smaller: str, first_alone: int) -> str:
    return f"{first}{unit}{rest}{smaller}" if rest and first < first_alone else f"{first}{unit}"
