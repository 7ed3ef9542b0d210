"""The guard of /filter and /prioritize: whole answers, of which nothing is left out."""

from dataclasses import replace

import pytest

from extender.core.engine import FilterDecision
from extender.errors import GuardError
from extender.server.guard.guard import guard_filter, guard_scores

NODES = ["b", "a", "c", "a", "d"]
RIGHT = FilterDecision(
    accepted=(1, 3), failed={"b": "full", "d": "full"}, unresolvable={"c": "cordoned"}, not_evaluated=()
)


def test_a_right_filter_answer_passes():
    guard_filter(NODES, RIGHT)
    guard_filter([], FilterDecision((), {}, {}, ()))
    guard_filter(["a", "b"], FilterDecision((0, 1), {}, {}, ()))
    guard_filter(["a", "b"], FilterDecision((1,), {"a": "full"}, {}, ()))
    guard_filter(["a", "b"], FilterDecision((), {"a": "full", "b": "full"}, {}, ()))


INVENTED = "the filter answer has a node that was not sent"
DISORDER = "the filter answer changes the order of the nodes"
IN_TWO = "the filter answer has a node in two sets"
LACKING = "the filter answer lacks a sent node, or has one that was not sent"
ONCE = "the filter answer accepts a duplicate node only once"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accepted": (1, 3, 5)}, INVENTED),
        ({"accepted": (-1, 1, 3)}, INVENTED),
        ({"accepted": (True, 3)}, INVENTED),
        ({"accepted": (1, 3.0)}, INVENTED),
        ({"accepted": (3, 1)}, DISORDER),
        ({"accepted": (1, 1)}, DISORDER),
        ({"accepted": (1, 1, 3)}, DISORDER),
        ({"accepted": (1, 3, 2)}, DISORDER),
        ({"accepted": (0, 1, 3)}, IN_TWO),
        ({"failed": {"b": "full", "d": "full", "c": "full"}}, IN_TWO),
        ({"failed": {"b": "full", "d": "full", "a": "full"}}, IN_TWO),
        ({"unresolvable": {"c": "cordoned", "a": "cordoned"}}, IN_TWO),
        ({"accepted": ()}, LACKING),
        ({"failed": {}}, LACKING),
        ({"failed": {"b": "full", "d": "full", "z": "invented"}}, LACKING),
        ({"failed": {"b": "full", "z": "instead of d"}}, LACKING),
        ({"unresolvable": {}}, LACKING),
        ({"unresolvable": {"c": "cordoned", "z": "invented"}}, LACKING),
        ({"unresolvable": {"z": "instead of c"}}, LACKING),
        ({"accepted": (1,)}, ONCE),
        ({"accepted": (3,)}, ONCE),
    ],
    ids=str,
)
def test_a_wrong_filter_answer_is_none(change, message):
    with pytest.raises(GuardError, match=f"^{message}$") as raised:
        guard_filter(NODES, replace(RIGHT, **change))
    assert raised.value.status == 503


def test_right_scores_pass():
    guard_scores(["a", "b"], (0, 10))


LENGTH = "the prioritize answer does not have one score per sent node"
RANGE = "the prioritize answer has a score that is not an integer from 0 to 10"


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((1,), LENGTH),
        ((1, 2, 3), LENGTH),
        ((1, 11), RANGE),
        ((-1, 1), RANGE),
        ((1, 2.0), RANGE),
        ((1, True), RANGE),
    ],
)
def test_wrong_scores_are_none(scores, message):
    with pytest.raises(GuardError, match=f"^{message}$"):
        guard_scores(["a", "b"], scores)
