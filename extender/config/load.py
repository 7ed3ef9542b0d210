"""Load the configuration from file, environment and command line, in increasing precedence.

A setting's variable is its path in capitals, two underscores between levels: `preemption.keepCandidates` is
EXTENDER_PREEMPTION__KEEP_CANDIDATES. Lists and mappings are given in YAML or JSON. A variable of that prefix
that does not name a setting is an error, except those that Kubernetes sets for a Service named `extender…`.

Rule: a configuration is valid as a whole, or rejected with the location of every mistake; nothing is guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extender.config.models import Configuration
from extender.config.section import Section
from extender.config.values import suggestion
from extender.errors import ConfigError
from extender.regular_file import read_regular_file
from extender.yaml_reader import compose

KeyPath = tuple[str | int, ...]

MAX_CONFIG_BYTES = 1 << 20
"""Size of a configuration file: that of a ConfigMap."""

MAX_REPORTED_MISTAKES = 50
"""Mistakes that an error lists."""

MAX_MESSAGE_CHARACTERS = 400
"""Length of the message of a mistake, which may quote keys and values of the file."""

ENV_PREFIX = "EXTENDER_"
OTHER_VARIABLES = frozenset({"EXTENDER_CONFIG", "EXTENDER_ADMIN_URL"})
"""Variables with the prefix that do not name settings: the command line reads them."""

_SERVICE_LINK = re.compile(
    r"EXTENDER(_[A-Z0-9]+)*?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT(_\d+_[A-Z]+(_[A-Z]+)?)?)"
)
"""Service link variables that the kubelet sets for a Service whose name starts with `extender`."""


def load_config(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, tuple[str, object]] | None = None
) -> Configuration:
    """Return the effective configuration; raise ConfigError with one line per mistake.

    `overrides` are settings from the command line: option -> (path of the key such as `server.port`, value).
    """
    layers = _Layers(str(path) if path else "configuration")
    if path is not None:
        layers.read_file(path)
    layers.read_environment(env)
    for option, (key, value) in (overrides or {}).items():
        layers.put(tuple(key.split(".")), value, option)
    try:
        return Configuration.model_validate(layers.data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError("\n".join(layers.describe(error.errors()))) from error


@dataclass(slots=True)
class _Layers:
    """Values merged so far, and the source location of each."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, "_Place"] = field(default_factory=dict)

    def read_file(self, path: Path) -> None:
        try:
            root = compose(read_regular_file(path, MAX_CONFIG_BYTES).decode("utf-8-sig"))
            data = self._plain(root, ()) if root else {}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from error
        except yaml.YAMLError as error:
            raise ConfigError(_shortened(f"{path}{_yaml_problem(error)}")) from error
        if not isinstance(data, dict):
            raise ConfigError(f"{path}:1: must be a mapping such as `server: {{port: 8888}}`")
        self.data = data

    def read_environment(self, env: Mapping[str, str]) -> None:
        settings = {name: (path, is_text) for name, path, is_text in _settings(Configuration, ENV_PREFIX, ())}
        for name in sorted(env):
            if not name.startswith(ENV_PREFIX) or name in OTHER_VARIABLES:
                continue
            if name in settings:
                path, is_text = settings[name]
                self.put(path, env[name] if is_text else _env_value(name, env[name]), name)
            elif not _is_service_link(name, env[name]):
                alike = [one for one in settings if one.endswith(f"__{name.removeprefix(ENV_PREFIX)}")]
                meant = f" (did you mean {' or '.join(alike)}?)" if alike else suggestion(name, tuple(settings))
                raise ConfigError(f"{name}: no such setting{meant}")

    def put(self, path: KeyPath, value: object, place: str) -> None:
        """Set one key, replacing any earlier value."""
        *parents, key = path
        inner: dict[Any, Any] = self.data
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {}
            inner = inner[parent]
        inner[key] = value
        self.places[path] = _Place(place)

    def describe(self, errors: Sequence[ErrorDetails]) -> Iterator[str]:
        """Yield a message per error, by line: `extender.yaml:12: server.prot: unknown key (did you mean port?)`."""
        placed = [(self._place(error["loc"]), error) for error in errors[:MAX_REPORTED_MISTAKES]]
        for place, error in sorted(placed, key=lambda pair: pair[0].line):
            path = f"{_path_text(error['loc'])}: " if error["loc"] else ""
            yield _shortened(f"{place}: {path}{_error_message(error)}")
        if len(errors) > MAX_REPORTED_MISTAKES:
            yield f"{self.name}: {len(errors) - MAX_REPORTED_MISTAKES:,} more mistakes"

    def _place(self, path: KeyPath) -> "_Place":
        """Return the location of the key, else of a key below it, else of its parent."""
        if path in self.places:
            return self.places[path]
        for known, place in self.places.items():
            if known[: len(path)] == path:
                return place
        return self._place(path[:-1]) if path else _Place(self.name)

    def _plain(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the node's value and record the line of every key in it."""
        self.places.setdefault(path, _Place(self.name, node.start_mark.line + 1))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        return _scalar(node) if isinstance(node, yaml.ScalarNode) else None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place, key = _Place(self.name, key_node.start_mark.line + 1), key_node.value
            if not isinstance(key, str):
                raise ConfigError(f"{place}: a key must be a string")
            if key in values:
                raise ConfigError(f"{place}: {_shortened(_path_text((*path, key)))}: is listed twice")
            self.places[*path, key] = place
            values[key] = self._plain(value_node, (*path, key))
        return values


class _Place(NamedTuple):
    """Source of a value: a file and line, or a variable or option (line 0, sorted first)."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


def _scalar(node: yaml.ScalarNode) -> object:
    """Return null, booleans and decimal integers typed; everything else, such as `30s`, `1e3` and dates, is text."""
    text: str = node.value
    if node.style is not None:
        return text
    if re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,18})", text, re.ASCII):
        return int(text)
    return {"": None, "~": None, "null": None, "true": True, "false": False}.get(text, text)


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f":{mark.line + 1}: {problem}" if mark and problem else f": {str(error).splitlines()[0]}"


# --- environment ----------------------------------------------------------------------------------------------------


def _settings(section: type[Section], prefix: str, path: KeyPath) -> Iterator[tuple[str, KeyPath, bool]]:
    """Yield (variable, path of the key, whether its value is plain text) for every setting of the section."""
    for name, info in section.model_fields.items():
        below = (*path, info.alias or name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from _settings(info.annotation, f"{prefix}{name.upper()}__", below)
        elif below not in (("apiVersion",), ("kind",)):
            yield f"{prefix}{name.upper()}", below, _takes_text(info.annotation)


def _takes_text(annotation: Any) -> bool:
    """Return whether the annotation is `str`, `Annotated[str, …]`, or either with `| None`."""
    return annotation is str or (get_origin(annotation) is not list and any(map(_takes_text, get_args(annotation)[:1])))


def _env_value(name: str, text: str) -> object:
    try:
        node = compose(text)
        return _Layers(name)._plain(node, ()) if node else None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: {getattr(error, 'problem', None) or 'not YAML'}") from error


def _is_service_link(name: str, value: str) -> bool:
    link = _SERVICE_LINK.fullmatch(name)
    return link is not None and (link[2] != "PORT" or "://" in value)


# --- error messages --------------------------------------------------------------------------------------------------


_ERROR_MESSAGES = {"missing": "is missing", "model_type": "must be a mapping", "list_type": "must be a list"}


def _error_message(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown key{suggestion(str(error['loc'][-1]), _keys_beside(error['loc']))}"
    if error["type"] in _ERROR_MESSAGES:
        return _ERROR_MESSAGES[error["type"]]
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    text = error["msg"].replace("Input should", "must")
    given = error["input"]
    if isinstance(given, dict | list):
        return text
    allowed = re.findall(r"'(.*?)'", text)
    return f"{text}, not {given!r}{suggestion(str(given), allowed)}"


def _keys_beside(path: KeyPath) -> tuple[str, ...]:
    """Return the known keys of the section that contains the last key of `path`."""
    section: Any = Configuration
    for key in path[:-1]:
        if isinstance(key, str):
            section = next(_section_in(info.annotation) for info in section.model_fields.values() if info.alias == key)
    return tuple(info.alias for info in section.model_fields.values())


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the section class in an annotation such as `Section`, `list[Section]` or `Section | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else f"{text[:MAX_MESSAGE_CHARACTERS]}…"


def _path_text(path: KeyPath) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
