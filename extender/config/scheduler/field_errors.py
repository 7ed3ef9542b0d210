"""Mistakes in the words of Kubernetes' API validation (apimachinery field.Error), and checks that fields share.

Rule: a mistake names the field by its path and says what kube-scheduler says.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from extender.config.document import KeyPath, Mistake
from extender.config.section import Section
from extender.k8s.selectors import is_qualified_name

_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NOT_QUALIFIED: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, "
    f"with an optional DNS subdomain prefix and '/' (regex used for validation of the name is '{_NAME_PATTERN}')"
)


def invalid(path: KeyPath, value: Any, reason: str) -> Mistake:
    """Return field.Invalid."""
    return Mistake(path, f"Invalid value: {_text(value)}: {reason}")


def required(path: KeyPath, reason: str = "") -> Mistake:
    """Return field.Required."""
    return Mistake(path, f"Required value: {reason}" if reason else "Required value")


def forbidden(path: KeyPath, reason: str) -> Mistake:
    """Return field.Forbidden."""
    return Mistake(path, f"Forbidden: {reason}")


def duplicate(path: KeyPath, value: Any) -> Mistake:
    """Return field.Duplicate."""
    return Mistake(path, f"Duplicate value: {_text(value)}")


def unsupported(path: KeyPath, value: Any, supported: Iterable[str]) -> Mistake:
    """Return field.NotSupported."""
    return Mistake(path, f"Unsupported value: {_text(value)}: supported values: {', '.join(map(_text, supported))}")


def label_name(path: KeyPath, name: str) -> Iterator[Mistake]:
    """Yield the mistake of a text that is not a label key (ValidateLabelName)."""
    if not is_qualified_name(name):
        yield invalid(path, name, _NOT_QUALIFIED)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True, exclude_unset=True) if isinstance(value, Section) else str(value)
