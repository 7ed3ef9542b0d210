"""Parser of CEL with the grammar and the limits of cel-go v0.29 (parser/gen/CEL.g4, parser.go).

Operands and operators alternate. An operand is a literal, a name or a bracket, followed by any fields, keys and calls.
Brackets are nested groups; an operator waits in its group until an operator of lower precedence or the end of the item
follows.

Rule: linear in the text, and no recursion: a tenant's brackets must not exhaust Python's stack.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from extender.k8s.cel.lexer import Token, tokens, value_of
from extender.k8s.cel.macros import expand
from extender.k8s.cel.syntax import Expr, SyntaxFailure, Tree
from extender.k8s.cel.values import UnsupportedFeature
from extender.k8s.limits import limits

_LIMIT: Final = 250
"""Maximum nesting in cel-go, of each grammar rule and of nodes with operands."""
_CONDITION, _OR, _AND, _RELATION, _SUM, _PRODUCT = range(6)
_BINARY: Final = {
    "||": _OR,
    "&&": _AND,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), _RELATION),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
"""Binary operators and their precedence."""
_LITERALS: Final = ("int", "uint", "double", "string", "bytes", "constant")
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


class _Kind(NamedTuple):
    """Kind of bracket: one item, or several with commas; items of maps and messages are pairs."""

    closer: str
    many: bool = False
    optional: bool = False
    """whether items may be marked optional, and a trailing comma is allowed"""
    pairs: bool = False
    fields: bool = False


_WHOLE, _PARENTHESES, _INDEX, _ARGUMENTS = _Kind("end"), _Kind(")"), _Kind("]"), _Kind(")", many=True)
_LIST = _Kind("]", many=True, optional=True)
_MAP = _Kind("}", many=True, optional=True, pairs=True)
_MESSAGE = _MAP._replace(fields=True)


class _Operator(NamedTuple):
    level: int
    text: str
    offset: int


@dataclass(slots=True)
class _Group:
    """An open bracket and its items; the current item is still separate operands and operators."""

    kind: _Kind
    finish: Callable[["_Group"], Expr]
    """returns the node of the closed bracket"""
    outside: tuple[int, int, int]
    """levels of cel-go's rules expr, relation and calc around the bracket"""
    items: list[Expr] = field(default_factory=list)
    optional: list[int] = field(default_factory=list)
    comma: bool = False
    """whether the last token was a comma"""
    marked: bool = False
    """whether the current item is marked optional"""
    signs: list[Token] = field(default_factory=list)
    operands: list[Expr] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    colons: int = 0
    """Number of nested ternaries whose colon was read"""

    def levels(self) -> tuple[int, int, int]:
        """Return the levels of cel-go's rules at the next operand."""
        expressions, relations, calculations = self.outside
        # At most one relation, sum and product wait: an operator first reduces those of its own or higher precedence.
        waiting = [each.level for each in self.operators[-3:]]
        calculations += 1 + waiting.count(_SUM) + waiting.count(_PRODUCT)
        return expressions + 1 + self.colons, relations + 1 + waiting.count(_RELATION), calculations


class _Unexpected(Exception):
    def __init__(self, token: Token, wanted: str) -> None:
        text = repr(token.text[:40])
        found = {"end": "the end", "bad": f"what begins with {text}"}.get(token.kind, text)
        super().__init__(f"Syntax error: found {found}, expected {wanted}")
        self.offset = token.offset


