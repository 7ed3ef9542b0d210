"""Types of an expression and overloads of its calls (checker/checker.go and the validators, cel-go v0.26).

Rule: errors have cel-go's messages and positions; UnsupportedFeature is raised for an expression that cel-go may
accept but that is not evaluated here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from extender.k8s.cel.functions import Overload, functions
from extender.k8s.cel.library.formatting import CLAUSES, interpolate
from extender.k8s.cel.library.patterns import problem
from extender.k8s.cel.library.standard import to_duration, to_timestamp
from extender.k8s.cel.syntax import Expr, Loop, Tree
from extender.k8s.cel.types import (
    BOOL,
    DYN,
    ERROR,
    GENERIC_TYPES,
    INT,
    NAMED_TYPES,
    STRING,
    Environment,
    TooLarge,
    Type,
    Unifier,
    display,
    is_dyn,
    is_optional,
    name_of,
    optional_of,
)
from extender.k8s.cel.values import CelError, UnsupportedFeature, type_name

_STEPS: Final = 200_000
_MAX_ERRORS: Final = 100
_MAX_LINE_BYTES: Final = 16_384


@dataclass
class Checked:
    """A checked expression: types and overloads by node, and the names of nodes that are variables or types.

    A name has a leading dot if a loop variable has the same name but is not meant.
    """

    environment: Environment
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, list[Overload]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    errors: list[tuple[int, str]] = field(default_factory=list)
    """(node, text)"""


def check(tree: Tree, environment: Environment) -> Checked:
    """Type-check a tree; raises UnsupportedFeature."""
    checker = _Checker(environment)
    try:
        checker.check(tree.root)
        types = checker.checked.types
        for node_id, found in types.items():
            types[node_id] = checker.unifier.substitute(found, free_to_dyn=True)
    except TooLarge:
        raise UnsupportedFeature("an expression whose types are too large") from None
    if not checker.checked.errors:
        _validate(tree.root, checker.checked)
    return checker.checked


def error_text(expression: str, tree: Tree, errors: list[tuple[int, str]]) -> str:
    """Return errors as cel-go displays them, ordered by position (common.Errors.ToDisplayString)."""
    # The sort is stable: errors at the same position keep the order in which they were found.
    placed = [(tree.positions.get(node, 0), text) for node, text in errors[:_MAX_ERRORS]]
    shown = [_displayed(expression, offset, text) for offset, text in sorted(placed, key=lambda each: each[0])]
    if len(errors) > _MAX_ERRORS:
        shown.append(f"{len(errors) - _MAX_ERRORS} more errors were truncated")
    return "\n".join(shown)


def _displayed(expression: str, offset: int, text: str) -> str:
    row, column = expression.count("\n", 0, offset), offset - (expression.rfind("\n", 0, offset) + 1)
    head = f"ERROR: <input>:{row + 1}:{column + 1}: {text}"
    snippet = expression.split("\n")[row].replace("\t", " ")
    if len(snippet.encode()) > _MAX_LINE_BYTES:
        return head
    # Wide characters get wide dots, so that the mark stands below the error.
    dots = "".join("." if each.isascii() else "\uff0e" for each in snippet[:column])
    mark = "^" if column >= len(snippet) or snippet[column].isascii() else "\uff3e"
    return f"{head}\n | {snippet}\n | {dots}{mark}"


def qualified_name(node: Expr) -> str | None:
    """Return `a.b.c` for identifiers and fields, None for any other node (containers.ToQualifiedName)."""
    if node.kind == "ident":
        return node.name
    if node.kind == "select" and not node.test_only and node.operand is not None:
        before = qualified_name(node.operand)
        return None if before is None else f"{before}.{node.name}"
    return None


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.checked = Checked(environment)
        self.unifier = Unifier(_STEPS)
        self.functions = functions(of_1_37=environment.of_1_37)
        self.scopes: list[dict[str, Type]] = []
        self._kinds = {
            "literal": lambda node: NAMED_TYPES[type_name(node.value)],
            "ident": lambda node: self._named(node, node.name) or self._undeclared(node, node.name),
            "select": self._select,
            "call": self._call,
            "list": self._list,
            "map": self._map,
            "loop": self._loop,
        }

    def check(self, node: Expr) -> Type:
        if node.kind == "struct":
            raise UnsupportedFeature(f"the type {node.name}")
        found = self._kinds[node.kind](node)
        self.checked.types[node.id] = found
        return found

    def _error(self, node: Expr, text: str) -> Type:
        self.checked.errors.append((node.id, text))
        return ERROR

    def _mismatch(self, node: Expr, expected: Type, actual: Type) -> Type:
        return self._error(node, f"expected type '{display(expected)}' but found '{display(actual)}'")

    def _undeclared(self, node: Expr, name: str) -> Type:
        return self._error(node, f"undeclared reference to '{name}' (in container '')")

    def _look_up(self, name: str) -> Type | None:
        """Return the type of a variable or of a type name; None if the name is undeclared."""
        bare = name.removeprefix(".")
        local = self._local(bare)
        if local is not None and (name == bare or not self.environment.of_1_37):
            return local
        if bare == self.environment.variable:
            return self.environment.type
        if bare in NAMED_TYPES:
            generic = GENERIC_TYPES.get(bare) if self.environment.of_1_37 else None
            return ("type", generic or NAMED_TYPES[bare])
        if bare.startswith(("google.protobuf.", "kubernetes.", "net.")):
            raise UnsupportedFeature(f"the type {bare}")
        return None

    def _local(self, name: str) -> Type | None:
        """Return the type of a loop variable; None if no loop declares the name."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _named(self, node: Expr, name: str) -> Type | None:
        """Return the type of a node that names a variable or a type, and record the name; None for any other node."""
        bare = name.removeprefix(".")
        # Since cel-go 0.29 a loop variable shadows all names that begin with it, unless they have a leading dot.
        is_local = self._local(bare.partition(".")[0]) is not None and self.environment.of_1_37
        if is_local and name == bare and node.kind == "select":
            return None
        found = self._look_up(name)
        if found is not None:
            self.checked.names[node.id] = f".{bare}" if is_local and name != bare else bare
        return found

    def _select(self, node: Expr) -> Type:
        name = qualified_name(node)
        found = self._named(node, name) if name is not None else None
        if found is not None:
            return found
        assert node.operand is not None
        result = self._field(node, node.operand, node.name, optional=False)
        return BOOL if node.test_only else self.unifier.substitute(result)

    def _field(self, node: Expr, operand: Expr, name: str, *, optional: bool) -> Type:
        """Return the type of a field or of a map's values, dyn for a dynamic operand."""
        of = self.unifier.substitute(self.check(operand))
        was_optional = is_optional(of)
        within = of[2] if was_optional else of
        result = ERROR
        if within[0] == "map":
            result = within[2]
        elif within == self.environment.type:
            known = self.environment.fields.get(name)
            result = known.type if known is not None else self._error(node, f"undefined field '{name}'")
        elif within[0] == "struct":
            self._error(node, f"unexpected failed resolution of '{within[1]}'")
        elif within[0] == "param":
            self.unifier.assignable(DYN, within)
            result = DYN
        else:
            if not is_dyn(within) and within != ERROR:
                self._error(node, f"type '{display(within)}' does not support field selection")
            result = DYN
        return optional_of(result) if was_optional or optional else result

    def _call(self, node: Expr) -> Type:
        if node.name == "_?._":
            field_name = node.args[1].value
            self.checked.types[node.args[1].id] = STRING
            return self.unifier.substitute(self._field(node, node.args[0], field_name, optional=True))
        for each in node.args:
            self.check(each)
        target = node.operand
        if target is not None:
            # `optional.of(x)` looks like a member of `optional`, but is a function with a dot in its name.
            prefix = qualified_name(target)
            if prefix is not None and f"{prefix}.{node.name}".removeprefix(".") in self.functions:
                node.name, node.operand = f"{prefix}.{node.name}".removeprefix("."), None
                return self._resolve(node, self.functions[node.name])
            self.check(target)
        overloads = self.functions.get(node.name.removeprefix("."))
        if overloads is None:
            return self._undeclared(node, node.name)
        node.name = node.name.removeprefix(".")
        return self._resolve(node, overloads)

    def _resolve(self, node: Expr, overloads: tuple[Overload, ...]) -> Type:
        types = self.checked.types
        given = tuple(types[each.id] for each in node.children())
        if node.name in ("_&&_", "_||_"):  # errors are reported at each operand, not at the call
            return self._logical(node, given, overloads[0])
        found: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member is not (node.operand is not None):
                continue
            arguments, returned = overload.arguments, overload.result
            if overload.variables:  # two calls of a function must not share type variables
                fresh = {each: self.unifier.new_variable() for each in sorted(overload.variables)}
                arguments = tuple(_renamed(each, fresh) for each in arguments)
                returned = _renamed(returned, fresh)
            if self.unifier.all_assignable(given, arguments):
                found.append(overload)
                returned = self.unifier.substitute(returned)
                if result is None:
                    result = returned
                elif not is_dyn(result) and returned != result:
                    result = DYN  # the overload depends on the values
        if result is None:
            shown = [display(self.unifier.substitute(each, free_to_dyn=True)) for each in given]
            target = f"{shown.pop(0)}." if node.operand is not None else ""
            applied = f"'{node.name}' applied to '{target}({', '.join(shown)})'"
            return self._error(node, f"found no matching overload for {applied}")
        self.checked.overloads[node.id] = found
        return result

    def _logical(self, node: Expr, given: tuple[Type, ...], overload: Overload) -> Type:
        wrong = False
        for each, kind in zip(node.args, given, strict=True):
            if not self.unifier.assignable(kind, BOOL):
                self._mismatch(each, BOOL, kind)
                wrong = True
        if wrong:
            return ERROR
        self.checked.overloads[node.id] = [overload]
        return BOOL

    def _unwrapped(self, node: Expr, of: Type) -> Type:
        """Return the type that the type of an optional element or entry wraps."""
        if is_optional(of):
            kind: Type = of[2]
            return kind
        if not is_dyn(of):
            self._mismatch(node, optional_of(of), of)
        return of

    def _joined(self, before: Type | None, of: Type) -> Type:
        """Return the common type of a list's elements so far; the validators report mixed types."""
        if before is None:
            return of
        return self.unifier.most_general(before, of) if self.unifier.assignable(before, of) else DYN

    def _list(self, node: Expr) -> Type:
        joined: Type | None = None
        for index, each in enumerate(node.args):
            kind = self.check(each)
            if index in node.optional:
                kind = self._unwrapped(each, kind)
            joined = self._joined(joined, kind)
        return ("list", joined if joined is not None else self.unifier.new_variable())

    def _map(self, node: Expr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for index in range(0, len(node.args), 2):
            key, value = node.args[index : index + 2]
            keys = self._joined(keys, self.check(key))
            kind = self.check(value)
            if index // 2 in node.optional:
                kind = self._unwrapped(value, kind)
            values = self._joined(values, kind)
        if keys is None or values is None:
            keys, values = self.unifier.new_variable(), self.unifier.new_variable()
        return ("map", keys, values)

    def _loop(self, node: Expr) -> Type:
        over, start, condition, step, result = node.args
        loop, range_type, start_type = node.loop, self.check(over), self.check(start)
        assert loop is not None
        variables = self._variables(loop, over, self.unifier.substitute(range_type))
        self.scopes.append({loop.result_variable: start_type})
        self.scopes.append(variables)
        self._assert(condition, BOOL)
        self._assert(step, start_type)
        self.scopes.pop()
        found = self.check(result)
        self.scopes.pop()
        return self.unifier.substitute(found)

    def _assert(self, node: Expr, expected: Type) -> None:
        found = self.check(node)
        if not self.unifier.assignable(expected, found):
            self._mismatch(node, expected, found)

    def _variables(self, loop: Loop, over: Expr, of: Type) -> dict[str, Type]:
        """Return the types of a loop's variables, given the type that it iterates over."""
        first, second = ERROR, ERROR
        if of[0] == "list":
            first, second = (INT, of[1]) if loop.variable2 else (of[1], ERROR)
        elif of[0] == "map":
            first, second = of[1], of[2]
        elif of[0] in ("dyn", "error", "param"):
            self.unifier.assignable(DYN, of)
            first = second = DYN
        else:
            shown = f"expression of type '{display(of)}' cannot be range of a comprehension"
            self._error(over, f"{shown} (must be list, map, or dynamic)")
        return {loop.variable: first, **({loop.variable2: second} if loop.variable2 else {})}


def _renamed(of: Type, fresh: dict[Type, Type]) -> Type:
    if of in fresh:
        return fresh[of]
    return tuple(_renamed(each, fresh) if isinstance(each, tuple) else each for each in of)


# --- validators ----------------------------------------------------------------------------------------------------


def _validate(root: Expr, checked: Checked) -> None:
    """Report literals that are never valid, and lists and maps of mixed types (cel/validator.go)."""
    nodes = list(_descendants(root))
    for node in nodes:
        if node.kind == "call" and node.name == "format":
            _check_format(node, checked)
    # Arguments of format() may have mixed types: its own validator has checked them.
    formatted = {
        id(each) for node in nodes if node.kind == "call" and node.name == "format" for each in _descendants(node)
    }
    # The validators run one after another, and errors at the same position keep that order.
    for name in ("duration", "timestamp", "matches"):
        for node in nodes:
            argument = node.args[0] if node.kind == "call" and node.name == name and node.args else None
            if argument is not None and argument.kind == "literal" and _invalid(name, argument.value):
                checked.errors.append((argument.id, f"invalid {name} argument"))
    for node in nodes:
        if node.kind == "list" and id(node) not in formatted:
            _same_types(node, range(len(node.args)), node.optional, checked, every=False)
    for node in nodes:
        if node.kind == "map" and id(node) not in formatted:
            _same_types(node, range(0, len(node.args), 2), [], checked, every=True)
            optional = [index * 2 + 1 for index in node.optional]
            _same_types(node, range(1, len(node.args), 2), optional, checked, every=True)


def _check_format(node: Expr, checked: Checked) -> None:
    """Report clauses of a literal format string that reject a literal argument (stringFormatValidator)."""
    target, arguments = node.operand, node.args[0]
    if target is None or target.kind != "literal" or type(target.value) is not str or arguments.kind != "list":
        return
    at = node.id

    def check_clause(index: int, kind: str, _precision: int | None) -> str:
        nonlocal at
        refused = _refused(arguments.args[index], kind, checked)
        if refused is not None:
            at = refused.id
            raise CelError(f"error during formatting: {CLAUSES[kind][1]}, was given {name_of(checked.types[at])}")
        return ""

    try:
        _, taken = interpolate(target.value, len(arguments.args), check_clause, checks=True)
    except CelError as error:
        checked.errors.append((at, str(error)))
        return
    if len(arguments.args) > taken:
        counts = f"(expected {taken}, got {len(arguments.args)})"
        checked.errors.append((at, f"too many arguments supplied to string.format {counts}"))


def _refused(node: Expr, kind: str, checked: Checked) -> Expr | None:
    """Return the node that a clause rejects: the argument or a node within it; None if the clause accepts all."""
    if checked.types[node.id][0] not in (*CLAUSES[kind][0], "dyn"):
        return node
    within = node.args if kind == "s" and node.kind in ("list", "map") else []
    return next((found for each in within if (found := _refused(each, kind, checked)) is not None), None)


def _invalid(name: str, value: object) -> bool:
    """Return whether a function never accepts a literal."""
    if name == "matches":
        return bool(problem(str(value)))
    convert: Callable[..., Any] = to_duration if name == "duration" else to_timestamp
    try:
        convert(None, value)
    except CelError:
        return True
    return False


def _same_types(node: Expr, indices: range, optional: list[int], checked: Checked, *, every: bool) -> None:
    first: Type | None = None
    for index in indices:
        kind = checked.types[node.args[index].id]
        if index in optional:
            if not is_optional(kind):
                raise UnsupportedFeature("an optional element of an unknown type, at which kube-scheduler crashes")
            kind = kind[2]
        if first is None:
            first = kind
        elif kind != first:
            text = f"expected type '{display(first)}' but found '{display(kind)}'"
            checked.errors.append((node.args[index].id, text))
            if not every:
                return


def _descendants(node: Expr) -> list[Expr]:
    found = [node]
    for each in found:
        found += each.children()
    return found
