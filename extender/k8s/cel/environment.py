"""What an expression may name besides functions and types: one declared variable, and the release of cel-go.

Rule: the language knows no object of Kubernetes; what it must know of one is declared here by what evaluates it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from extender.k8s.cel.types import Type


class Field(NamedTuple):
    type: Type
    value: Callable[[Any], Any]
    """From what stands for the variable in a run; maps, and maps within them, are `StringMap`s."""


@dataclass(frozen=True)
class Environment:
    """`variable` is an object of a struct type with these fields. `of_1_37`: cel-go 0.29, else 0.26."""

    variable: str
    type: Type
    fields: Mapping[str, Field]
    of_1_37: bool
