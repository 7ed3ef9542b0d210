"""Mistakes in the words of Kubernetes' API validation (apimachinery field.Error), and checks that fields share.

Rule: a mistake names the field by its path and says what kube-scheduler says.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from extender.config.document import KeyPath, Mistake
from extender.config.section import Section
from extender.k8s.selectors import is_qualified_name

_WORD: Final = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_NAME_HELP: Final = (
    f"must consist of {_WORD} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_NOT_A_KEY: Final = (
    f"a valid label key {_NAME_HELP} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_SUBDOMAIN_HELP: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_MAX_NAME_BYTES: Final = 63
_MAX_PREFIX_BYTES: Final = 253


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
    """Yield the mistakes of a text that is not a label key (ValidateLabelName, content.IsLabelKey)."""
    if is_qualified_name(name):
        return
    prefix, slash, rest = name.partition("/")
    reasons = [_NOT_A_KEY] if "/" in rest else [*_of_prefix(prefix), *_of_name(rest)] if slash else _of_name(name)
    yield from (invalid(path, name, reason) for reason in reasons)


def _of_prefix(prefix: str) -> Iterator[str]:
    if prefix == "":
        yield "prefix part must be non-empty"
    elif len(prefix.encode()) > _MAX_PREFIX_BYTES:
        yield f"prefix part must be no more than {_MAX_PREFIX_BYTES} bytes"
    elif not is_qualified_name(f"{prefix}/a"):
        yield f"prefix part {_SUBDOMAIN_HELP}"


def _of_name(name: str) -> Iterator[str]:
    if name == "":
        yield "name part must be non-empty"
    elif len(name.encode()) > _MAX_NAME_BYTES:
        yield f"name part must be no more than {_MAX_NAME_BYTES} bytes"
    if not _NAME.fullmatch(name):
        yield f"name part {_NAME_HELP}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True, exclude_unset=True) if isinstance(value, Section) else str(value)
