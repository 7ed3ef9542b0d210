"""The syntax tree of an expression, as the library cel-expr-python parses it.

The library hands out a ParsedExpr of cel.expr (syntax.proto, version 1) as protobuf bytes; the few fields of it that
are needed are decoded here, since the library has no other way to read a tree.

Rule: the library is imported when the first expression is parsed, and nowhere else in the program.
"""

import re
import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from extender.k8s.devices.cel.values import NotFollowed, Uint

MAX_DEPTH = 90
"""Levels of a tree that are followed; each takes a few frames of Python's stack to check, plan and evaluate."""

MAX_CHARACTERS = 20_000
"""Characters of an expression that are read; an API server accepts 10 KiB."""


class SyntaxFailure(Exception):
    """The library's syntax errors, in cel-go's words."""


@dataclass(slots=True)
class Expr:
    """A node of the tree; `kind` says which of the other fields are its own."""

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
    """of a call, the elements of a list, and a map's keys and values by turns"""
    optional: list[int] = field(default_factory=list)
    """which elements or entries are optional"""
    loop: "Loop | None" = None


@dataclass(slots=True)
class Loop:
    """A comprehension."""

    variable: str
    variable2: str
    over: Expr
    result_variable: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


@dataclass(slots=True)
class Tree:
    root: Expr
    positions: dict[int, int]
    """node -> offset in characters"""


def parse(expression: str) -> Tree:
    """Return the tree; raises SyntaxFailure, and NotFollowed where the tree is too deep."""
    if len(expression) > MAX_CHARACTERS:
        raise NotFollowed(f"an expression of more than {MAX_CHARACTERS} characters")
    if "`" in expression:  # the library reads names in backquotes, kube-scheduler does not
        raise NotFollowed("a backquote")
    try:
        data = _environment().compile(expression, disable_check=True).serialize()
    except NotFollowed:
        raise
    except Exception as error:  # the library raises a plain Exception
        raise _failure(str(error), expression) from None
    return _tree(data)


_GIVEN_UP: Final = 30
"""Open brackets from which on the parser may give up before it has found every error of syntax."""


def _nesting(expression: str) -> int:
    """Return how deep brackets are open at most; those of strings count, too."""
    depth = deepest = 0
    for character in expression:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _failure(text: str, expression: str) -> Exception:
    """Return the error of an expression that the library does not parse."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    if "recursion" in text.partition("\n")[0]:
        return NotFollowed("an expression nested deeper than the parser follows (32 levels)")
    if not text.startswith("ERROR: <input>:"):
        return NotFollowed("an expression that the parser does not read")
    if " variable name cannot be " in text:
        return NotFollowed("a variable of a loop with the name of its result")
    text = text.replace("\nERROR: <input>:4294967295:0: <<nil>> parsetree", "")
    if _nesting(expression) >= _GIVEN_UP or _OTHER_WORDS.search(text):
        return NotFollowed("the words of an error of syntax")
    if any(words in text and has.search(expression) for words, has in _OTHER_WORDS_IF):
        return NotFollowed("the words of an error of syntax")
    if not expression:
        return SyntaxFailure(text.replace(":1:1:", ":1:0:", 1))
    for words, upstreams in _WORDS:
        text = words.sub(rf"\g<1>{upstreams}", text)
    return SyntaxFailure(text)


_PLACE = r"(?m)^(ERROR: <input>:[0-9]+:[0-9]+: )"
_NOT_A_NAME = r"\(\) variable name must be a simple identifier$"
_WORDS = (
    (re.compile(rf"{_PLACE}has\(\) argument must be a field selection$"), "invalid argument to has() macro"),
    (re.compile(rf"{_PLACE}(?:all|exists|exists_one|existsOne){_NOT_A_NAME}"), "argument must be a simple name"),
    (re.compile(rf"{_PLACE}(?:map|filter){_NOT_A_NAME}"), "argument is not an identifier"),
    (re.compile(rf"{_PLACE}Invalid bytes literal: Illegal escape sequence: .*$"), "unable to unescape string"),
    (re.compile(rf"{_PLACE}Invalid string literal: Illegal escape sequence: .*$"), "invalid unicode code point"),
    (re.compile(r"(?m)^(ERROR: <input>:.* expecting \{.*)'\\u003F'"), "'?'"),
    (re.compile(rf"{_PLACE}cel\.bind{_NOT_A_NAME}"), "cel.bind() variable names must be simple identifiers"),
)
"""The library's errors, and cel-go's."""
_OTHER_WORDS = re.compile(
    r"(?s)has\(\) argument must be.*Syntax error|Syntax error.*has\(\) argument must be|"
    r"no viable alternative at input '\.(?:true|false|null)|expecting \{IDENTIFIER, ESC_IDENTIFIER\}|:4294967295:"
)
_OTHER_WORDS_IF = (
    ("token recognition error", re.compile(r"\n")),
    (" literal", re.compile(r"\.\s*(?:transform\w+|sortBy|existsOne)\s*\(")),
    ("Syntax error", re.compile(r"\.\s*(?:all|exists\w*|transform\w+|sortBy)\s*\(")),
)
"""Errors of the library where cel-go has another one, or one more; some only in an expression that has something."""


@cache
def _environment() -> Any:
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional
    except ImportError as error:
        raise NotFollowed(f"selectors, without the package cel-expr-python ({error})") from None
    return cel.NewEnv(extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()])


# --- protobuf's wire format ----------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = found = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7


def _fields(data: bytes) -> list[tuple[int, Any]]:
    """Return (number, int or bytes) of each field of a message."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = data[at : at + 8], at + 8
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise NotFollowed("a syntax tree of an unknown format")
        found.append((number, value))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _tree(data: bytes) -> Tree:
    parsed = dict(_fields(dict(_fields(data))[2]))
    positions: dict[int, int] = {}
    for number, value in _fields(parsed[3]):
        if number == 4:
            entry = dict(_fields(value))
            positions[entry.get(1, 0)] = entry.get(2, 0)
    return Tree(_node(parsed.get(2, b""), 0), positions)


