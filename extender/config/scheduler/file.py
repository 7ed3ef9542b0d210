"""Read the file of kube-scheduler's --config as its decoder does, or take it from a ConfigMap.

    begins with {   JSON, to its end (IsJSONBuffer, apimachinery v0.37); nothing else may follow
    else            YAML, of which kube-scheduler reads the first document only
    a ConfigMap     as `kubectl get` prints it, alone, in a List or among others: the key that holds a configuration

Rule: kube-scheduler itself never reads a ConfigMap; lines of mistakes are then those of the key's text.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from extender.config.document import Document, KeyPath, plain_scalar
from extender.config.scheduler.schema import API_VERSION, KIND
from extender.errors import ConfigError
from extender.utilities.text import join_names
from extender.utilities.yaml_reader import (
    YAMLError,
    kubernetes_scalar,
    read_document,
    read_documents,
    read_first_document,
)

SECOND_DOCUMENT: Final[KeyPath] = ("documents", 1)
"""Path of a document that kube-scheduler does not read; known to `Document.places` if the file has one."""

MAX_LISTED: Final = 10
"""Maximum number of keys that an error names."""

_EXAMPLE: Final = f"kind: {KIND}"
_HOLDS_KIND: Final = re.compile(rf"""\bkind["']?\s*:\s*["']?{KIND}\b""")


def read_scheduler_file(path: Path) -> Document:
    """Return the configuration in a file of kube-scheduler or with a ConfigMap. Raises ConfigError."""
    text = Document.read_text(path)
    document = Document.parse(str(path), text, _EXAMPLE, _parse)
    if document.data.get("kind") == KIND:
        return document
    with contextlib.suppress(YAMLError):  # kube-scheduler's words about its own file are clearer
        return _held(str(path), read_documents(text.encode())) or document
    return document


def scheduler_document(given: Mapping[str, Any]) -> Document:
    """Return the configuration in a mapping, which may be a ConfigMap. Raises ConfigError."""
    plain = Document(KIND, dict(given) or {"apiVersion": API_VERSION, "kind": KIND})
    return _held(KIND, [given]) or plain


def _held(name: str, objects: Iterable[Any]) -> Document | None:
    """Return the only configuration that ConfigMaps among the objects hold, if any. Raises ConfigError."""
    found = [
        (f"data[{key}] of ConfigMap {(one.get('metadata') or {}).get('name', '')}", text)
        for one in _flat(objects)
        if one.get("kind") == "ConfigMap" and isinstance(one.get("data"), dict)
        for key, text in one["data"].items()
        if isinstance(text, str) and _HOLDS_KIND.search(text)
    ]
    if len(found) > 1:
        names = join_names([key for key, _ in found], MAX_LISTED)
        raise ConfigError(f"{name}: holds several configurations, save one as a file: {names}")
    return Document.parse(f"{name}: {found[0][0]}", found[0][1], _EXAMPLE, _parse) if found else None


def _flat(objects: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for one in objects:
        if isinstance(one, Mapping):
            items = one.get("items")
            yield one
            yield from (item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()


def _parse(text: str) -> tuple[Any, dict[KeyPath, int]]:
    """Return the value and path -> line."""
    if text.lstrip().startswith("{"):
        _check_json(text)
        return read_document(text, _json_scalar)
    data, lines, following = read_first_document(text, kubernetes_scalar)
    return data, lines if following is None else lines | {SECOND_DOCUMENT: following}


def _check_json(text: str) -> None:
    """Raise YAMLError where the text is not JSON, whose grammar is stricter than YAML's."""
    try:
        with contextlib.suppress(RecursionError):  # the reader of the values refuses deep nesting
            json.loads(text)
    except json.JSONDecodeError as error:
        wrong = YAMLError(f"begins with {{, so kube-scheduler reads it as JSON: {error.msg}")
        wrong.line = error.lineno
        raise wrong from None


def _json_scalar(text: str) -> object:
    """Resolve a number or a constant of JSON: 3.0 is not an integer there."""
    value = plain_scalar(text)
    return float(value) if isinstance(value, str) else value
