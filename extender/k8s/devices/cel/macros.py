"""Macros that the library lacks: two-variable comprehensions and sortBy (ext/comprehensions.go, ext/lists.go, cel-go).

Rule: as cel-go expands them while it parses, before anything is checked.
"""

import math

from extender.k8s.devices.cel.syntax import Expr, Loop, Tree

RESULT = "@result"
_SORTED = "@__sortBy_input__"
_TWO_VARIABLES = {
    ("all", 3),
    ("exists", 3),
    ("existsOne", 3),
    ("exists_one", 3),
    ("transformList", 3),
    ("transformList", 4),
    ("transformMap", 3),
    ("transformMap", 4),
    ("transformMapEntry", 3),
    ("transformMapEntry", 4),
}
_SORTABLE = {"list", "select", "ident", "loop", "call"}

Problem = tuple[int, str]
"""(node, what is wrong)."""


class Expansion:
    """One tree in which macros are expanded; `problems` are those of their arguments."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[Problem] = []
        self._next_id = max([0, *tree.positions]) + 1

    def expand(self, node: Expr) -> Expr:
        """Return the node with the macros in it expanded, innermost first."""
        if node.kind == "literal" and type(node.value) is float and math.isinf(node.value):
            self.problems.append((node.id, "invalid double literal"))
        if node.operand is not None:
            node.operand = self.expand(node.operand)
        node.args = [self.expand(each) for each in node.args]
        loop = node.loop
        if loop is not None:
            loop.over, loop.start = self.expand(loop.over), self.expand(loop.start)
            loop.condition, loop.step = self.expand(loop.condition), self.expand(loop.step)
            loop.result = self.expand(loop.result)
        if node.kind != "call" or node.operand is None:
            return node
        if (node.name, len(node.args)) in _TWO_VARIABLES:
            return self._two_variables(node)
        if node.name == "sortBy" and len(node.args) == 2:
            return self._sorted(node)
        return node

    def _new(self, at: int, node: Expr) -> Expr:
        """Return a node that an expansion makes, where the macro was called."""
        node.id = self._next_id
        self.tree.positions[node.id] = self.tree.positions.get(at, 0)
        self._next_id += 1
        return node

    def _wrong(self) -> Expr:
        """Return a node where the last problem is, instead of what would be expanded."""
        return self._new(self.problems[-1][0], Expr("literal", value=True))

    def _variable(
        self, node: Expr, other: str | None = None, not_a_name: str = "argument must be a simple name"
    ) -> str | None:
        if node.kind != "ident":
            self.problems.append((node.id, not_a_name))
        elif node.name == other:
            self.problems.append((node.id, f"duplicate variable name: {other}"))
        elif node.name in (RESULT, "__result__"):
            self.problems.append((node.id, "iteration variable overwrites accumulator variable"))
        else:
            return node.name
        return None

    def _two_variables(self, node: Expr) -> Expr:
        at = node.id
        first = self._variable(node.args[0])
        second = self._variable(node.args[1], first) if first is not None else None
        if first is None or second is None or node.operand is None:
            return self._wrong()
        start, condition, step, result = self._parts(node, at, first)
        loop = Loop(first, second, node.operand, RESULT, start, condition, step, result)
        return self._new(at, Expr("loop", loop=loop))

    def _parts(self, node: Expr, at: int, first: str) -> tuple[Expr, Expr, Expr, Expr]:
        """Return what the loop starts with, while what it goes on, its step and its result."""

        def accumulated() -> Expr:
            return self._new(at, Expr("ident", name=RESULT))

        def literal(value: object) -> Expr:
            return self._new(at, Expr("literal", value=value))

        def call(name: str, *args: Expr) -> Expr:
            return self._new(at, Expr("call", name=name, args=list(args)))

        body = node.args[-1]
        if node.name == "all":
            step = call("_&&_", accumulated(), body)
            return literal(True), call("@not_strictly_false", accumulated()), step, accumulated()
        if node.name == "exists":
            condition = call("@not_strictly_false", call("!_", accumulated()))
            return literal(False), condition, call("_||_", accumulated(), body), accumulated()
        if node.name in ("existsOne", "exists_one"):
            step = call("_?_:_", body, call("_+_", accumulated(), literal(1)), accumulated())
            return literal(0), literal(True), step, call("_==_", accumulated(), literal(1))
        if node.name == "transformList":
            start = self._new(at, Expr("list"))
            step = call("_+_", accumulated(), self._new(at, Expr("list", args=[body])))
        else:
            start = self._new(at, Expr("map"))
            key = [self._new(at, Expr("ident", name=first))] if node.name == "transformMap" else []
            step = call("cel.@mapInsert", accumulated(), *key, body)
        if len(node.args) == 4:
            step = call("_?_:_", node.args[2], step, accumulated())
        return start, literal(True), step, accumulated()

    def _sorted(self, node: Expr) -> Expr:
        at, over = node.id, node.operand
        if over is None or over.kind not in _SORTABLE:
            what = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
            self.problems.append((over.id if over is not None else at, what))
            return self._wrong()
        variable = self._variable(node.args[0], not_a_name="argument is not an identifier")
        if variable is None:
            return self._wrong()
        accumulated = self._new(at, Expr("ident", name=RESULT))
        key = self._new(at, Expr("list", args=[node.args[1]]))
        step = self._new(at, Expr("call", name="_+_", args=[accumulated, key]))
        keys = Loop(
            variable,
            "",
            self._new(at, Expr("ident", name=_SORTED)),
            RESULT,
            self._new(at, Expr("list")),
            self._new(at, Expr("literal", value=True)),
            step,
            self._new(at, Expr("ident", name=RESULT)),
        )
        target = self._new(at, Expr("ident", name=_SORTED))
        call = Expr("call", name="@sortByAssociatedKeys", operand=target)
        call.args = [self._new(at, Expr("loop", loop=keys))]
        bound = Loop(
            "#unused",
            "",
            self._new(at, Expr("list")),
            _SORTED,
            over,
            self._new(at, Expr("literal", value=False)),
            self._new(at, Expr("ident", name=_SORTED)),
            self._new(at, call),
        )
        return self._new(at, Expr("loop", loop=bound))


def expand(tree: Tree) -> list[Problem]:
    """Expand the macros of a tree in place; returns what is wrong with their arguments."""
    expansion = Expansion(tree)
    tree.root = expansion.expand(tree.root)
    places = {(tree.positions.get(node, 0), text): (node, text) for node, text in expansion.problems}
    return list(places.values())  # optMap() has its target twice, and so its problems