def _node(data: bytes, depth: int) -> Expr:
    if depth > MAX_DEPTH:
        raise NotFollowed(f"an expression nested more than {MAX_DEPTH} levels deep")
    node_id = 0
    node = Expr("none")
    for number, value in _fields(data):
        if number == 2:
            node_id = value
        else:
            node = _KINDS[number](_fields(value), depth + 1)
    node.id = node_id
    return node


def _literal(fields: list[tuple[int, Any]], _depth: int) -> Expr:
    number, value = fields[0] if fields else (1, 0)
    decode: dict[int, Any] = {
        1: lambda _: None,
        2: bool,
        3: _signed,
        4: Uint,
        5: lambda raw: struct.unpack("<d", raw)[0],
        6: lambda raw: raw.decode(),
        7: bytes,
    }
    return Expr("literal", value=decode[number](value))


def _identifier(fields: list[tuple[int, Any]], _depth: int) -> Expr:
    return Expr("ident", name=dict(fields)[1].decode())


def _select(fields: list[tuple[int, Any]], depth: int) -> Expr:
    found = dict(fields)
    return Expr("select", operand=_node(found[1], depth), name=found[2].decode(), test_only=bool(found.get(3)))


def _call(fields: list[tuple[int, Any]], depth: int) -> Expr:
    node = Expr("call")
    for number, value in fields:
        if number == 1:
            node.operand = _node(value, depth)
        elif number == 2:
            node.name = value.decode()
        else:
            node.args.append(_node(value, depth))
    return node


def _list(fields: list[tuple[int, Any]], depth: int) -> Expr:
    node = Expr("list")
    for number, value in fields:
        if number == 1:
            node.args.append(_node(value, depth))
        elif isinstance(value, int):
            node.optional.append(value)
        else:
            at = 0
            while at < len(value):
                index, at = _varint(value, at)
                node.optional.append(index)
    return node


def _struct(fields: list[tuple[int, Any]], depth: int) -> Expr:
    """Return a map, or a message, whose fields are not followed further."""
    name = dict(fields).get(1, b"").decode()
    node = Expr("struct" if name else "map", name=name)
    for number, value in fields:
        if number == 2 and not name:
            entry = dict(_fields(value))
            if entry.get(5):
                node.optional.append(len(node.args) // 2)
            node.args += [_node(entry[3], depth), _node(entry[4], depth)]
    return node


def _comprehension(fields: list[tuple[int, Any]], depth: int) -> Expr:
    found = dict(fields)
    loop = Loop(
        variable=found.get(1, b"").decode(),
        variable2=found.get(8, b"").decode(),
        over=_node(found[2], depth),
        result_variable=found.get(3, b"").decode(),
        start=_node(found[4], depth),
        condition=_node(found[5], depth),
        step=_node(found[6], depth),
        result=_node(found[7], depth),
    )
    return Expr("loop", loop=loop)


_KINDS: dict[int, Any] = {
    3: _literal,
    4: _identifier,
    5: _select,
    6: _call,
    7: _list,
    8: _struct,
    9: _comprehension,
}
