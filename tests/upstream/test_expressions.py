"""Selectors drawn at random are the same for a seed and number, and of kinds that are worth asking about."""

from collections import Counter

import pytest

from tests.k8s.cel.answers import answer_or_feature
from tests.upstream.generate.expression_forms import FORMS
from tests.upstream.generate.expression_values import LEAVES, LITERALS, TEXTS, WORDS
from tests.upstream.generate.expressions import MAX_CHARACTERS, selector

SELECTORS = [selector("test", number) for number in range(1500)]


def test_a_seed_and_a_number_determine_a_selector():
    assert SELECTORS[:50] == [selector("test", number) for number in range(50)]
    assert SELECTORS[:50] != [selector("other", number) for number in range(50)]


def test_no_selector_is_large_or_asks_for_a_long_list():
    assert max(len(each["expression"]) for each in SELECTORS) <= MAX_CHARACTERS + 200
    assert not any("lists.range(9" in each["expression"] for each in SELECTORS)


def _outcome(asked):
    found, _ = answer_or_feature(**asked)
    if found is None:
        return "not followed"
    return "syntax error" if "Syntax error" in found else found.partition(":")[0]


def test_each_outcome_is_frequent_enough_to_be_tried():
    share = {outcome: count / len(SELECTORS) for outcome, count in Counter(map(_outcome, SELECTORS)).items()}
    compiles = share["true"] + share["false"] + share["CEL runtime error"]
    assert 0.6 < compiles < 0.8
    assert min(share["true"], share["false"]) > 0.15
    assert share["CEL runtime error"] > 0.08
    assert share["CEL compile error"] > 0.12
    assert share["syntax error"] > 0.01
    assert share["not followed"] < 0.06


def test_some_selectors_are_about_another_device():
    drivers = {each["driver"] for each in SELECTORS if "device" in each}
    assert drivers == {"gpu.example.com", "other.example.org"}


@pytest.mark.parametrize("kind", FORMS)
def test_each_type_has_a_form_without_parts(kind):
    assert LITERALS.get(kind) or TEXTS.get(kind) or LEAVES.get(kind)


def test_no_hole_has_two_meanings():
    assert not {*FORMS, *TEXTS} & set(WORDS)