def parse(expression: str, *, escaped_names: bool) -> Tree:
    """Parse an expression into a tree and its problems; raises SyntaxFailure, or UnsupportedFeature if it is too large.

    `escaped_names`: field names may be quoted with backquotes, as since v1.37.
    """
    # 1. Limit the size before any work.
    if len(expression) > limits.MAX_EXPRESSION_CHARACTERS:
        raise UnsupportedFeature(limits.TOO_LONG_EXPRESSION)
    if expression.encode(errors="ignore").decode() != expression:
        raise UnsupportedFeature("a character that is not Unicode")
    # 2. Parse. cel-go recovers from a syntax error and reports further errors; the first error is enough here.
    parser = _Parser(expression, escaped_names)
    try:
        parser.parse()
    except _Unexpected as unexpected:
        return Tree(positions={0: unexpected.offset}, problems=[(0, str(unexpected))])
    # 3. Check the depth: cel-go's limit is an error, ours a feature that is not evaluated.
    if max(parser.heights.values(), default=0) > _LIMIT:
        raise SyntaxFailure("ERROR: <input>:-1:0: max recursion depth exceeded")
    if not parser.tree.problems and parser.tree.depths[parser.tree.root.id] > limits.MAX_EXPRESSION_LEVELS:
        raise UnsupportedFeature(limits.TOO_DEEP_EXPRESSION)
    return parser.tree


