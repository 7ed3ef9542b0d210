"""Decode plain values into sections, and say what is wrong with those that do not fit.

Rule: every mistake of a document is reported, each with its path and a message that completes "<path>: …".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extender.config.document import KeyPath, Mistake
from extender.config.section import Section
from extender.config.values import suggestion

S = TypeVar("S", bound=Section)

_MESSAGES = {
    "missing": "is missing",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


class DecodingError(Exception):
    """A value does not fit its section."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def decode(section: type[S], data: Mapping[str, Any], path: KeyPath = ()) -> S:
    """Return the section; raises DecodingError, whose paths begin with `path`."""
    try:
        return section.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise DecodingError(list(_mistakes(error, section, path))) from error


def _mistakes(error: ValidationError, section: type[Section], path: KeyPath) -> Iterator[Mistake]:
    for one in error.errors():
        yield Mistake((*path, *one["loc"]), _message(one, section))


def _message(error: ErrorDetails, section: type[Section]) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown key{suggestion(str(error['loc'][-1]), _keys_beside(error['loc'], section))}"
    if error["type"] in _MESSAGES:
        return _MESSAGES[error["type"]]
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    text = error["msg"].replace("Input should", "must")
    given = error["input"]
    if isinstance(given, dict | list):
        return text
    allowed = re.findall(r"'(.*?)'", text)
    return f"{text}, not {given!r}{suggestion(str(given), allowed)}"


def _keys_beside(path: KeyPath, section: Any) -> tuple[str, ...]:
    """Return the known keys of the section that contains the last key of `path`."""
    for key in path[:-1]:
        if isinstance(key, str):
            section = next(_section_in(info.annotation) for info in section.model_fields.values() if info.alias == key)
    return tuple(info.alias for info in section.model_fields.values())


def _section_in(annotation: Any) -> type[Section] | None:
    """Return the section class in an annotation such as `Section`, `list[Section]` or `Section | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
