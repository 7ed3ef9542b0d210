"""Random CEL selectors of devices, each with the device that it is asked about.

Most are drawn by type from `expression_forms`, so that they compile; now and then a part has another type than is
wanted, or the text is damaged, so that errors of every kind come about.

    python -m tests.upstream.generate.expressions --count 500 --seed mine > selectors.jsonl

Rule: the same seed and number give the same selector; none is larger than MAX_CHARACTERS.
"""

import argparse
import json
import re
import sys
from functools import cache
from random import Random
from typing import Any, Final

from tests.upstream.generate.expression_forms import FORMS, RARE
from tests.upstream.generate.expression_values import ATTRIBUTES, BROKEN, LEAVES, LITERALS, TEXTS, WORDS

JSON = dict[str, Any]

MAX_CHARACTERS: Final = 600
DRIVER: Final = "gpu.example.com"
WRONG_TYPE: Final = 0.012
"""How often a part of an expression has another type than is wanted there."""
DAMAGED: Final = 0.05
UNUSUAL: Final = 0.01
"""How often a selector is damaged, and how often it is one of those that do not parse."""

_HOLE = re.compile(r"<([!*]?[a-z]+(?::[a-z]+)?|[a-zA-Z0-9_]+(?:,[a-zA-Z0-9_]+)+)>")
_TYPES: Final = tuple(FORMS)
_OPERATOR = re.compile(r"^-|^!| (?:[-+*/%<>]|[<>=!]=|&&|\|\||in) ")
_TOKEN = re.compile(r'"[^"]*"|\w+|\S')


