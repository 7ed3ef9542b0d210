"""The syntax tree of an expression."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from extender.k8s.cel.values import UnsupportedFeature
from extender.k8s.limits import limits


class SyntaxFailure(Exception):
    """An expression that is nested deeper than cel-go's parser follows, in cel-go's words."""


class Loop(NamedTuple):
    """Variables of a comprehension; the second one may be missing."""

    variable: str
    variable2: str
    result_variable: str


@dataclass(slots=True)
class Expr:
    """A node of the tree; `kind` says which of the other fields are its own.

    "none" stands where something is wrong, and occurs only in a tree with problems.
    """

    kind: str
    id: int = 0
    value: Any = None
    """of a literal"""
    name: str = ""
    """of an identifier, a field, a function or a message type"""
    operand: "Expr | None" = None
    """of a field, and the target of a member function"""
    test_only: bool = False
    """a field within has()"""
    args: list["Expr"] = field(default_factory=list)
    """of a call, the elements of a list, a map's keys and values by turns; of a loop: what it is over, the result's
    start, condition, step and result"""
    optional: list[int] = field(default_factory=list)
    """which elements or entries are optional"""
    loop: Loop | None = None

    def children(self) -> list["Expr"]:
        """Return the nodes right below this one: of a call its arguments, the target of a member first."""
        return self.args if self.operand is None else [self.operand, *self.args]


@dataclass(slots=True)
class Tree:
    max_nodes: int = 0
    root: Expr = field(default_factory=lambda: Expr("none"))
    positions: dict[int, int] = field(default_factory=dict)
    """node -> offset in characters"""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(node, what is wrong with it)"""
    depths: dict[int, int] = field(default_factory=dict)
    """node -> levels from it to the bottom"""

    def add(self, node: Expr, offset: int) -> Expr:
        """Give a node, whose children have theirs, an id and a place; UnsupportedFeature if they are too many."""
        node.id = len(self.positions) + 1
        if node.id > self.max_nodes:
            raise UnsupportedFeature(limits.too_many_nodes(self.max_nodes))
        self.positions[node.id] = offset
        self.depths[node.id] = 1 + max((self.depths[each.id] for each in node.children()), default=0)
        return node

    def wrong(self, offset: int, problem: str) -> Expr:
        """Note what is wrong at a place, and return the node that stands there instead."""
        node = self.add(Expr("none"), offset)
        self.problems.append((node.id, problem))
        return node
