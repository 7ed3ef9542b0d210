"""Lexer: splits an expression into names, literals and marks as cel-go does (parser/gen/CEL.g4, unescape.go).

Rule: linear in the text. Lexing ends at a character that begins no token; the parser reports it when it gets there.
"""

import re
from typing import Any, Final, NamedTuple

from extender.k8s.cel.values import Uint

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_EXPONENT: Final = r"[eE][+-]?[0-9]+"


def _quoted(quote: str) -> str:
    """Return the pattern of a string in one or three of the given quotes, raw or with escapes."""
    # Possessive quantifiers (*+) keep the pattern linear: the text after an unclosed quote is not tried again.
    plain, more = rf"[^\\{quote}\n\r]*+", rf"{quote}(?!{quote}{quote})"
    return (
        rf"[rR]{quote * 3}(?:[^{quote}]|{more})*{quote * 3} | [rR]{quote}[^{quote}\n\r]*+{quote} |"
        rf"{quote * 3}(?:[^\\{quote}]|{more}|{_ESCAPE})*{quote * 3} | {quote}{plain}(?:{_ESCAPE}{plain})*{quote}"
    )


_TOKEN: Final = re.compile(
    rf"""[\t\ \r\n\f]+ | //[^\n]*
    | (?P<bytes>[bB](?:{_quoted('"')}|{_quoted("'")}))
    | (?P<string>{_quoted('"')}|{_quoted("'")})
    | (?P<double>[0-9]+\.[0-9]+(?:{_EXPONENT})? | [0-9]+{_EXPONENT} | \.[0-9]+(?:{_EXPONENT})?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<name>[a-zA-Z_][a-zA-Z0-9_]*)
    | (?P<escaped>`[a-zA-Z0-9_./\ -]+`)
    | (?P<mark>[=!<>]=|&&|\|\||[][(){{}}<>.,!?:+*/%-])""",
    re.VERBOSE,
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class Token(NamedTuple):
    """A token; `kind` is the text of a mark or `in`, "bad" where no token begins, and "end" after the last token."""

    kind: str
    text: str
    offset: int


def tokens(expression: str) -> list[Token]:
    """Return the tokens, followed by the "end" token."""
    found: list[Token] = []
    at = 0
    while match := _TOKEN.match(expression, at):
        kind, text = match.lastgroup, match[0]
        if kind == "mark" or text == "in":
            found.append(Token(text, text, at))
        elif kind is not None:
            found.append(Token("constant" if text in _CONSTANTS else kind, text, at))
        at = match.end()
    if at < len(expression):
        found.append(Token("bad", expression[at], at))
    return [*found, Token("end", "", len(expression))]


def value_of(literal: Token, sign: str = "") -> Any:
    """Return the value of a literal; raises ValueError with cel-go's message."""
    kind, text = literal.kind, literal.text
    if kind == "constant":
        return _CONSTANTS[text]
    if kind == "string":
        return _unquoted(text, of_bytes=False)
    if kind == "bytes":
        return _unquoted(text[1:], of_bytes=True).encode("latin-1")
    if kind == "double":
        value = float(sign + text)
        in_range = abs(value) != float("inf")
    else:
        base, digits = (16, text[2:]) if text.startswith("0x") else (10, text)
        # 30 digits are enough to be out of range; Python refuses to convert thousands of them.
        value = int(sign + (digits.rstrip("uU").lstrip("0")[:30] or "0"), base)
        in_range = 0 <= value < 1 << 64 if kind == "uint" else -(1 << 63) <= value < 1 << 63
    if not in_range:
        raise ValueError(f"invalid {kind} literal")
    return Uint(value) if kind == "uint" else value


def _unquoted(text: str, *, of_bytes: bool) -> str:
    """Return the text within quotes, with line ends as line feeds; for bytes, one character per byte."""
    raw = text[0] in "rR"
    text = text[raw:]
    quotes = 3 if len(text) >= 6 and text[:3] == text[0] * 3 else 1
    text = text[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if of_bytes:
        text = text.encode().decode("latin-1")
    return text if raw else re.sub(_ESCAPE, lambda match: _character(match[0][1:], of_bytes), text)


def _character(escape: str, of_bytes: bool) -> str:
    if len(escape) == 1:
        return dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)).get(escape, escape)
    if of_bytes and escape[0] in "uU":
        raise ValueError("unable to unescape string")
    code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)
