"""Load the configuration from file, environment and command line, in increasing precedence.

The variable of a setting is its path in capitals, two underscores between levels: `preemption.keepCandidates` is
EXTENDER_PREEMPTION__KEEP_CANDIDATES. Lists and mappings are in YAML or JSON. Any other variable with that prefix is an
error, except those that Kubernetes sets for a Service named `extender…`.

Rule: a configuration is valid as a whole, or rejected with the place of every mistake; nothing is guessed.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from extender.config.decoding import DecodingError, Section, decode
from extender.config.document import Document, KeyPath, Place, plain_scalar
from extender.config.models import Configuration
from extender.config.scheduler.load import check_section
from extender.errors import ConfigError
from extender.utilities.text import did_you_mean, suggestion
from extender.utilities.yaml_reader import YAMLError, read_document

ENV_PREFIX = "EXTENDER_"
# Variables with the prefix that the command line reads, and that are not settings.
OTHER_VARIABLES = frozenset({"EXTENDER_CONFIG", "EXTENDER_ADMIN_URL"})

# Service environment variables that the kubelet sets for a Service whose name starts with `extender`.
_SERVICE_LINK = re.compile(
    r"EXTENDER(_[A-Z0-9]+)*?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT(_\d+_[A-Z]+(_[A-Z]+)?)?)"
)


def load_config(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, tuple[str, object]] | None = None
) -> Configuration:
    """Return the effective configuration. Raises ConfigError with one line per mistake.

    `overrides`: settings from the command line, option -> (path of the key such as `server.port`, value).
    """
    # 1. Merge the layers, each value with its place.
    layers = _Layers.read(path, "server: {port: 8888}") if path else _Layers("configuration")
    layers.read_environment(env)
    for option, (key, value) in (overrides or {}).items():
        layers.put(tuple(key.split(".")), value, option)
    # 2. Validate the sections, then the parts that depend on kube-scheduler's version.
    try:
        config = decode(Configuration, layers.data)
    except DecodingError as error:
        raise layers.refuse(error.mistakes) from error
    check_section(config, layers)
    return config


class _Layers(Document):
    """Values merged so far, and their places."""

    def read_environment(self, env: Mapping[str, str]) -> None:
        settings = {name: (path, is_text) for name, path, is_text in _settings(Configuration, ENV_PREFIX, ())}
        for name in sorted(env):
            if not name.startswith(ENV_PREFIX) or name in OTHER_VARIABLES:
                continue
            if name in settings:
                path, is_text = settings[name]
                try:
                    value = env[name] if is_text else read_document(env[name], plain_scalar)[0]
                except YAMLError as error:
                    raise ConfigError(f"{name}: {error.problem}") from error
                self.put(path, value, name)
                continue
            link = _SERVICE_LINK.fullmatch(name)
            # EXTENDER_PORT is a service variable with the value tcp://10.0.0.1:8888, and a misspelt setting with 8888.
            if link is None or (link[2] == "PORT" and "://" not in env[name]):
                alike = [one for one in settings if one.endswith(f"__{name.removeprefix(ENV_PREFIX)}")]
                meant = did_you_mean(alike) or suggestion(name, settings)
                raise ConfigError(f"{name}: no such setting{meant}")

    def put(self, path: KeyPath, value: object, place: str) -> None:
        """Set one key, replacing any earlier value."""
        *parents, key = path
        inner: dict[Any, Any] = self.data
        for parent in parents:
            below = inner.get(parent)
            # Copied, because a YAML alias may share the mapping with other keys of the file.
            inner[parent] = inner = dict(below) if isinstance(below, dict) else {}
        inner[key] = value
        self.places[path] = Place(place)


# --- environment ----------------------------------------------------------------------------------------------------


def _settings(section: type[Section], prefix: str, path: KeyPath) -> Iterator[tuple[str, KeyPath, bool]]:
    """Yield (variable, path of the key, whether the value is text and not YAML) for each setting of a section."""
    for name, info in section.model_fields.items():
        below = (*path, info.alias or name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from _settings(info.annotation, f"{prefix}{name.upper()}__", below)
        elif below not in (("apiVersion",), ("kind",)):  # they identify a file, and are not settings
            yield f"{prefix}{name.upper()}", below, _takes_text(info.annotation)


def _takes_text(annotation: Any) -> bool:
    """Return whether the annotation is `str`, `Annotated[str, …]`, or either with `| None`."""
    return annotation is str or (
        get_origin(annotation) not in (list, dict) and any(map(_takes_text, get_args(annotation)[:1]))
    )