class _Parser:
    def __init__(self, expression: str, escaped_names: bool) -> None:
        self.tree = Tree(limits.max_expression_nodes(len(expression)))
        self.tokens = tokens(expression)
        self.escaped_names = escaped_names
        self.at = 0
        self.groups: list[_Group] = []
        self.wants_operand = True
        self.heights: dict[int, int] = {}
        """node -> levels of nodes with operands, as cel-go counts them before it expands macros; 0 if missing"""

    def parse(self) -> None:
        self._open(_WHOLE, lambda group: group.items[0])
        while self.groups:
            (self._operand if self.wants_operand else self._operator)(self._next(), self.groups[-1])

    def _next(self, *kinds: str, wanted: str = "") -> Token:
        token = self.tokens[self.at]
        if kinds and token.kind not in kinds:
            raise _Unexpected(token, wanted or kinds[0])
        self.at += 1
        return token

    def _is_next(self, kind: str) -> bool:
        """Consume the next token if it is of the given kind, and return whether it was."""
        found = self.tokens[self.at].kind == kind
        self.at += found
        return found

    # --- nodes ---

    def _new(self, offset: int, node: Expr, *, counted: bool) -> Expr:
        return self._measured(self.tree.add(node, offset), node.children(), counted=counted)

    def _measured(self, node: Expr, below: list[Expr], *, counted: bool) -> Expr:
        if height := counted + max((self.heights.get(each.id, 0) for each in below), default=0):
            self.heights[node.id] = height
        return node

    def _called(self, offset: int, name: str, target: Expr | None, args: list[Expr]) -> Expr:
        node = expand(self.tree, offset, name, target, args)
        if node is None:
            node = self.tree.add(Expr("call", name=name, operand=target, args=args), offset)
        return self._measured(node, args if target is None else [target, *args], counted=target is not None)

    def _literal(self, token: Token, sign: str, offset: int) -> Expr:
        try:
            return self.tree.add(Expr("literal", value=value_of(token, sign)), offset)
        except ValueError as problem:
            return self.tree.wrong(offset, str(problem))

    # --- groups and their items ---

    def _open(self, kind: _Kind, finish: Callable[[_Group], Expr]) -> None:
        self.groups.append(_Group(kind, finish, self.groups[-1].levels() if self.groups else (0, 0, 0)))
        self.wants_operand = True

    def _close(self) -> None:
        group = self.groups.pop()
        found = group.finish(group)
        if self.groups:
            self._complete(found)
        else:
            self.tree.root = found

    def _complete(self, operand: Expr) -> None:
        self.groups[-1].operands.append(operand)
        self.wants_operand = False

    def _begins(self, token: Token, group: _Group) -> bool:
        """Consume a token that ends the group, marks an item optional or names a field; return whether it did."""
        kind, marked = group.kind, group.marked
        if not marked and token.kind == kind.closer and (kind.optional if group.comma else kind.many):
            self._close()
        elif not marked and token.kind == "," and kind.optional and not group.comma:
            self._next(kind.closer)
            self._close()
        elif not marked and token.kind == "?" and kind.optional:
            group.marked = True
        elif kind.fields:
            if token.kind not in ("name", "escaped"):
                raise _Unexpected(token, "a field")
            self._next(":")
            group.items.append(Expr("none"))
        else:
            return False
        return True

    def _end_item(self, token: Token, group: _Group) -> None:
        self._reduce(group, _CONDITION)
        # Ternaries are right-associative: the last one is the innermost.
        while group.operators:
            operator = group.operators.pop()
            if operator.text == "?":
                raise _Unexpected(token, ":")
            node = Expr("call", name="_?_:_", args=group.operands[-3:])
            group.operands[-3:] = [self._new(operator.offset, node, counted=True)]
        if group.marked:
            group.optional.append(len(group.items) // (2 if group.kind.pairs else 1))
        group.items.append(group.operands.pop())
        group.comma, group.marked, group.colons = token.kind == ",", False, 0
        self.wants_operand = True
        if token.kind == group.kind.closer:
            self._close()

    # --- operands ---

    def _operand(self, token: Token, group: _Group) -> None:
        fresh = not group.operators and not group.signs and len(group.items) % 2 <= (not group.kind.pairs)
        if fresh and self._begins(token, group):
            return
        if max(group.levels()) > _LIMIT:
            raise SyntaxFailure(f"ERROR: <input>:-1:0: expression recursion limit exceeded: {_LIMIT}")
        if token.kind in _LITERALS:
            self._complete(self._literal(token, "", token.offset))
        elif token.kind in ("!", "-"):
            self._sign(token, group)
        elif token.kind in ("name", "."):
            self._name(token)
        elif token.kind == "(":
            self._open(_PARENTHESES, lambda closed: closed.items[0])
        elif token.kind == "[":
            self._open(_LIST, lambda closed: self._collection("list", token, closed))
        elif token.kind == "{":
            self._open(_MAP, lambda closed: self._collection("map", token, closed))
        else:
            raise _Unexpected(token, "a value")

    def _collection(self, kind: str, bracket: Token, closed: _Group) -> Expr:
        return self._new(bracket.offset, Expr(kind, args=closed.items, optional=closed.optional), counted=False)

    def _sign(self, token: Token, group: _Group) -> None:
        """Consume a sign: that of a number, or one of a series of identical signs before an operand."""
        before = group.signs[-1].kind if group.signs else ""
        # The smallest int has no positive counterpart, so its sign belongs to the literal.
        if token.kind == "-" and before != "-" and self.tokens[self.at].kind in ("int", "double"):
            self._complete(self._literal(self._next(), "-", token.offset))
        elif before in ("", token.kind):
            group.signs.append(token)
        else:
            raise _Unexpected(token, "a value")

    def _name(self, token: Token) -> None:
        word = self._next("name", wanted="a name") if token.kind == "." else token
        name = token.text + word.text if token.kind == "." else word.text
        reserved = word.text in _RESERVED  # cel-go's grammar accepts reserved words, its parser does not
        if rest := self._rest_of_type():
            brace = self.tokens[self.at - 1].offset
            message = Expr("struct", name=name + rest[:-1])
            self._open(
                _MESSAGE, lambda closed: self._measured(self.tree.add(message, brace), closed.items, counted=False)
            )
        elif self._is_next("("):
            parenthesis, problems = self.tokens[self.at - 1].offset, len(self.tree.problems)

            def finish(closed: _Group) -> Expr:
                if not reserved:
                    return self._called(parenthesis, name, None, closed.items)
                del self.tree.problems[problems:]  # cel-go does not look at the arguments
                return self.tree.wrong(token.offset, f"reserved identifier: {word.text}")

            self._open(_ARGUMENTS, finish)
        elif reserved:
            self._complete(self.tree.wrong(token.offset, f"reserved identifier: {word.text}"))
        else:
            self._complete(self.tree.add(Expr("ident", name=name), word.offset))

    def _rest_of_type(self) -> str:
        """Consume the rest of a message's type and its brace if they follow; return "" otherwise."""
        at = self.at
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "name":
            at += 2
        if self.tokens[at].kind != "{":
            return ""
        found = "".join(each.text for each in self.tokens[self.at : at + 1])
        self.at = at + 1
        return found

    # --- operators ---

    def _operator(self, token: Token, group: _Group) -> None:
        if token.kind == ".":
            self._select(token, group.operands.pop())
            return
        if token.kind == "[":
            self._index(token, group.operands.pop())
            return
        if len(group.signs) % 2:  # cel-go drops signs in pairs
            node = Expr("call", name=f"{group.signs[0].kind}_", args=[group.operands.pop()])
            group.operands.append(self._new(group.signs[0].offset, node, counted=False))
        group.signs.clear()
        level = _BINARY.get(token.kind, _CONDITION)
        self._reduce(group, level if level <= _AND else level - 1)
        asked = bool(group.operators) and group.operators[-1].text == "?"
        is_value = len(group.items) % 2 or not group.kind.pairs
        self.wants_operand = True
        if level or (token.kind == "?" and not asked):
            group.operators.append(_Operator(level, token.kind, token.offset))
        elif token.kind == ":" and asked:
            group.operators[-1] = group.operators[-1]._replace(text=":")
            group.colons += 1
        elif token.kind == (group.kind.closer if is_value else ":") or (
            token.kind == "," and group.kind.many and is_value
        ):
            self._end_item(token, group)
        else:
            raise _Unexpected(token, ":" if asked else "an operator")

    def _select(self, dot: Token, operand: Expr) -> None:
        optional = self._is_next("?")
        word = self._next("name", "escaped", wanted="a name")
        name = word.text.strip("`")
        if word.kind == "name" and not optional and self._is_next("("):
            parenthesis = self.tokens[self.at - 1].offset
            self._open(_ARGUMENTS, lambda closed: self._called(parenthesis, name, operand, closed.items))
            return
        if word.kind == "escaped" and not self.escaped_names:
            self.tree.wrong(word.offset, "unsupported syntax: '`'")
        node = Expr("select", name=name, operand=operand)
        if optional:
            field_name = self.tree.add(Expr("literal", value=name), word.offset)
            node = Expr("call", name="_?._", args=[operand, field_name])
        self._complete(self._new(dot.offset, node, counted=True))

    def _index(self, bracket: Token, operand: Expr) -> None:
        name = "_[?_]" if self._is_next("?") else "_[_]"

        def finish(closed: _Group) -> Expr:
            return self._new(bracket.offset, Expr("call", name=name, args=[operand, closed.items[0]]), counted=True)

        self._open(_INDEX, finish)

    def _reduce(self, group: _Group, above: int) -> None:
        """Reduce the waiting operators of higher precedence than `above`."""
        operators, operands = group.operators, group.operands
        while operators and (level := operators[-1].level) > above:
            # cel-go balances the terms of && and ||; other operators are left-associative.
            same = [operators.pop()]
            while level <= _AND and operators and operators[-1].level == level:
                same.insert(0, operators.pop())
            terms = operands[-len(same) - 1 :]
            operands[-len(same) - 1 :] = [self._balanced(same, terms, counted=level > _AND)]

    def _balanced(self, operators: list[_Operator], terms: list[Expr], *, counted: bool) -> Expr:
        """Return the balanced tree of terms joined by operators of the same precedence."""
        if not operators:
            return terms[0]
        middle = len(operators) // 2
        left = self._balanced(operators[:middle], terms[: middle + 1], counted=counted)
        right = self._balanced(operators[middle + 1 :], terms[middle + 1 :], counted=counted)
        name = "@in" if operators[middle].text == "in" else f"_{operators[middle].text}_"
        return self._new(operators[middle].offset, Expr("call", name=name, args=[left, right]), counted=counted)
