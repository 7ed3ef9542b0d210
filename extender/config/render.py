"""Render a configuration as YAML with descriptions; loading it yields the same configuration."""

import textwrap
from collections.abc import Iterator
from typing import Any

import yaml

from extender.config.decoding import Section
from extender.config.models import Configuration

LINE_WIDTH = 120


def render(config: Configuration) -> str:
    """Return YAML with every key's effective value, and its description as a comment above it."""
    return "\n".join(_lines(config, "")) + "\n"


def _lines(section: Section, indent: str) -> Iterator[str]:
    values = section.model_dump(by_alias=True)
    for number, (name, field) in enumerate(type(section).model_fields.items()):
        key = field.alias or name
        value = getattr(section, name)
        if number and (not indent or isinstance(value, Section)):
            yield ""
        comment = f"{indent}# "
        yield from textwrap.wrap(
            field.description or "",
            LINE_WIDTH,
            initial_indent=comment,
            subsequent_indent=comment,
            break_on_hyphens=False,
        )
        if isinstance(value, Section):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        else:
            entry = _drop_unset(values[key])
            flow = None if isinstance(entry, list | dict) else False  # None: lists of scalars go on one line
            text = yaml.safe_dump({key: entry}, default_flow_style=flow, sort_keys=False, width=LINE_WIDTH - 20)
            yield textwrap.indent(text.rstrip(), indent)


def _drop_unset(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v for k, v in ((k, _drop_unset(v)) for k, v in value.items()) if v not in (None, {}, [])}
    if isinstance(value, list):
        return [_drop_unset(item) for item in value]
    return value
