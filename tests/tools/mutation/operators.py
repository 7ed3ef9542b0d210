"""Small mistakes in a module: every mutant is the module with one of them.

A comparison or an operator is another one, a condition is always or never true or half of it, a constant is one more
or less, a text is another, a value is missing, a statement, a keyword, an entry of a table or a decorator is left out,
or two neighbours in a table change places.

Rule: no chance: the same source gives the same mutants in the same order. Left alone are docstrings,
annotations, imports, and that something is a dataclass or a property.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

SHOWN = 110
"""Columns: so much of the code around it is shown with a mutant."""

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}

NONE = ast.Constant(None)


@dataclass(slots=True)
class Mutant:
    """One mistake: `field` (or one of its items) of `parent` is `mistake`."""

    module: str
    """Dotted name."""
    place: str
    """Function or class that it is in."""
    tree: ast.Module
    parent: ast.AST
    field: str
    mistake: object
    before: str
    after: str
    number: int = 1
    """Of those of the same text in the same place."""

    @property
    def id(self) -> str:
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.module.rpartition('.')[2]}.{self.place}: {self.before}  ->  {self.after}{again}"

    def code(self) -> CodeType:
        """The module with the mistake."""
        right = getattr(self.parent, self.field)
        setattr(self.parent, self.field, self.mistake)
        try:
            return compile(ast.fix_missing_locations(self.tree), f"<{self.module}, mutated>", "exec")
        finally:
            setattr(self.parent, self.field, right)


def mutants(module: str, path: Path) -> list[Mutant]:
    """All of a module, in the order of its text; their ids are unique."""
    tree = ast.parse(path.read_text("utf-8"))
    found = list(_of(tree, [], module, tree))
    times = Counter[str]()
    for one in found:
        times[one.id] += 1
        one.number = times[one.id]
    return found


def _of(node: ast.AST, above: list[ast.AST], module: str, tree: ast.Module) -> Iterator[Mutant]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_params") or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for mistake in _mistakes(node, field, value, above):
            yield _made(node, field, mistake, above, module, tree)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_no_code(child):
                yield from _of(child, [*above, node], module, tree)


def _is_no_code(node: ast.AST) -> bool:
    """A docstring, or what `dataclass` is told."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or _is_dataclass(node)


