"""Value types of the configuration (durations, sizes, names) and their textual form.

Rule: a check raises ValueError with a message that completes "<key>: …"; the caller adds file and line.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StrictInt

from extender.k8s.selectors import is_label_value, is_qualified_name
from extender.k8s.time import parse_duration
from extender.k8s.version.versions import supported_version
from extender.utilities.text import suggestion

# Durations in our own file, which are neither negative nor finer than a millisecond.
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+|0", re.ASCII)
_SIZE_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d+)(k|M|G|Ki|Mi|Gi|)")


def nanoseconds_of(duration: str) -> int:
    """Parse a Go duration such as 1m30s or -5s (time.ParseDuration). Raises ValueError."""
    found = parse_duration(duration)
    if found is None:
        raise ValueError(f'invalid duration "{duration}"')
    if abs(found) >= 2**63:
        raise ValueError("must be shorter than 292 years")  # the int64 of Go's time.Duration
    return found


def _seconds(value: object) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise ValueError("must be a duration such as 30s, 1m30s or 500ms")
    return nanoseconds_of(value) / 10**9


def _duration_text(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    parts = [(whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"), (milliseconds, "ms")]
    return "".join(f"{n}{unit}" for n, unit in parts if n) or "0s"


def nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded to the millisecond, the finest unit of written durations."""
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


def scheduler_version(version: str) -> str:
    """Validate a version of kube-scheduler: `auto`, or a supported version."""
    if version != "auto":
        supported_version(version)
    return version


def minor_version(version: str) -> str:
    """Validate a value of --emulated-version or --min-compatibility-version: a minor, without patch."""
    if version.strip().removeprefix("v") != f"1.{supported_version(version).minor}":
        raise ValueError(f'"{version}" must be a minor version such as 1.36')
    return version


def annotation_name(name: str) -> str:
    """Validate an annotation key: a label key in any case (ValidateAnnotations, apimachinery v1.36)."""
    if not is_qualified_name(name.lower()):
        raise ValueError("must be a name such as example.com/name")
    return name


def _rule_name(name: str) -> str:
    if name == "" or not is_label_value(name):
        raise ValueError("must be 1 to 63 letters and digits, with - _ and . between them")
    return name


def unique(name_of: Callable[[Any], str] = str) -> AfterValidator:
    """Return a validator that rejects lists in which a name occurs twice."""

    def check(items: list[Any]) -> list[Any]:
        for name, count in Counter(map(name_of, items)).items():
            if count > 1:
                raise ValueError(f"duplicate {name}")
        return items

    return AfterValidator(check)


def known_names(known: Sequence[str]) -> AfterValidator:
    """Return a validator that rejects lists with unknown names."""

    def check(names: list[str]) -> list[str]:
        for name in names:
            if name not in known:
                raise ValueError(f"{name} is not one of {', '.join(known)}{suggestion(name, known)}")
        return names

    return AfterValidator(check)


Duration = Annotated[float, BeforeValidator(_seconds), PlainSerializer(_duration_text)]
"""Seconds; in the file, text with units like Go's time.Duration."""
PositiveDuration = Annotated[Duration, Field(gt=0)]
ByteCount = Annotated[int, BeforeValidator(_bytes), PlainSerializer(_bytes_text), Field(ge=1)]
Count = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]
NonEmptyText = Annotated[str, Field(min_length=1)]
AnnotationName = Annotated[str, AfterValidator(annotation_name)]
"""Key of an annotation or label."""
RuleName = Annotated[str, AfterValidator(_rule_name)]
