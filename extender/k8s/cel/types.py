"""Types of expressions: unification, and their text in cel-go's messages (checker/types.go, checker/format.go, v0.26).

A type is a tuple of its kind and its parameters; ("opaque" | "struct" | "param", name, …) have a name, too.

Rule: the work of unifying is counted, since a few nested bindings can name a type that is exponentially large.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Type = tuple[Any, ...]

BOOL: Final[Type] = ("bool",)
INT: Final[Type] = ("int",)
STRING: Final[Type] = ("string",)
DYN: Final[Type] = ("dyn",)
ANY: Final[Type] = ("any",)
ERROR: Final[Type] = ("error",)

_DECLARED = {
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
}
_NULLABLE = {"opaque", "struct", "any", "duration", "timestamp", "null"}
_PARAMETRIC = {"opaque", "list", "map"}


def optional_of(value: Type) -> Type:
    return ("opaque", "optional_type", value)


NAMED_TYPES: Final[dict[str, Type]] = {
    "bool": BOOL,
    "bytes": ("bytes",),
    "double": ("double",),
    "google.protobuf.Duration": ("duration",),
    "int": INT,
    "list": ("list", ("param", "A")),
    "map": ("map", ("param", "A"), ("param", "B")),
    "null_type": ("null",),
    "string": STRING,
    "google.protobuf.Timestamp": ("timestamp",),
    "type": ("type",),
    "uint": ("uint",),
    "optional_type": ("opaque", "optional_type"),
}
"""Type names that an expression can use."""

GENERIC_TYPES: Final[dict[str, Type]] = {
    "list": ("list", DYN),
    "map": ("map", DYN, DYN),
    "optional_type": optional_of(DYN),
}
"""Type names that v1.37 declares with different parameters."""


def is_dyn(of: Type) -> bool:
    return of[0] in ("dyn", "any")


def is_optional(of: Type) -> bool:
    return of[:2] == ("opaque", "optional_type")


def parameters(of: Type) -> tuple[Type, ...]:
    """Return the types within a type."""
    return of[2:] if of[0] in ("opaque", "struct", "param") else of[1:]


def display(of: Type) -> str:
    """Return the text of a type in the checker's error messages (FormatCELType)."""
    return _written(of, {"error": "!error!"})


def declared(of: Type) -> str:
    """Return the text of a type in Go (Type.String)."""
    return _written(of, _DECLARED)


def name_of(of: Type) -> str:
    """Return the name of a type without its parameters, like `values.type_name` for values."""
    return str(of[1] if of[0] in ("opaque", "struct", "param") else _DECLARED.get(of[0], of[0]))


def _written(of: Type, names: dict[str, str]) -> str:
    name = str(of[1] if of[0] in ("opaque", "struct", "param") else names.get(of[0], of[0]))
    within = parameters(of)
    return f"{name}({', '.join(_written(each, names) for each in within)})" if within else name


# --- the declared variable -----------------------------------------------------------------------------------------


class Field(NamedTuple):
    type: Type
    value: Callable[[Any], Any]
    """Function that reads the field of `Run.variable`; maps, and maps within them, are `StringMap`s."""


@dataclass(frozen=True)
class Environment:
    """The declared variable, an object of a struct type with the given fields. `of_1_37`: cel-go 0.29, else 0.26.

    This package knows no Kubernetes object: the caller declares the fields of its variable.
    """

    variable: str
    type: Type
    fields: Mapping[str, Field]
    of_1_37: bool


# --- unification ----------------------------------------------------------------------------------------------------


class TooLarge(Exception):
    """Raised when unifying types takes more steps than allowed."""


