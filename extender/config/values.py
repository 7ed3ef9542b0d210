"""Value types of the configuration (durations, sizes, names) and their textual form.

Rule: a check raises ValueError with a message that completes "<key>: …"; the caller adds file and line.
"""

import difflib
import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from extender.k8s.selectors import is_label_value, is_qualified_name

_DURATION_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_MAX_DURATION_SECONDS = 2**63 / 10**9
"""Range of Go's time.Duration, an int64 of nanoseconds."""
_SIZE_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d+)(k|M|G|Ki|Mi|Gi|)")


def _seconds(value: object) -> float:
    if isinstance(value, float):
        return value
    if value != "0" and (not isinstance(value, str) or not _DURATION.fullmatch(value)):
        raise ValueError("must be a duration such as 30s, 1m30s or 500ms")
    seconds = sum(float(n) * _DURATION_UNITS[unit] for n, unit in _DURATION_PART.findall(str(value)))
    if seconds >= _MAX_DURATION_SECONDS:
        raise ValueError("must be shorter than 292 years")
    return seconds


def _duration_text(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    parts = [(whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"), (milliseconds, "ms")]
    return "".join(f"{n}{unit}" for n, unit in parts if n) or "0s"


def nanoseconds(seconds: float) -> int:
    """Return the duration in nanoseconds, rounded to the millisecond as durations are written."""
    return round(seconds * 1000) * 10**6


def _bytes(value: object) -> int:
    match = _SIZE.fullmatch(str(value)) if isinstance(value, str | int) else None
    if not match:
        raise ValueError("must be a number of bytes such as 2Mi")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _bytes_text(size: int) -> int | str:
    for unit in ("Gi", "Mi", "Ki"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit}"
    return size


def positive_or_all(value: object) -> object:
    if value == "All" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError("must be a number from 1, or All")


def _resource_name(name: str) -> str:
    if not is_qualified_name(name):
        raise ValueError("must be a resource name such as cpu or example.com/device")
    return name


def resource_group(name: str) -> str:
    if "/" in name:
        raise ValueError("must be the part of resource names before the slash, without a slash")
    return _resource_name(name)


def annotation_name(name: str) -> str:
    """Validate the key of an annotation: a label key in any case (ValidateAnnotations, apimachinery v1.36)."""
    if not is_qualified_name(name.lower()):
        raise ValueError("must be a name such as example.com/name")
    return name


def _rule_name(name: str) -> str:
    if not name or not is_label_value(name):
        raise ValueError("must be 1 to 63 letters and digits, with - _ and . between them")
    return name


Duration = Annotated[float, BeforeValidator(_seconds), PlainSerializer(_duration_text)]
"""Seconds; in the file text with units, as Go's time.Duration."""
ByteCount = Annotated[int, BeforeValidator(_bytes), PlainSerializer(_bytes_text), Field(ge=1)]
NonEmptyText = Annotated[str, Field(min_length=1)]
AnnotationName = Annotated[str, AfterValidator(annotation_name)]
"""Key of an annotation or label."""
RuleName = Annotated[str, AfterValidator(_rule_name)]
ResourceGroup = Annotated[str, AfterValidator(resource_group)]
ResourceName = Annotated[str, AfterValidator(_resource_name)]


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return ` (did you mean …?)` for the closest known name, or an empty string."""
    lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return f" (did you mean {lower[close[0]]}?)" if close else ""


def require_known(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"{name} is not one of {', '.join(known)}{suggestion(name, known)}")
    return name


def require_unique(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is listed twice")


def require_known_and_unique(names: list[str], known: tuple[str, ...]) -> list[str]:
    for name in names:
        require_known(name, known)
    require_unique(names)
    return names


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
