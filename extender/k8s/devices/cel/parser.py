"""The parser of CEL, by the grammar and the limits of cel-go (parser/gen/CEL.g4 and parser.go, v0.29).

Operands and operators by turns, on stacks of our own: an operand is a literal, a name or what is in brackets, with what
is selected, indexed and called of it. Brackets are groups, one within the other; an operator waits in its group until
one that binds less, or the end of the group, comes.

Rule: linear in the text, and no recursion: a tenant's brackets must not take Python's stack.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from extender.k8s.devices.cel.lexer import Token, tokens, value_of
from extender.k8s.devices.cel.macros import expand
from extender.k8s.devices.cel.syntax import MAX_CHARACTERS, MAX_DEPTH, Expr, SyntaxFailure, Tree
from extender.k8s.devices.cel.values import NotFollowed

_LIMIT: Final = 250
"""Levels that cel-go follows: of each rule of its grammar, and of what has operands."""
_CONDITION, _OR, _AND, _RELATION, _SUM, _PRODUCT = range(6)
_BINARY: Final = {
    "||": _OR,
    "&&": _AND,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), _RELATION),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
"""Operators, and how strongly they bind."""
_LITERALS: Final = ("int", "uint", "double", "string", "bytes", "constant")
_RESERVED: Final = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let")
    + ("loop", "package", "namespace", "return", "var", "void", "while")
)
_SURROGATES: Final = frozenset(map(chr, range(0xD800, 0xE000)))


class _Kind(NamedTuple):
    """What brackets hold: several items or one; with an optional mark and a last comma; keys with values."""

    closer: str
    many: bool = False
    optional: bool = False
    pairs: bool = False
    fields: bool = False


_WHOLE, _PARENTHESES, _INDEX = _Kind("end"), _Kind(")"), _Kind("]")
_ARGUMENTS, _LIST = _Kind(")", many=True), _Kind("]", many=True, optional=True)
_MAP = _Kind("}", many=True, optional=True, pairs=True)
_MESSAGE = _MAP._replace(fields=True)


class _Operator(NamedTuple):
    level: int
    text: str
    offset: int


@dataclass(slots=True)
class _Group:
    """An open bracket; `levels` are those of cel-go's rules expr, relation and calc that its items stand in."""

    kind: _Kind
    finish: Callable[["_Group"], Expr]
    levels: tuple[int, int, int]
    items: list[Expr] = field(default_factory=list)
    optional: list[int] = field(default_factory=list)
    comma: bool = False
    marked: bool = False
    """there is an optional mark before the item"""
    operands: list[Expr] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    colons: int = 0
    """of conditions, one within the other"""
    signs: list[Token] = field(default_factory=list)
    """`!` or `-` before the operand"""

    @property
    def fresh(self) -> bool:
        """Whether an item, or its key, is yet to begin."""
        return not self.operators and not self.signs and not (self.kind.pairs and len(self.items) % 2)

    def levels_inside(self) -> tuple[int, int, int]:
        """Return the levels that the next operand stands in."""
        waiting = [each.level for each in self.operators[-3:]]
        expressions, relations, calculations = self.levels
        calculations += waiting.count(_SUM) + waiting.count(_PRODUCT)
        return expressions + self.colons, relations + waiting.count(_RELATION), calculations


def parse(expression: str) -> Tree:
    """Return the tree, with what is wrong with it; raises SyntaxFailure, and NotFollowed where it is too large."""
    if len(expression) > MAX_CHARACTERS:
        raise NotFollowed(f"an expression of more than {MAX_CHARACTERS} characters")
    if not _SURROGATES.isdisjoint(expression):
        raise NotFollowed("a character that is not Unicode")
    parser = _Parser(expression)
    try:
        root = parser.parse()
    except _Unexpected as unexpected:
        return Tree(positions={0: unexpected.offset}, problems=[(0, f"Syntax error: {unexpected}")])
    if parser.height > _LIMIT:
        raise SyntaxFailure("ERROR: <input>:-1:0: max recursion depth exceeded")
    tree = parser.tree
    tree.root = root
    if not tree.problems and tree.depths[root.id] > MAX_DEPTH:
        raise NotFollowed(f"an expression nested more than {MAX_DEPTH} levels deep")
    return tree


