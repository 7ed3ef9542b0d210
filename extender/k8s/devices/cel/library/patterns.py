"""Regular expressions, which the library google-re2 matches with RE2: linear in the text, as Go's are.

Python's own `re` tries again and again where a pattern is nested, so that a short one can take hours.

Rule: what RE2 accepts and Go does not, and the text of Go's error about a pattern, are not followed.
"""

from functools import lru_cache
from typing import Any

import re2

from extender.k8s.devices.cel.values import NO_SUCH_OVERLOAD, CelError, NotFollowed, Run, TypeValue

_STEPS = 20
"""Steps of one match; the library takes about that many microseconds."""

_STEPS_OF_REPETITION = 300
"""Steps for each repetition with a count, which RE2 writes out up to 1,000 times."""

_MAX_REMEMBERED = 256
"""Characters of a text and a pattern together whose result is remembered."""


def is_valid(pattern: str) -> bool:
    """Return whether Go accepts a pattern; raises NotFollowed where that is not known."""
    return _match("", pattern)[0]


def matches(run: Run, text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise CelError(NO_SUCH_OVERLOAD)
    run.work(_STEPS + len(pattern) + len(text) // 8 + _STEPS_OF_REPETITION * pattern.count("{"))
    valid, found = (_remembered if len(text) + len(pattern) <= _MAX_REMEMBERED else _match)(text, pattern)
    if not valid:
        raise NotFollowed("the error of an invalid regular expression")
    return found


def matches_constant(run: Run, text: Any, pattern: Any) -> bool:
    """Match a constant pattern, to which a type is a text: its name."""
    return matches(run, text.name if type(text) is TypeValue else text, pattern)


def _match(text: str, pattern: str) -> tuple[bool, bool]:
    """Return (whether the pattern is valid, whether the text matches); raises NotFollowed."""
    if r"\C" in pattern:
        raise NotFollowed(r"a regular expression with \C")
    try:
        return True, _program(pattern).search(text) is not None
    except UnicodeEncodeError:
        raise NotFollowed("a regular expression on a text that is not Unicode") from None
    except re2.error as error:
        if "large" in str(error):
            raise NotFollowed("a regular expression that is too large") from None
        return False, False


_remembered = lru_cache(maxsize=4096)(_match)


def _program(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)
