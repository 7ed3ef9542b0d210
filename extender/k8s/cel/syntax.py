"""Syntax tree of an expression."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from extender.k8s.cel.values import UnsupportedFeature
from extender.k8s.limits import limits


class SyntaxFailure(Exception):
    """An expression that does not compile, with cel-go's message."""


class Loop(NamedTuple):
    """Variables of a comprehension; `variable2` is "" if it has only one."""

    variable: str
    variable2: str
    result_variable: str


@dataclass(slots=True)
class Expr:
    """A node of the tree; `kind` determines which other fields it has. A "none" node replaces a node with a problem."""

    kind: str
    id: int = 0
    value: Any = None
    """value of a literal"""
    name: str = ""
    """name of an identifier, a field, a function or a message type"""
    operand: "Expr | None" = None
    """operand of a field, target of a member function"""
    test_only: bool = False
    """whether it is a field within has()"""
    args: list["Expr"] = field(default_factory=list)
    """arguments of a call, elements of a list, alternating keys and values of a map; of a loop: range, initial result,
    condition, step and result"""
    optional: list[int] = field(default_factory=list)
    """indexes of optional elements or entries"""
    loop: Loop | None = None

    def children(self) -> list["Expr"]:
        """Return the child nodes; the target of a member function comes before its arguments."""
        return self.args if self.operand is None else [self.operand, *self.args]


@dataclass(slots=True)
class Tree:
    max_nodes: int = 0
    root: Expr = field(default_factory=lambda: Expr("none"))
    positions: dict[int, int] = field(default_factory=dict)
    """node -> offset in characters"""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(node, problem)"""
    depths: dict[int, int] = field(default_factory=dict)
    """node -> levels of its subtree"""

    def add(self, node: Expr, offset: int) -> Expr:
        """Give a node, whose children have theirs, an id and a position; UnsupportedFeature if there are too many."""
        node.id = len(self.positions) + 1
        if node.id > self.max_nodes:
            raise UnsupportedFeature(limits.too_many_nodes(self.max_nodes))
        self.positions[node.id] = offset
        self.depths[node.id] = 1 + max((self.depths[each.id] for each in node.children()), default=0)
        return node

    def wrong(self, offset: int, problem: str) -> Expr:
        """Record a problem, and return a placeholder node."""
        node = self.add(Expr("none"), offset)
        self.problems.append((node.id, problem))
        return node
