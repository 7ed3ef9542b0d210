"""Macros, as cel-go expands them while it parses (parser/macro.go, cel/library.go, ext/comprehensions.go and lists.go).

Rule: an expansion has the position of its call. A call with invalid arguments is a problem of the tree; a call with a
different number of arguments is an ordinary call.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from extender.k8s.cel.syntax import Expr, Loop, Tree
from extender.k8s.limits.limits import MAX_EXPRESSION_LEVELS

RESULT = "@result"
_SORTED = "@__sortBy_input__"
_UNUSED = "#unused"
_SORTABLE = {"list", "select", "ident", "loop", "call"}
_SIMPLE, _IDENTIFIER = "argument must be a simple name", "argument is not an identifier"


class _WrongArgument(Exception):
    """Raised with (node, problem)."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a macro, and constructors of the nodes that replace it."""

    tree: Tree
    offset: int
    name: str
    target: Expr
    """the argument of has(), which has no target"""
    args: list[Expr]

    def new(self, node: Expr) -> Expr:
        return self.tree.add(node, self.offset)

    def ident(self, name: str = RESULT) -> Expr:
        return self.new(Expr("ident", name=name))

    def literal(self, value: object) -> Expr:
        return self.new(Expr("literal", value=value))

    def list(self, *args: Expr) -> Expr:
        return self.new(Expr("list", args=[*args]))

    def call(self, name: str, *args: Expr, on: Expr | None = None) -> Expr:
        return self.new(Expr("call", name=name, operand=on, args=[*args]))

    def variable(self, index: int, not_a_name: str) -> str:
        """Return the name of an argument; raises _WrongArgument with `not_a_name` if it is not a name."""
        node = self.args[index]
        if node.kind != "ident":
            raise _WrongArgument(node, not_a_name)
        return node.name

    def loop_variable(self, not_a_name: str) -> str:
        found = self.variable(0, not_a_name)
        self.check_variable(0, found)
        return found

    def check_variable(self, index: int, name: str) -> None:
        if name in (RESULT, "__result__"):
            raise _WrongArgument(self.args[index], "iteration variable overwrites accumulator variable")

    def loop(self, variables: tuple[str, str], over: Expr, parts: tuple[Expr, Expr, Expr, Expr]) -> Expr:
        """Return a loop whose `parts` are (start, condition, step, result)."""
        return self.new(Expr("loop", args=[over, *parts], loop=Loop(*variables, RESULT)))

    def bound(self, name: str, value: Expr, result: Expr) -> Expr:
        """Return a loop over an empty list whose result can refer to the value by the name."""
        over, condition, step = self.list(), self.literal(False), self.ident(name)
        return self.new(Expr("loop", args=[over, value, condition, step, result], loop=Loop(_UNUSED, "", name)))


def expand(tree: Tree, offset: int, name: str, target: Expr | None, args: list[Expr]) -> Expr | None:
    """Return the expansion of a macro call; None for any other call."""
    expansion = _MACROS.get((name, len(args), target is not None))
    if expansion is None:
        return None
    try:
        return expansion(_Call(tree, offset, name, args[0] if target is None else target, args))
    except _WrongArgument as wrong:
        node, problem = wrong.args
        return tree.wrong(tree.positions[node.id], problem)


def _has(call: _Call) -> Expr:
    found = call.args[0]
    if found.kind != "select":
        raise _WrongArgument(found, "invalid argument to has() macro")
    return call.new(Expr("select", name=found.name, operand=found.operand, test_only=True))


def _two_variables(call: _Call) -> Expr:
    first, second = call.variable(0, _SIMPLE), call.variable(1, _SIMPLE)
    if first == second:
        raise _WrongArgument(call.args[1], f"duplicate variable name: {first}")
    call.check_variable(0, first)
    call.check_variable(1, second)
    parts = _transformed(call, first) if call.name.startswith("transform") else _quantified(call)
    return call.loop((first, second), call.target, parts)


def _quantified(call: _Call) -> tuple[Expr, Expr, Expr, Expr]:
    """Return (start, condition, step, result) of all(), exists() and exists_one()."""
    body = call.args[-1]
    # The condition ends the loop as soon as the result is certain; an error in it does not.
    if call.name == "all":
        condition = call.call("@not_strictly_false", call.ident())
        return call.literal(True), condition, call.call("_&&_", call.ident(), body), call.ident()
    if call.name == "exists":
        condition = call.call("@not_strictly_false", call.call("!_", call.ident()))
        return call.literal(False), condition, call.call("_||_", call.ident(), body), call.ident()
    step = call.call("_?_:_", body, call.call("_+_", call.ident(), call.literal(1)), call.ident())
    return call.literal(0), call.literal(True), step, call.call("_==_", call.ident(), call.literal(1))


