"""Decode plain values into sections, or report all mistakes at once.

Rule: a loaded section is immutable, and an unknown key is an error. A mistake has a path and a message that completes
"<path>: …".
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from extender.config.document import KeyPath, Mistake
from extender.utilities.text import suggestion

S = TypeVar("S", bound="Section")

_MESSAGES = {
    "missing": "is missing",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


class Section(BaseModel):
    """Base of all sections: immutable, camelCase keys, unknown keys rejected."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: Any) -> Any:
        # As the Kubernetes API does; unknown keys stay, to be rejected by name.
        if not isinstance(data, dict):
            return data
        known = {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}


class DecodingError(Exception):
    """Raised for values that are invalid for their section."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes


def decode(section: type[S], data: Mapping[str, Any], path: KeyPath = ()) -> S:
    """Validate the values of a section. Raises DecodingError with paths that begin with `path`."""
    try:
        return section.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        mistakes = []
        for one in error.errors():  # pydantic appends "[key]" to the path of an invalid key of a mapping
            place = one["loc"][:-1] if one["loc"][-1:] == ("[key]",) else one["loc"]
            mistakes.append(Mistake((*path, *place), _message(one, section)))
        raise DecodingError(mistakes) from error


def _message(error: ErrorDetails, section: type[Section]) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown key{suggestion(str(error['loc'][-1]), _keys_beside(error['loc'], section))}"
    if error["type"] in _MESSAGES:
        return _MESSAGES[error["type"]]
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    # pydantic writes: Input should be 'Text' or 'JSON'
    text = error["msg"].replace("Input should", "must")
    given = error["input"]
    if isinstance(given, dict | list):
        return text  # the value of a whole section would fill the screen
    allowed = re.findall(r"'(.*?)'", text)
    return f"{text}, not {given!r}{suggestion(str(given), allowed)}"


def _keys_beside(path: KeyPath, section: Any) -> tuple[str, ...]:
    """Return the known keys of the section that contains the last key of `path`."""
    for key in path[:-1]:
        if isinstance(key, str):
            fields = (info for info in section.model_fields.values() if info.alias == key)
            section = next((_section_in(info.annotation) for info in fields), section)  # else the key of a mapping
    return tuple(info.alias for info in section.model_fields.values())


def _section_in(annotation: Any) -> type[Section] | None:
    """Find the section class in an annotation such as `Section`, `list[Section]` or `Section | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)
