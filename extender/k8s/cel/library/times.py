"""Durations and timestamps, as Go's package time parses and writes them (common/types/duration.go, timestamp.go).

Rule: no time zone database is read; a zone given by name is not evaluated.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from extender.k8s.cel.values import MAX_INT, MIN_INT, CelError, Duration, Run, Timestamp, UnsupportedFeature
from extender.k8s.time import parse_duration

_SECOND: Final = 10**9
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_MAX_CHARACTERS = 200
_MIN_UNIX = -62135596800
_MAX_UNIX = 253402300799
_EPOCH = date(1970, 1, 1).toordinal()
_YEAR_1 = date(1, 1, 1).toordinal()
_DAY = 86400


def read_duration(text: str) -> Duration | None:
    nanos = parse_duration(text) if len(text) <= _MAX_CHARACTERS else None
    return Duration(nanos) if nanos is not None and MIN_INT <= nanos <= MAX_INT else None


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 timestamp; None for any other text. Raises CelError outside the years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = 0
    if match[8] != "Z":
        if int(match[10]) > 24 or int(match[11]) > 60:
            return None
        offset = (int(match[10]) * 60 + int(match[11])) * (-60 if match[9] == "-" else 60)
    try:
        days = date(year or 4, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if year == 0:  # a leap year, which Python's dates do not have: it stands in as year 4
        days -= date(4, 1, 1).toordinal() - _YEAR_1 + 366
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - offset
    return checked_timestamp(seconds * _SECOND + int(((match[7] or "") + "0" * 9)[:9]), offset)


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if not _MIN_UNIX <= nanos // _SECOND <= _MAX_UNIX:
        raise CelError("timestamp overflow")
    return Timestamp(nanos, offset)


def checked_duration(nanos: int) -> Duration:
    if not MIN_INT <= nanos <= MAX_INT:
        raise CelError("integer overflow")
    return Duration(nanos)


def duration_text(value: Duration) -> str:
    sign = -1 if value.nanos < 0 else 1
    whole, rest = divmod(abs(value.nanos), _SECOND)
    seconds = sign * (float(whole) + rest / 1e9)
    # Go writes the shortest text that parses to the same double.
    text = str(int(seconds))
    if seconds != int(seconds):
        text = next(shorter for digits in range(20) if float(shorter := f"{seconds:.{digits}f}") == seconds)
    return f"{text}s"


def timestamp_text(value: Timestamp) -> str:
    days, second, nanos = _local(value, value.offset)
    day = date.fromordinal(days + _EPOCH)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    minutes = abs(value.offset) // 60
    zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if value.offset else "Z"
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{day.year:04d}-{day.month:02d}-{day.day:02d}T{clock}{fraction}{zone}"


def _local(value: Timestamp, offset: int) -> tuple[int, int, int]:
    """Return (days since 1970, second of the day, nanosecond) at an offset from UTC."""
    seconds, nanos = divmod(value.nanos, _SECOND)
    days, second = divmod(seconds + offset, _DAY)
    if not _YEAR_1 <= days + _EPOCH <= date.max.toordinal():
        raise UnsupportedFeature("a timestamp outside the years 1 to 9999 in its time zone")
    return days, second, nanos


def _offset(zone: str) -> int:
    match = re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", zone)
    if zone in ("UTC", ""):
        return 0
    if match is None:
        raise UnsupportedFeature("a time zone by its name")
    return (int(match[2]) * 60 + int(match[3])) * (-60 if match[1] == "-" else 60)


def _getter(part: Callable[[date, int, int], int]) -> Callable[..., int]:
    def get(_run: Run, value: Any, zone: str = "UTC") -> int:
        days, second, nanos = _local(value, _offset(zone))
        return part(date.fromordinal(days + _EPOCH), second, nanos)

    return get


def _truncated(amount: int, by: int) -> int:
    return -(-amount // by) if amount < 0 else amount // by


_PARTS: dict[str, Callable[[date, int, int], int]] = {
    "getFullYear": lambda day, _second, _nanos: day.year,
    "getMonth": lambda day, _second, _nanos: day.month - 1,
    "getDayOfYear": lambda day, _second, _nanos: day.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda day, _second, _nanos: day.day - 1,
    "getDate": lambda day, _second, _nanos: day.day,
    "getDayOfWeek": lambda day, _second, _nanos: day.isoweekday() % 7,
    "getHours": lambda _day, second, _nanos: second // 3600,
    "getMinutes": lambda _day, second, _nanos: second // 60 % 60,
    "getSeconds": lambda _day, second, _nanos: second % 60,
    "getMilliseconds": lambda _day, _second, nanos: nanos // 10**6,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"{name}: timestamp.() -> int; timestamp.(string) -> int": _getter(part) for name, part in _PARTS.items()},
    "getHours: duration.() -> int": lambda _run, value: _truncated(value.nanos, 3600 * _SECOND),
    "getMinutes: duration.() -> int": lambda _run, value: _truncated(value.nanos, 60 * _SECOND),
    "getSeconds: duration.() -> int": lambda _run, value: _truncated(value.nanos, _SECOND),
    "getMilliseconds: duration.() -> int": lambda _run, value: _truncated(value.nanos, 10**6),
}