def _is_dataclass(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dataclass"


def _is_property(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "property"


def _made(node: ast.AST, field: str, mistake: object, above: list[ast.AST], module: str, tree: ast.Module) -> Mutant:
    places = [one.name for one in (*above, node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    right = getattr(node, field)
    if isinstance(right, list) and isinstance(mistake, list) and isinstance(right[0], ast.stmt):
        (before, after), *_ = ((_text(a), _text(b)) for a, b in zip(right, mistake, strict=True) if a is not b)
        return Mutant(module, ".".join(places) or "module", tree, node, field, mistake, before, after)
    shown, before = _around(node, above)
    setattr(node, field, mistake)
    after = _text(shown)
    setattr(node, field, right)
    if len(after) > SHOWN:
        before, after = _difference(right, mistake)
    return Mutant(module, ".".join(places) or "module", tree, node, field, mistake, before, after)


def _around(node: ast.AST, above: list[ast.AST]) -> tuple[ast.AST, str]:
    """The largest piece of the same statement that is short enough to be shown, and its text."""
    found, text = node, _text(node)
    for outer in reversed(above):
        if isinstance(found, ast.stmt) or not isinstance(outer, ast.expr | ast.stmt | ast.comprehension | ast.keyword):
            break
        if len(whole := _text(outer)) > SHOWN:
            break
        found, text = outer, whole
    return found, text


def _text(node: ast.AST) -> str:
    """In one line; of a statement with a body, its head."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If | ast.For | ast.Try | ast.With) and node.body:
        node = copy(node)
        node.body = [ast.Pass()]
        if isinstance(node, ast.If | ast.For | ast.Try):
            node.orelse = []
        return " ".join(ast.unparse(node).split()).removesuffix(" pass")
    return " ".join(ast.unparse(node).split())


def _difference(right: object, mistake: object) -> tuple[str, str]:
    """What of a field that is too long to be shown is another: its text before and after."""
    items = [value if isinstance(value, list) else [value] for value in (right, mistake)]
    texts = [[_text(item) for item in of_one if isinstance(item, ast.AST)] for of_one in items]
    same = 0
    while texts[0][same:] and texts[1][same:] and texts[0][same] == texts[1][same]:
        same += 1
    after_that = 0
    while min(map(len, texts)) - same > after_that and texts[0][-1 - after_that] == texts[1][-1 - after_that]:
        after_that += 1
    before, after = (", ".join(text[same : len(text) - after_that]) for text in texts)
    return _cut(before), _cut(after) or "(nothing)"


def _cut(text: str) -> str:
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]} … {text[-SHOWN:]}"


# --- what may be wrong with a field -----------------------------------------------------------------------------------


def _mistakes(node: ast.AST, field: str, value: object, above: list[ast.AST]) -> Iterator[object]:
    """What the field may be instead."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, ast.AST) and not _is_no_code(item):
                for other in _instead(item):
                    yield [*value[:place], other, *value[place + 1 :]]
        yield from _lists(node, field, value, above)
    elif isinstance(value, ast.AST):
        yield from _instead(value)
        if field == "value" and isinstance(node, ast.Return) and not isinstance(value, ast.Constant):
            yield NONE
        if field == "body" and isinstance(node, ast.Lambda) and not isinstance(value, ast.Constant):
            yield NONE
        if field == "test" and isinstance(node, ast.If):
            yield from (ast.Constant(True), ast.Constant(False))


def _lists(node: ast.AST, field: str, value: list[ast.AST | None], above: list[ast.AST]) -> Iterator[object]:
    """With an item left out, or two neighbours in each other's place."""
    is_table = field == "elts" and len(above) <= 2
    may_lack = (
        is_table or field in ("ifs", "decorator_list") or (field == "elts" and isinstance(above[-1], ast.Compare))
    )
    if field == "keywords":
        may_lack = True
    for place, item in enumerate(value):
        if may_lack and not (_is_dataclass(item) or _is_property(item)):
            yield [*value[:place], *value[place + 1 :]]
    if is_table:
        for place in range(len(value) - 1):
            yield [*value[:place], value[place + 1], value[place], *value[place + 2 :]]
    if field in ("defaults", "kw_defaults"):
        for place, item in enumerate(value):
            if item is not None and not isinstance(item, ast.Constant):
                yield [*value[:place], NONE, *value[place + 1 :]]


def _instead(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=ops):
            yield from _comparisons(node, ops)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for place in range(len(values)):
                rest = [*values[:place], *values[place + 1 :]]
                yield ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Constant(value=value):
            yield from _constants(value)
        case ast.Call():
            yield from _calls(node)
        case ast.Slice(lower=lower, upper=upper):
            if lower is not None:
                yield ast.Slice(None, upper)
            if upper is not None:
                yield ast.Slice(lower, None)
        case ast.Dict(keys=keys, values=values):
            for place in range(len(keys)):
                yield ast.Dict([*keys[:place], *keys[place + 1 :]], [*values[:place], *values[place + 1 :]])
        case ast.stmt():
            yield from _statements(node)


def _comparisons(node: ast.Compare, ops: list[ast.cmpop]) -> Iterator[ast.AST]:
    for place, op in enumerate(ops):
        for other in _COMPARISONS[type(op)]:
            yield ast.Compare(node.left, [*ops[:place], other(), *ops[place + 1 :]], node.comparators)
    if len(ops) > 1:  # without the first of the bounds, or the last one
        yield ast.Compare(node.comparators[0], ops[1:], node.comparators[1:])
        yield ast.Compare(node.left, ops[:-1], node.comparators[:-1])


def _constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield from (ast.Constant(value + 1), ast.Constant(value - 1))
    elif isinstance(value, str):
        yield ast.Constant(f"{value}~")


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
        return
    other = _FUNCTIONS[node.func.id]
    yield ast.Call(ast.Name(other, ast.Load()), node.args, [] if other == "list" else node.keywords)
    if node.func.id in ("min", "max") and len(node.args) > 1:
        yield from node.args


def _statements(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Assert() | ast.Delete():
            yield ast.Pass()
        case ast.AugAssign(target=target, op=op, value=value):
            yield ast.Pass()
            yield ast.AugAssign(target, _OPERATORS[type(op)](), value)
            yield ast.copy_location(ast.Assign([target], value), node)