class Unifier:
    """Substitutions of type parameters (checker.mapping)."""

    def __init__(self, steps: int) -> None:
        self.found: dict[Type, Type] = {}
        self._changed: list[tuple[Type, Type | None]] = []
        """(parameter, its previous substitution) for each change by the current call."""
        self.steps = steps
        self._variables = 0

    def new_variable(self) -> Type:
        self._variables += 1
        return ("param", f"_var{self._variables - 1}")

    def assignable(self, of: Type, to: Type) -> bool:
        """Return whether a value of type `of` can be used as type `to`; if so, keep the substitutions."""
        return self.all_assignable((of,), (to,))

    def all_assignable(self, types: tuple[Type, ...], to: tuple[Type, ...]) -> bool:
        # If one argument does not fit, all changes are undone: the next overload starts from the same substitutions.
        self._changed.clear()
        if self._all_fit(types, to):
            return True
        for variable, before in reversed(self._changed):
            if before is None:
                del self.found[variable]
            else:
                self.found[variable] = before
        return False

    def _set(self, variable: Type, to: Type) -> None:
        self._changed.append((variable, self.found.get(variable)))
        self.found[variable] = to

    def substitute(self, of: Type, *, free_to_dyn: bool = False) -> Type:
        """Return the type with its parameters substituted; `free_to_dyn` replaces unknown parameters with dyn."""
        self._step()
        replaced = self.found.get(of)
        if replaced is not None:
            return self.substitute(replaced, free_to_dyn=free_to_dyn)
        kind = of[0]
        if kind == "param":
            return DYN if free_to_dyn else of
        if kind in _PARAMETRIC or (kind == "type" and len(of) > 1):
            within = parameters(of)
            head = of[: len(of) - len(within)]
            return head + tuple(self.substitute(each, free_to_dyn=free_to_dyn) for each in within)
        return of

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise TooLarge

    def _all_fit(self, types: tuple[Type, ...], to: tuple[Type, ...]) -> bool:
        return len(types) == len(to) and all(self._fits(one, other) for one, other in zip(types, to, strict=True))

    def _fits(self, of: Type, to: Type) -> bool:
        self._step()
        kind, to_kind = of[0], to[0]
        if to_kind == "param":
            valid, known = self._substitutes(of, to)
            if valid or known:
                return valid
        if kind == "param":
            return self._substitutes(to, of)[0]
        if is_dyn(of) or is_dyn(to) or kind == "error" or to_kind == "error":
            return True
        if kind == "null":  # an unset message is null
            return to_kind in _NULLABLE
        if to_kind == "null":
            return kind in _NULLABLE
        if kind == "type":  # regardless of its parameter
            return bool(to_kind == "type")
        if kind in _PARAMETRIC:
            if kind != to_kind or (kind == "opaque" and of[1] != to[1]):
                return False
            return self._all_fit(parameters(of), parameters(to))
        return bool(of == to)

    def _substitutes(self, of: Type, variable: Type) -> tuple[bool, bool]:
        """Return (whether the type can be substituted for the variable, whether the variable had one before)."""
        if of == variable:
            return True, True
        known = self.found.get(variable)
        if known is not None:
            if of == known:
                return True, True
            if not self._fits(of, known):
                return False, True
            general = of if self._less_specific(of, known) else known
            if self._absent(variable, general):
                self._set(variable, general)
            return True, True
        if self._absent(variable, of):
            self._set(variable, of)
            return True, False
        return False, False

    def most_general(self, one: Type, other: Type) -> Type:
        return one if self._less_specific(one, other) else other

    def _less_specific(self, one: Type, other: Type) -> bool:
        self._step()
        if is_dyn(one) or one[0] == "param":
            return True
        if is_dyn(other) or other[0] == "param" or one[0] != other[0]:
            return False
        if one[0] == "type":
            return True
        if one[0] in _PARAMETRIC:
            if one[0] == "opaque" and (one[1] != other[1] or len(one) != len(other)):
                return False
            pairs = zip(parameters(one), parameters(other), strict=True)
            return all(self._less_specific(each, other_each) for each, other_each in pairs)
        return one == other

    def _absent(self, variable: Type, within: Type) -> bool:
        """Return whether the variable does not occur within the type."""
        # A type that contains itself would never end.
        self._step()
        if variable == within:
            return False
        if within[0] == "param":
            known = self.found.get(within)
            return known is None or self._absent(variable, known)
        return all(self._absent(variable, each) for each in parameters(within))
