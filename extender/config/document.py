"""A YAML document with the line of every key, and messages with file, line and path.

Rule: every value has a place, which errors about the value report.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from extender.errors import ConfigError
from extender.utilities.regular_file import read_regular_file
from extender.utilities.text import shortened
from extender.utilities.yaml_reader import YAMLError, read_document

KeyPath = tuple[str | int, ...]

# Maximum size of a configuration file, that of a ConfigMap.
MAX_CONFIG_BYTES = 1 << 20

# Maximum number of mistakes listed in an error.
MAX_REPORTED_MISTAKES = 50

# Maximum length of a mistake's message, which may quote keys and values of the file.
MAX_MESSAGE_CHARACTERS = 600


class Place(NamedTuple):
    """Source of a value: file and line, or an environment variable or option (line 0, sorted first)."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


class Mistake(NamedTuple):
    """An invalid value."""

    path: KeyPath
    reason: str


def plain_scalar(text: str) -> object:
    """Resolve null, booleans and decimal integers; everything else, such as `30s`, `1e3` and dates, is text.

    Narrower than what Kubernetes' own files allow (`kubernetes_scalar`): nothing in a setting is guessed, so `on` and
    010 are refused where a boolean or a number is needed.
    """
    if re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,18})", text, re.ASCII):
        return int(text)
    return {"": None, "~": None, "null": None, "true": True, "false": False}.get(text, text)


@dataclass(slots=True)
class Document:
    """Values of a document, and their places."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, example: str) -> Self:
        """Read a file that holds a mapping. Raises ConfigError.

        `example`: a valid line, for the message about a file without a mapping.
        """
        return cls.parse(str(path), cls.read_text(path), example, lambda text: read_document(text, plain_scalar))

    @staticmethod
    def read_text(path: Path) -> str:
        """Return the text of a file; raises ConfigError."""
        try:
            return read_regular_file(path, MAX_CONFIG_BYTES).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from error

    @classmethod
    def parse(
        cls, name: str, text: str, example: str, parse: Callable[[str], tuple[Any, Mapping[KeyPath, int]]]
    ) -> Self:
        """Return the mapping that `parse` finds in the text, with its path -> line. Raises ConfigError."""
        try:
            data, lines = parse(text)
        except YAMLError as error:
            raise ConfigError(f"{Place(name, error.line or 0)}: {error.problem}") from error
        if not isinstance(data, dict | None):
            raise ConfigError(f"{name}:1: must be a mapping such as `{example}`")
        places = {(): Place(name, 1)} if data is not None else {}
        return cls(name, data or {}, places | {key: Place(name, line) for key, line in lines.items()})

    def place(self, path: KeyPath) -> Place:
        """Return the place of the key, else of a key below it, else of its parent."""
        if path in self.places:
            return self.places[path]
        for known, place in self.places.items():  # a section may be set only by a variable of one of its keys
            if known[: len(path)] == path:
                return place
        return self.place(path[:-1]) if path else Place(self.name)

    def refuse(self, mistakes: Sequence[Mistake]) -> ConfigError:
        """Return an error with a line per mistake: `c.yaml:12: server.prot: unknown key (did you mean port?)`."""
        placed = [(self.place(one.path), one) for one in mistakes[:MAX_REPORTED_MISTAKES]]
        lines = []
        # In the order of the file, not of the schema.
        for place, one in sorted(placed, key=lambda pair: pair[0].line):
            path = f"{path_text(one.path)}: " if one.path else ""
            lines.append(shortened(f"{place}: {path}{one.reason}", MAX_MESSAGE_CHARACTERS))
        if len(mistakes) > MAX_REPORTED_MISTAKES:
            lines.append(f"{self.name}: {len(mistakes) - MAX_REPORTED_MISTAKES:,} more mistakes")
        return ConfigError("\n".join(lines))


def path_text(path: KeyPath) -> str:
    """Format a path as Kubernetes does: `profiles[0].plugins.filter`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