class _Unexpected(Exception):
    def __init__(self, token: Token, wanted: str) -> None:
        found = {"end": "the end", "bad": f"what begins with {token.text}"}.get(token.kind, token.text)
        super().__init__(f"found {found}, expected {wanted}")
        self.offset = token.offset


class _Parser:
    def __init__(self, expression: str) -> None:
        self.tree = Tree()
        self.tokens = tokens(expression)
        self.at = 0
        self.groups: list[_Group] = []
        self.wants_operand = True
        self.result: Expr | None = None
        self.heights: dict[int, int] = {}
        """node -> levels of nodes with operands, as cel-go counts them before it expands macros; 0 if missing"""
        self.height = 0

    def parse(self) -> Expr:
        self._open(_WHOLE, lambda group: group.items[0])
        while self.result is None:
            token = self._next()
            (self._operand if self.wants_operand else self._operator)(token, self.groups[-1])
        return self.result

    def _next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _is_next(self, kind: str) -> bool:
        """Take the next word if it is of that kind."""
        found = self.tokens[self.at].kind == kind
        self.at += found
        return found

    def _expect(self, kind: str, *, wanted: str) -> Token:
        token = self._next()
        if token.kind != kind:
            raise _Unexpected(token, wanted)
        return token

    # --- nodes ---

    def _new(self, offset: int, node: Expr, *, counted: bool) -> Expr:
        return self._measured(self.tree.add(node, offset), node.children(), counted=counted)

    def _measured(self, node: Expr, below: list[Expr], *, counted: bool) -> Expr:
        height = counted + max((self.heights.get(each.id, 0) for each in below), default=0)
        if height:
            self.heights[node.id] = height
            self.height = max(self.height, height)
        return node

    def _called(self, offset: int, name: str, target: Expr | None, args: list[Expr]) -> Expr:
        below = [*args, *([target] if target is not None else [])]
        node = expand(self.tree, offset, name, target, args)
        if node is None:
            node = self.tree.add(Expr("call", name=name, operand=target, args=args), offset)
        return self._measured(node, below, counted=target is not None)

    def _literal(self, token: Token, sign: str, offset: int) -> Expr:
        try:
            return self.tree.add(Expr("literal", value=value_of(token, sign)), offset)
        except ValueError as problem:
            return self.tree.wrong(offset, str(problem))

    # --- groups ---

    def _open(self, kind: _Kind, finish: Callable[[_Group], Expr]) -> None:
        levels = self.groups[-1].levels_inside() if self.groups else (0, 0, 0)
        group = _Group(kind, finish, (levels[0] + 1, levels[1] + 1, levels[2] + 1))
        self._limit(group)
        self.groups.append(group)
        self.wants_operand = True

    @staticmethod
    def _limit(group: _Group) -> None:
        if max(group.levels_inside()) > _LIMIT:
            raise SyntaxFailure(f"ERROR: <input>:-1:0: expression recursion limit exceeded: {_LIMIT}")

    def _end_item(self, token: Token, group: _Group) -> None:
        """Put the operands and operators that wait in a group together to an item of it."""
        self._reduce(group, _CONDITION)
        while group.operators:
            operator = group.operators.pop()
            if operator.text == "?":
                raise _Unexpected(token, ":")
            node = Expr("call", name="_?_:_", args=group.operands[-3:])
            group.operands[-3:] = [self._new(operator.offset, node, counted=True)]
        if group.marked:
            group.optional.append(len(group.items) // (2 if group.kind.pairs else 1))
        group.items.append(group.operands.pop())
        group.marked = group.comma = False
        group.colons = 0
        self.wants_operand = True

    def _close(self, group: _Group) -> None:
        self.groups.pop()
        found = group.finish(group)
        if self.groups:
            self._complete(found)
        else:
            self.result = found

    def _complete(self, operand: Expr) -> None:
        self.groups[-1].operands.append(operand)
        self.wants_operand = False

    # --- operands ---

    def _operand(self, token: Token, group: _Group) -> None:
        kind = token.kind
        if group.fresh and self._begins(token, group):
            return
        if kind in _LITERALS:
            self._complete(self._literal(token, "", token.offset))
        elif kind in ("name", "."):
            self._name(token)
        elif kind in ("!", "-"):
            self._sign(token, group)
        elif kind == "(":
            self._open(_PARENTHESES, lambda closed: closed.items[0])
        elif kind == "[":
            self._open(_LIST, lambda closed: self._collection(token, "list", closed))
        elif kind == "{":
            self._open(_MAP, lambda closed: self._collection(token, "map", closed))
        else:
            raise _Unexpected(token, "a value")

    def _begins(self, token: Token, group: _Group) -> bool:
        """Take what stands instead of an item, before one, or is the field of one."""
        kind = group.kind
        if not group.marked and token.kind == kind.closer and (kind.optional if group.comma else kind.many):
            self._close(group)
        elif not group.marked and token.kind == "," and kind.optional and not group.comma:
            self._expect(kind.closer, wanted=kind.closer)
            self._close(group)
        elif not group.marked and token.kind == "?" and kind.optional:
            group.marked = True
        elif kind.fields:
            if token.kind not in ("name", "escaped"):
                raise _Unexpected(token, "a field")
            self._expect(":", wanted=":")
            group.items.append(Expr("none"))
        else:
            return False
        return True

    def _sign(self, token: Token, group: _Group) -> None:
        """Take a sign: one of a number's own, or of any operand with others of its kind."""
        before = group.signs[-1].kind if group.signs else token.kind
        negative = token.kind == "-" and (before == "!" or not group.signs)
        if negative and self.tokens[self.at].kind in ("int", "double"):
            self._complete(self._literal(self._next(), "-", token.offset))
        elif before == token.kind:
            group.signs.append(token)
        else:
            raise _Unexpected(token, "a value")

    def _name(self, token: Token) -> None:
        dot = token.text if token.kind == "." else ""
        word = self._expect("name", wanted="a name") if dot else token
        name, wrong = dot + word.text, word.text in _RESERVED
        if rest := self._rest_of_type():
            brace = self.tokens[self.at - 1]
            self._open(_MESSAGE, lambda closed: self._message(brace, name + rest.removesuffix("{"), closed))
        elif self._is_next("("):
            parenthesis, problems = self.tokens[self.at - 1], len(self.tree.problems)

            def finish(closed: _Group) -> Expr:
                if not wrong:
                    return self._called(parenthesis.offset, name, None, closed.items)
                del self.tree.problems[problems:]
                return self.tree.wrong(token.offset, f"reserved identifier: {word.text}")

            self._open(_ARGUMENTS, finish)
        elif wrong:
            self._complete(self.tree.wrong(token.offset, f"reserved identifier: {word.text}"))
        else:
            self._complete(self.tree.add(Expr("ident", name=name), word.offset))

    def _rest_of_type(self) -> str:
        """Take the rest of a message's type and its brace, if that is what follows a name."""
        at = self.at
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "name":
            at += 2
        if self.tokens[at].kind != "{":
            return ""
        found = "".join(each.text for each in self.tokens[self.at : at + 1])
        self.at = at + 1
        return found

    def _message(self, brace: Token, name: str, closed: _Group) -> Expr:
        node = self.tree.add(Expr("struct", name=name), brace.offset)
        return self._measured(node, closed.items, counted=False)

    def _collection(self, bracket: Token, kind: str, closed: _Group) -> Expr:
        return self._new(bracket.offset, Expr(kind, args=closed.items, optional=closed.optional), counted=False)

    # --- operators ---

    def _operator(self, token: Token, group: _Group) -> None:
        kind = token.kind
        if kind == ".":
            self._select(token, group)
            return
        if kind == "[":
            self._index(token, group)
            return
        self._apply_signs(group)
        if kind in _BINARY:
            self._binary(token, group)
        elif kind == "?":
            self._reduce(group, _CONDITION)
            if group.operators and group.operators[-1].text == "?":
                raise _Unexpected(token, ":")
            group.operators.append(_Operator(_CONDITION, "?", token.offset))
            self.wants_operand = True
        elif kind == ":":
            self._colon(token, group)
        elif kind in (",", group.kind.closer) and len(group.items) % 2 >= group.kind.pairs:
            self._separator(token, group)
        else:
            raise _Unexpected(token, "an operator")

    def _separator(self, token: Token, group: _Group) -> None:
        if token.kind == "," and not group.kind.many:
            raise _Unexpected(token, "an operator")
        self._end_item(token, group)
        if token.kind == ",":
            group.comma = True
        else:
            self._close(group)

    def _colon(self, token: Token, group: _Group) -> None:
        self._reduce(group, _CONDITION)
        if group.operators and group.operators[-1].text == "?":
            group.operators[-1] = group.operators[-1]._replace(text=":")
            group.colons += 1
            self._limit(group)
            self.wants_operand = True
        elif group.kind.pairs and len(group.items) % 2 == 0:
            self._end_item(token, group)
        else:
            raise _Unexpected(token, "an operator")

    def _select(self, dot: Token, group: _Group) -> None:
        operand = group.operands.pop()
        optional = self._is_next("?")
        name = self._next()
        if name.kind == "escaped":
            raise NotFollowed("a backquote")
        if name.kind != "name":
            raise _Unexpected(name, "a name")
        if not optional and self._is_next("("):
            offset = self.tokens[self.at - 1].offset
            self._open(_ARGUMENTS, lambda closed: self._called(offset, name.text, operand, closed.items))
        elif optional:
            field_name = self.tree.add(Expr("literal", value=name.text), name.offset)
            node = Expr("call", name="_?._", args=[operand, field_name])
            self._complete(self._new(dot.offset, node, counted=True))
        else:
            self._complete(self._new(dot.offset, Expr("select", name=name.text, operand=operand), counted=True))

    def _index(self, bracket: Token, group: _Group) -> None:
        operand = group.operands.pop()
        name = "_[?_]" if self._is_next("?") else "_[_]"

        def finish(closed: _Group) -> Expr:
            return self._new(bracket.offset, Expr("call", name=name, args=[operand, closed.items[0]]), counted=True)

        self._open(_INDEX, finish)

    def _apply_signs(self, group: _Group) -> None:
        if len(group.signs) % 2:
            first = group.signs[0]
            node = Expr("call", name=f"{first.kind}_", args=[group.operands.pop()])
            group.operands.append(self._new(first.offset, node, counted=False))
        group.signs.clear()

    def _binary(self, token: Token, group: _Group) -> None:
        level = _BINARY[token.kind]
        self._reduce(group, level if level in (_OR, _AND) else level - 1)
        group.operators.append(_Operator(level, token.kind, token.offset))
        self._limit(group)
        self.wants_operand = True

    def _reduce(self, group: _Group, above: int) -> None:
        """Apply the last operators that bind more strongly than a level."""
        operators, operands = group.operators, group.operands
        while operators and (level := operators[-1].level) > above:
            same = [operators.pop()]
            while level in (_OR, _AND) and operators and operators[-1].level == level:
                same.append(operators.pop())
            terms = operands[-len(same) - 1 :]
            operands[-len(same) - 1 :] = [self._balanced(same[::-1], terms, counted=level > _AND)]

    def _balanced(self, operators: list[_Operator], terms: list[Expr], *, counted: bool) -> Expr:
        """Return the tree of what `&&` or `||` join, as deep on one side as on the other."""
        if not operators:
            return terms[0]
        middle = len(operators) // 2
        left = self._balanced(operators[:middle], terms[: middle + 1], counted=counted)
        right = self._balanced(operators[middle + 1 :], terms[middle + 1 :], counted=counted)
        operator = operators[middle]
        name = "@in" if operator.text == "in" else f"_{operator.text}_"
        return self._new(operator.offset, Expr("call", name=name, args=[left, right]), counted=counted)