class Generator:
    """Draws expressions of a type; `variables` are those in scope, by name."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.variables: dict[str, str] = {}

    def draw(self, kind: str, depth: int) -> str:
        """Return an expression of a type, of about `depth` levels."""
        random = self.random
        if kind in FORMS and random.random() < WRONG_TYPE:
            kind = random.choice(_TYPES)
        if kind not in FORMS:
            return random.choice(WORDS.get(kind) or TEXTS[kind])
        known = [name for name, of in self.variables.items() if of in (kind, "dyn")]
        if known and random.random() < 0.35:
            return random.choice(known)
        if depth <= 0 or random.random() < 0.12:
            return self._leaf(kind)
        return self.compound(kind, depth)

    def compound(self, kind: str, depth: int) -> str:
        """Return an expression of a type that has parts, where there is a form with any."""
        found = self._filled(self.random.choice(_weighted(kind)), depth)
        return f"({found})" if _OPERATOR.search(found) else found

    def _leaf(self, kind: str) -> str:
        literals = LITERALS[kind].split() if kind in LITERALS else ()
        return self.random.choice((*literals, *TEXTS.get(kind, ()), *LEAVES.get(kind, ())))

    def _filled(self, form: str, depth: int) -> str:
        """Return the form with its holes filled; its own variables are in scope in those with a star only."""
        outer, inner = self.variables, dict(self.variables)

        def fill(hole: re.Match[str]) -> str:
            what = hole[1]
            if "," in what:
                return self.random.choice(what.split(","))
            if what[0] == "!":
                name, _, kind = what[1:].partition(":")
                if name != "device" and self.random.random() < 0.15:
                    name = self.random.choice("xykiv")
                inner[name] = kind
                return name
            self.variables = inner if what[0] == "*" else outer
            return self.draw(what.removeprefix("*"), depth - 1)

        filled = _HOLE.sub(fill, form)
        self.variables = outer
        return filled


@cache
def _weighted(kind: str) -> tuple[str, ...]:
    """Return the forms of a type, each as often as it is to be drawn."""
    return tuple(form for form in FORMS[kind] for _ in range(1 if any(each in form for each in RARE) else 10))


def expression(random: Random) -> str:
    """Return an expression, which a selector of a device may be."""
    chance = random.random()
    if chance < UNUSUAL:
        return random.choice(BROKEN)
    while True:
        kind = "bool" if random.random() < 0.93 else random.choice(_TYPES)
        found = Generator(random).compound(kind, random.choice((1, 2, 2, 3, 3, 3, 4)))
        if random.random() < 0.02:
            found = _nested(random, found)
        if len(found) <= MAX_CHARACTERS:
            break
    return _damaged(random, found) if chance < UNUSUAL + DAMAGED else found


def _nested(random: Random, text: str) -> str:
    """Return the expression within some levels of brackets or signs, a few more than parsers may follow."""
    before, after = random.choice(
        (("(", ")"), ("!", ""), ("[", "][0]"), ("dyn(", ")"), ("-", ""), ("[1].all(x, ", ")"))
    )
    levels = random.choice((3, 8, 20, 30, 36))
    return f"{before * levels}{text}{after * levels}"


def _damaged(random: Random, text: str) -> str:
    """Return the expression with a token gone, doubled, replaced or swapped; not where it names the size of a list."""
    if "lists.range" in text:
        return f"{text} &&"
    tokens = _TOKEN.findall(text)
    at = random.randrange(len(tokens))
    way = random.randrange(4)
    if way == 0:
        del tokens[at]
    elif way == 1:
        tokens.insert(at, tokens[at])
    elif way == 2:
        tokens[at] = random.choice(("1", "true", ")", "(", "]", ".", ",", "?", "x", '"a"', "&&", "in", "{", "@", "\n"))
    else:
        other = random.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(f"{each} " if each[-1:].isalnum() or each in ("in", "&&") else each for each in tokens).strip()


# --- devices -------------------------------------------------------------------------------------------------------

_AMOUNTS = (
    "80Gi",
    "0",
    "1",
    "1e3",
    "100m",
    "1500m",
    "0.5",
    ".5",
    "5.",
    "1Ki",
    "-2",
    "12E2",
    "1.5Gi",
    "1n",
    "3k",
    "1E",
    "+7",
)
_DOMAINS = ("", "", "", "gpu.example.com/", "other.example.org/")
_VALUES: Final[tuple[JSON, ...]] = (
    {"string": "h100"},
    {"string": ""},
    {"string": "é"},
    {"int": 0},
    {"int": 1},
    {"int": -5},
    {"int": 9223372036854775807},
    {"bool": True},
    {"bool": False},
    {"version": "1.2.3"},
    {"version": "2.0.0-rc.1"},
)
_LISTS: Final[tuple[JSON, ...]] = (
    {"ints": [1, 2, -5]},
    {"bools": [True, False]},
    {"strings": ["h100", "a", "é"]},
    {"strings": ["a"]},
    {"versions": ["1.2.3", "2.0.0-rc.1"]},
    {"versions": ["1.2.3", "1.2"]},
)
_WITHOUT_VALUE: Final[tuple[JSON, ...]] = ({}, {"version": "1.2"}, {"version": "v1.0.0"})


def device(random: Random) -> JSON:
    """Return a device: attributes of all kinds, capacity in unusual spellings."""
    names = sorted({f"{random.choice(_DOMAINS)}{each}" for each in ATTRIBUTES if random.random() < 0.6})
    attributes = {name: random.choice(_VALUES) for name in names}
    if random.random() < 0.05:
        attributes["odd"] = random.choice(_WITHOUT_VALUE)
    elif names and random.random() < 0.15:  # up to v1.36 an error, too, and which of two is told is chance
        attributes[random.choice(names)] = random.choice(_LISTS)
    found: JSON = {"name": "d1", "attributes": attributes}
    found["capacity"] = {
        f"{random.choice(_DOMAINS)}{name}": {"value": random.choice(_AMOUNTS)}
        for name in ("memory", "model", "a")
        if random.random() < 0.6
    }
    if random.random() < 0.3:
        found["allowMultipleAllocations"] = random.random() < 0.7
    return {key: value for key, value in found.items() if value or random.random() < 0.5}


def selector(seed: str, number: int) -> JSON:
    """Return {"expression"}, and {"device", "driver"} where it is asked about another device than the default one."""
    random = Random(f"{seed}:{number}")
    found: JSON = {"expression": expression(random)}
    if random.random() < 0.3:
        found["device"] = device(random)
        found["driver"] = random.choice((DRIVER, DRIVER, DRIVER, "other.example.org"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    for number in range(arguments.count):
        sys.stdout.write(json.dumps(selector(arguments.seed, number), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