def _transformed(call: _Call, key: str) -> tuple[Expr, Expr, Expr, Expr]:
    """Return (start, condition, step, result) of a loop that builds a list or a map, with or without a filter."""
    body = call.args[-1]
    if call.name == "transformList":
        return _collected(call, call.list(body), call.args[2] if len(call.args) == 4 else None)
    keys = [call.ident(key)] if call.name == "transformMap" else []
    step = call.call("cel.@mapInsert", call.ident(), *keys, body)
    if len(call.args) == 4:
        step = call.call("_?_:_", call.args[2], step, call.ident())
    return call.new(Expr("map")), call.literal(True), step, call.ident()


def _collected(call: _Call, added: Expr, condition: Expr | None) -> tuple[Expr, Expr, Expr, Expr]:
    step = call.call("_+_", call.ident(), added)
    if condition is not None:
        step = call.call("_?_:_", condition, step, call.ident())
    return call.list(), call.literal(True), step, call.ident()


def _map(call: _Call, over: Expr | None = None) -> Expr:
    """Return the loop of map() or filter(); filter() collects the variable itself if the condition holds."""
    variable = call.loop_variable(_IDENTIFIER)
    if call.name == "filter":
        collected = _collected(call, call.list(call.args[0]), call.args[1])
    else:
        collected = _collected(call, call.list(call.args[-1]), call.args[1] if len(call.args) == 3 else None)
    return call.loop((variable, ""), call.target if over is None else over, collected)


def _bind(call: _Call) -> Expr | None:
    if call.target.kind != "ident" or call.target.name != "cel":
        return None  # bind() of anything else is an ordinary member function
    name = call.variable(0, "cel.bind() variable names must be simple identifiers")
    return call.bound(name, call.args[1], call.args[2])


def _optional(call: _Call) -> Expr:
    """Return the tree of optMap() or optFlatMap(), in which the target occurs twice."""
    name = call.variable(0, f"{call.name}() variable name must be a simple identifier")
    # The second occurrence is a copy: a node has one id, and by it one type and one position.
    value = call.call("value", on=_copy(call.tree, call.target))
    result = call.bound(name, value, call.args[1])
    if call.name == "optMap":
        result = call.call("optional.of", result)
    return call.call("_?_:_", call.call("hasValue", on=call.target), result, call.call("optional.none"))


def _sort_by(call: _Call) -> Expr:
    if call.target.kind not in _SORTABLE:
        what = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise _WrongArgument(call.target, what)
    keys = _map(call, call.ident(_SORTED))
    return call.bound(_SORTED, call.target, call.call("@sortByAssociatedKeys", keys, on=call.ident(_SORTED)))


def _copy(tree: Tree, node: Expr) -> Expr:
    """Copy a node with new ids, unless it is nested too deeply."""
    if tree.depths[node.id] > MAX_EXPRESSION_LEVELS:
        return node  # the parser rejects the tree when it is complete
    operand = None if node.operand is None else _copy(tree, node.operand)
    args = [_copy(tree, each) for each in node.args]
    return tree.add(replace(node, operand=operand, args=args, optional=[*node.optional]), tree.positions[node.id])


_Expansion = Callable[[_Call], Expr | None]
_MACROS: Final[dict[tuple[str, int, bool], _Expansion]] = {
    ("has", 1, False): _has,
    **dict.fromkeys(
        [(name, 2, True) for name in ("all", "exists", "exists_one")],
        lambda call: call.loop((call.loop_variable(_SIMPLE), ""), call.target, _quantified(call)),
    ),
    **{(name, 3, True): _two_variables for name in ("all", "exists", "exists_one", "existsOne")},
    **{(f"transform{name}", n, True): _two_variables for name in ("List", "Map", "MapEntry") for n in (3, 4)},
    **{("map", n, True): _map for n in (2, 3)},
    ("filter", 2, True): _map,
    ("bind", 3, True): _bind,
    **{(name, 2, True): _optional for name in ("optMap", "optFlatMap")},
    ("sortBy", 2, True): _sort_by,
}
"""(name, number of arguments, whether it has a target) -> expansion."""
