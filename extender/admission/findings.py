"""What admission finds in a manifest: mistakes, fields that are left out, pruned fields, and assumptions.

Mistakes read as an API server writes them (apimachinery util/validation/field, v1.37): `path: Kind: detail`.

Rule: all mistakes of an object are reported at once.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from extender.errors import RequestError
from extender.utilities.text import shortened

MAX_VALUE_CHARACTERS = 120
"""Length of a value that a message quotes."""

MAX_MISTAKES = 30
"""Number of mistakes that a message lists."""


MAX_KEPT = 1_000
"""Number of findings of a kind that are kept: an object may have a million."""


LEFT_OUT = "left out, and not read by kube-scheduler"
PRUNED = "unknown, and dropped by an API server"
ASSUMED = "not given, so taken as none"
"""Words before the lists of Findings."""


class Refused(RequestError):
    """The API server would refuse the object; the message lists every mistake with its place."""


class Texts(list[str]):
    """A list that drops what is appended after its first MAX_KEPT texts."""

    def append(self, text: str) -> None:
        if len(self) < MAX_KEPT:
            super().append(text)


@dataclass(slots=True)
class Findings:
    """What admission finds in one object."""

    invalid: list[str] = field(default_factory=Texts)
    """Field errors: `spec.containers[0].name: Required value`."""
    forbidden: list[str] = field(default_factory=Texts)
    """Refusals of admission plugins, each a sentence."""
    left_out: list[str] = field(default_factory=Texts)
    """Paths of required fields that scheduling does not read."""
    pruned: list[str] = field(default_factory=Texts)
    """Paths of unknown fields, which an API server drops, each with the nearest known name."""
    assumed: list[str] = field(default_factory=Texts)
    """What the result depends on and was not given, such as `LimitRanges of namespace shop`."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of an API server that was asked."""

    def required(self, path: str, detail: str = "") -> None:
        self.invalid.append(f"{path}: Required value" + (f": {detail}" if detail else ""))

    def invalid_value(self, path: str, value: Any, detail: str) -> None:
        self.invalid.append(f"{path}: Invalid value: {quoted(value)}: {detail}")

    def duplicate(self, path: str, value: Any) -> None:
        self.invalid.append(f"{path}: Duplicate value: {quoted(value)}")

    def forbid(self, path: str, detail: str) -> None:
        self.invalid.append(f"{path}: Forbidden: {detail}")

    def unsupported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        names = ", ".join(f'"{one}"' for one in supported)
        self.invalid.append(f"{path}: Unsupported value: {quoted(value)}: supported values: {names}")

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        self.invalid.append(f"{path}: Not found: {quoted(value)}" + (f": {detail}" if detail else ""))


def quoted(value: Any) -> str:
    """Return the value as JSON, shortened."""
    return shortened(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE_CHARACTERS)
