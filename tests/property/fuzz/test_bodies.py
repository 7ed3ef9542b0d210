"""Bad input: bodies of every kind, and no 5xx, no redirect, no answer of another shape.

One 5xx is specified and allowed (E10): `/filter` answers 503 for a node that is not in the cache. After each body a
good request is answered as before, and the cache is what it was.
"""

import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import FakeAPI
from tests.profiles import examples
from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.mutate import KEYS, Seeded, mutated, pick
from tests.property.fuzz.served import Served, assert_has_shape, assert_is_error

PATHS = ("/filter", "/prioritize", "/preempt", "/bind", "/filter-dryrun")
MANY = settings(examples(6, 150, 10_000), phases=tuple(Phase))


class Drawn:
    """Hypothesis chooses, and finds the smallest example."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1))

    def raw(self, at_most: int) -> bytes:
        return self._draw(st.binary(max_size=at_most))


@st.composite
def altered(draw, bodies):
    """A right body, altered."""
    return mutated(Drawn(draw), draw(st.sampled_from(bodies)))


def altered_evenly(bodies):
    """Bodies with every change equally likely; Hypothesis prefers the first ones, and knows how to simplify."""
    return st.integers(0, 2**64).map(Seeded).map(lambda choose: mutated(choose, pick(choose, bodies)))


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below, max_size=4)
)
invented = st.dictionaries(st.sampled_from(KEYS), values).map(json.dumps).map(str.encode)


def hostile(bodies):
    """Mostly right bodies with something wrong, some invented ones, some that are no JSON at all."""
    return st.one_of(*[altered_evenly(bodies)] * 5, *[altered(bodies)] * 3, invented, st.binary(max_size=200))


def run(strategy, check):
    """`check` with many examples, of which a failing one is made as small as it can be."""
    MANY(given(strategy)(check))()


@pytest.fixture(scope="module")
def served():
    """The service with /bind, at an API server that knows none of the pods."""
    with FakeAPI() as api:
        server = server_at(api.url)
        one = Served(server, cluster={"source": "kubernetes"}, bind={"enabled": True, "timeout": "2s"})
        yield one
        one.close()
        server.close()


@pytest.mark.parametrize("path", PATHS)
def test_no_body_gets_a_5xx_or_an_answer_of_another_shape(served, path):
    def check(body):
        answer = served.post(path, body)
        if answer.status == 200:
            assert_has_shape(path, answer)
        else:
            assert answer.status == 400 or (path == "/filter" and served.is_unknown_node(body) and answer.status == 503)
            assert_is_error(answer)
        served.assert_as_before()

    run(hostile(corpus(path[1:].removesuffix("-dryrun"))), check)
