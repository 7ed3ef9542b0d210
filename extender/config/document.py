"""A YAML document with the place of every key in it, and messages that name file, line and path.

Rule: a value comes with its place; whoever refuses it says both.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import yaml

from extender.errors import ConfigError
from extender.utilities.regular_file import read_regular_file
from extender.utilities.yaml_reader import compose

KeyPath = tuple[str | int, ...]

MAX_CONFIG_BYTES = 1 << 20
"""Size of a configuration file: that of a ConfigMap."""

MAX_REPORTED_MISTAKES = 50
"""Mistakes that an error lists."""

MAX_MESSAGE_CHARACTERS = 600
"""Length of the message of a mistake, which may quote keys and values of the file."""

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"


class Place(NamedTuple):
    """Source of a value: a file and line, or a variable or option (line 0, sorted first)."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


class Mistake(NamedTuple):
    """A value that is refused."""

    path: KeyPath
    reason: str


@dataclass(slots=True)
class Document:
    """Values of a document, and the source location of each."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, example: str) -> Self:
        """Read a file that holds a mapping; `example` is one, for the message about a file that does not."""
        document = cls(str(path))
        try:
            root = compose(read_regular_file(path, MAX_CONFIG_BYTES).decode("utf-8-sig"))
            data = document.plain(root, ()) if root else {}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from error
        except yaml.YAMLError as error:
            raise ConfigError(shortened(f"{path}{_yaml_problem(error)}")) from error
        if not isinstance(data, dict):
            raise ConfigError(f"{path}:1: must be a mapping such as `{example}`")
        document.data = data
        return document

    def plain(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the node's value and record the line of every key in it."""
        self.places.setdefault(path, Place(self.name, node.start_mark.line + 1))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*path, index)) for index, item in enumerate(node.value)]
        return self.scalar(node) if isinstance(node, yaml.ScalarNode) else None

    def scalar(self, node: yaml.ScalarNode) -> object:
        """Return null, booleans and decimal integers typed; all else, such as `30s`, `1e3` and dates, is text."""
        text: str = node.value
        if node.style is not None:
            return text
        if re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,18})", text, re.ASCII):
            return int(text)
        return {"": None, "~": None, "null": None, "true": True, "false": False}.get(text, text)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in self._entries(node):
            place, key = Place(self.name, key_node.start_mark.line + 1), key_node.value
            if not isinstance(key, str):
                raise ConfigError(f"{place}: a key must be a string")
            if key in values:
                raise ConfigError(f"{place}: {shortened(path_text((*path, key)))}: is listed twice")
            self.places[*path, key] = place
            values[key] = self.plain(value_node, (*path, key))
        return values

    def _entries(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield keys and values, with those of the mappings that `<<` names.

        A key that stands in both is listed twice, which kube-scheduler's strict decoder refuses too.
        """
        for key, value in node.value:
            if key.tag != _MERGE_TAG:
                yield key, value
                continue
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(merged, yaml.MappingNode):
                    place = Place(self.name, key.start_mark.line + 1)
                    raise ConfigError(f"{place}: << must name a mapping, or a list of mappings")
                yield from self._entries(merged)

    def place(self, path: KeyPath) -> Place:
        """Return the location of the key, else of a key below it, else of its parent."""
        if path in self.places:
            return self.places[path]
        for known, place in self.places.items():
            if known[: len(path)] == path:
                return place
        return self.place(path[:-1]) if path else Place(self.name)

    def describe(self, mistakes: Sequence[Mistake]) -> Iterator[str]:
        """Yield a message per mistake, by line: `extender.yaml:12: server.prot: unknown key (did you mean port?)`."""
        placed = [(self.place(one.path), one) for one in mistakes[:MAX_REPORTED_MISTAKES]]
        for place, one in sorted(placed, key=lambda pair: pair[0].line):
            path = f"{path_text(one.path)}: " if one.path else ""
            yield shortened(f"{place}: {path}{one.reason}")
        if len(mistakes) > MAX_REPORTED_MISTAKES:
            yield f"{self.name}: {len(mistakes) - MAX_REPORTED_MISTAKES:,} more mistakes"

    def refuse(self, mistakes: Iterable[Mistake]) -> ConfigError:
        """Return the error that lists the mistakes."""
        return ConfigError("\n".join(self.describe(list(mistakes))))


def shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else f"{text[:MAX_MESSAGE_CHARACTERS]}…"


def path_text(path: KeyPath) -> str:
    """Return the path as Kubernetes writes it: `profiles[0].plugins.filter`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f":{mark.line + 1}: {problem}" if mark and problem else f": {str(error).splitlines()[0]}"
