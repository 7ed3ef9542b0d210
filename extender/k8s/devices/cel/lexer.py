"""Words of an expression: names, literals and marks (CEL's language definition, "Syntax" and "Lexical analysis").

Rule: linear in the text. The first character that begins no word ends the list; the parser says what is wrong there.
"""

import re
from typing import Any, Final, NamedTuple

from extender.k8s.devices.cel.values import Uint

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_EXPONENT = r"[eE][+-]?[0-9]+"


def _quoted(quote: str) -> str:
    """Return the pattern of a string within one or three of these quotes, with escapes or raw."""
    plain = rf"[^\\{quote}\n\r]*+"
    inner = rf"(?:[^\\{quote}]|{quote}(?!{quote}{quote})|{_ESCAPE})*"
    raw_inner = rf"(?:[^{quote}]|{quote}(?!{quote}{quote}))*"
    three = quote * 3
    return (
        rf"[rR]{three}{raw_inner}{three}|[rR]{quote}[^{quote}\n\r]*+{quote}"
        rf"|{three}{inner}{three}|{quote}{plain}(?:{_ESCAPE}{plain})*{quote}"
    )


_WORD: Final = re.compile(
    rf"""[\t\ \r\n\f]+ | //[^\n]*
    | (?P<bytes>[bB](?:{_quoted('"')}|{_quoted("'")}))
    | (?P<string>{_quoted('"')}|{_quoted("'")})
    | (?P<double>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<name>[a-zA-Z_][a-zA-Z0-9_]*)
    | (?P<escaped>`[a-zA-Z0-9_./\ -]+`)
    | (?P<mark>[=!<>]=|&&|\|\||[][(){{}}<>.,!?:+*/%-])""",
    re.VERBOSE,
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class Token(NamedTuple):
    """A word; `kind` is the text itself of marks and `in`, "bad" of a character that begins no word, and "end"."""

    kind: str
    text: str
    offset: int


def tokens(expression: str) -> list[Token]:
    """Return the words, and one of the kind "end" behind them."""
    found: list[Token] = []
    at = 0
    while match := _WORD.match(expression, at):
        kind, text = match.lastgroup, match[0]
        if kind == "mark" or text == "in":
            found.append(Token(text, text, at))
        elif kind == "name" and text in _CONSTANTS:
            found.append(Token("constant", text, at))
        elif kind is not None:
            found.append(Token(kind, text, at))
        at = match.end()
    if at < len(expression):
        found.append(Token("bad", expression[at], at))
    found.append(Token("end", "", len(expression)))
    return found


def value_of(token: Token, sign: str = "") -> Any:
    """Return the value of a literal; raises ValueError in cel-go's words."""
    return _VALUES[token.kind](token.text, sign)


def _digits(text: str) -> int:
    """Return the number, or one that is too large as well."""
    digits = text.removeprefix("0x")
    return int(digits.lstrip("0")[:40] or "0", 10 if digits is text else 16)


def _integer(text: str, sign: str) -> int:
    value = -_digits(text) if sign else _digits(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("invalid int literal")
    return value


def _unsigned(text: str, _sign: str) -> Uint:
    value = _digits(text[:-1])
    if value >= 1 << 64:
        raise ValueError("invalid uint literal")
    return Uint(value)


def _double(text: str, sign: str) -> float:
    value = float(sign + text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


_ONE_CHARACTER: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def _text(text: str, _sign: str, *, of_bytes: bool = False) -> str:
    """Return what is quoted, with \\n for each end of a line; of bytes, a character for each."""
    raw = text[0] in "rR"
    text = text.removeprefix(text[0]) if raw else text
    quotes = 3 if len(text) >= 6 and text[:3] == text[0] * 3 else 1
    text = text[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if of_bytes:
        text = text.encode().decode("latin-1")
    return text if raw or "\\" not in text else re.sub(_ESCAPE, lambda match: _character(match[0][1:], of_bytes), text)


def _character(escape: str, of_bytes: bool) -> str:
    first = escape[0]
    if len(escape) == 1:
        return _ONE_CHARACTER.get(first, first)
    if of_bytes and first in "uU":
        raise ValueError("unable to unescape string")
    code = int(escape, 8) if first in "0123" else int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


_VALUES: Final = {
    "int": _integer,
    "uint": _unsigned,
    "double": _double,
    "string": _text,
    "bytes": lambda text, sign: _text(text[1:], sign, of_bytes=True).encode("latin-1"),
    "constant": lambda text, _sign: _CONSTANTS[text],
}
