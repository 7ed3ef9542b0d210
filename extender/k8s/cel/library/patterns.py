"""Regular expressions, matched by RE2 (library google-re2): linear in the text, as Go's are.

Rule: a pattern that RE2 accepts but Go does not is not evaluated; errors have Go's messages.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Any

from extender.k8s.cel.library.standard import wanted
from extender.k8s.cel.values import NO_SUCH_OVERLOAD, CelError, Run, TypeValue, UnsupportedFeature
from extender.k8s.limits.limits import MAX_NAMED_GROUPS, TOO_MANY_NAMED_GROUPS

_STEPS = 20
"""Steps charged for one match; the library takes about that many microseconds."""

_STEPS_OF_REPETITION = 300
"""Steps charged for each counted repetition, which RE2 expands up to 1,000 times."""

_MAX_NESTED = 100
"""Maximum nesting of groups."""
# Go refuses a tree of more than 1,000 levels, which RE2 accepts. A group takes up to four levels: the group, its
# repetition, and the sequence and the alternatives that contain it.

_MAX_REMEMBERED = 256
"""Maximum length of a text and a pattern together whose result is cached, in characters."""


def problem(pattern: str) -> str:
    """Return Go's error for a pattern, "" if it is valid; raises UnsupportedFeature if the error is not known."""
    return _match("", pattern)[0]


def matches(run: Run, text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise CelError(NO_SUCH_OVERLOAD)
    run.work(_STEPS + len(pattern) + len(text) // 8 + _STEPS_OF_REPETITION * pattern.count("{"))
    wrong, found = (_remembered if len(text) + len(pattern) <= _MAX_REMEMBERED else _match)(text, pattern)
    if wrong:
        raise CelError(wrong)
    return found


def _matches_any(run: Run, text: Any, pattern: Any) -> bool:
    if type(text) is not str:
        raise wanted("matches", text)
    return matches(run, text, pattern)


def find(run: Run, text: str, pattern: str) -> str:
    return next(iter(find_all(run, text, pattern, 1)), "")


def find_all(run: Run, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matching substrings, at most `limit` unless it is negative (regexp.FindAllString)."""
    matches(run, "", pattern)
    found: list[str] = []
    at, before = 0, -1
    while at <= len(text) and len(found) != limit:
        run.work(_STEPS + len(text) // 8)
        match = _compiled(pattern).search(text, at)
        if match is None:
            break
        start, end = match.span()
        if end > at or start != before:
            found.append(text[start:end])
        at, before = (at + 1 if end == at else end), end
    return found


def _of_constant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the variant for constant patterns, which accepts a type as a text and has shorter errors."""

    def find_constant(run: Run, text: Any, pattern: str, *limit: Any) -> Any:
        text = text.name if type(text) is TypeValue else text
        if type(text) is not str or any(type(each) is not int for each in limit):
            raise CelError(NO_SUCH_OVERLOAD)
        return function(run, text, pattern, *limit)

    return find_constant


OF_CONSTANTS: dict[str, Callable[..., Any]] = {
    "matches": _of_constant(matches),
    "find": _of_constant(find),
    "findAll": _of_constant(find_all),
}


def _illegal(function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(run: Run, text: str, pattern: str, *limit: int) -> Any:
        wrong = problem(pattern)
        if wrong:
            raise CelError(f"Illegal regex: {wrong}")
        return function(run, text, pattern, *limit)

    return checked


OPERATORS: dict[str, Callable[..., Any]] = {
    "matches: (string, string) -> bool; string.(string) -> bool": _matches_any,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "find: string.(string) -> string": _illegal(find),
    "findAll: string.(string) -> list<string>; string.(string, int) -> list<string>": _illegal(find_all),
}

_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's message -> Go's, where they differ."""
_UNCLEAR = re.compile(r"\\C|\{[0-9]{9}|\{[0-9]*,[0-9]{9}")
"""Syntax that RE2 and Go parse differently: the escape of a single byte, numbers beyond Go's limit."""
_BRACKETS = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*|([()])", re.DOTALL)
"""Brackets of groups; escapes and classes come first, as their brackets are literal."""


def _match(text: str, pattern: str) -> tuple[str, bool]:
    """Return (Go's error of the pattern, whether the text matches); raises UnsupportedFeature."""
    if _UNCLEAR.search(pattern):
        raise UnsupportedFeature(r"a regular expression with \C, or with a number of nine digits")
    open_groups = (1 if each[1] == "(" else -1 for each in _BRACKETS.finditer(pattern) if each[1])
    if pattern.count("(") > _MAX_NESTED and max(accumulate(open_groups), default=0) > _MAX_NESTED:
        raise UnsupportedFeature("a regular expression with groups nested too deeply")
    # Python's `re` backtracks, so a short pattern can take hours. Few selectors have patterns: re2 is imported lazily.
    import re2

    try:
        return "", _compiled(pattern).search(text) is not None
    except UnicodeEncodeError:
        raise UnsupportedFeature("a regular expression on a text that is not Unicode") from None
    except re2.error as error:
        told = error.args[0].decode("utf-8", "replace")
        if "large" in told or len(pattern) > _MAX_REMEMBERED:
            raise UnsupportedFeature("a regular expression that is too large") from None
        words, _, part = told.partition(": ")
        if part.startswith("(?<"):
            raise UnsupportedFeature("the error of a regular expression that looks behind") from None
        return f"error parsing regexp: {_WORDS.get(words, words)}: `{part}`", False


# A selector matches one pattern against the same few values of thousands of devices: 0.2 us instead of 60.
_remembered = lru_cache(maxsize=4096)(_match)


def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    # Only whole matches are needed, and capturing is quadratic in nested groups.
    options.never_capture = True
    compiled = re2.compile(pattern, options)
    if compiled.groups > MAX_NAMED_GROUPS:
        raise UnsupportedFeature(TOO_MANY_NAMED_GROUPS)
    return compiled
