"""Base model of every section of the configuration file.

Rule: a loaded configuration is immutable, and an unknown key is an error.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


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
        """Treat null as unset, as the Kubernetes API does."""
        if not isinstance(data, dict):
            return data
        known = {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}
