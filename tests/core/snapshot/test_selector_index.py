"""A SelectorTable says of label sets what each of its selectors says by itself, and looks at no others."""

from random import Random

import pytest

from extender.core.snapshot.selector_index import Postings, SelectorTable
from extender.k8s.selectors import EVERYTHING, NOTHING, LabelMatcher, Requirement

KEYS, VALUES = ("app", "tier", "zone"), ("", "a", "b", "c")


def selector(random):
    operators = random.choices(("In", "NotIn", "Exists", "DoesNotExist"), k=random.randrange(4))
    return random.choice(
        (EVERYTHING, NOTHING, *[LabelMatcher(tuple(requirement(random, one) for one in operators))] * 8)
    )


def requirement(random, operator):
    values = random.sample(VALUES, random.randint(1, 3)) if operator in ("In", "NotIn") else ()
    return Requirement(random.choice(KEYS), operator, frozenset(values))


@pytest.mark.parametrize("seed", range(20))
def test_the_table_matches_as_every_selector_does(seed):
    random = Random(seed)
    selectors = [selector(random) for _ in range(40)]
    table = SelectorTable(selectors)
    for _ in range(40):
        labels = {key: random.choice(VALUES) for key in random.sample((*KEYS, "other"), random.randrange(5))}
        found = table.matching(table.signature(labels)).tolist()
        assert found == [one.matches(labels) for one in selectors], labels


def test_an_empty_table_and_labels_that_no_selector_names():
    assert SelectorTable().matching(SelectorTable().signature({"app": "web"})).tolist() == []
    table = SelectorTable([LabelMatcher((Requirement("tier", "NotIn", frozenset(("a",))),)), EVERYTHING, NOTHING])
    assert table.signature({"app": "web"}) == ()
    assert table.matching(()).tolist() == [True, True, False]


def test_H1_the_work_for_a_label_set_depends_on_the_requirements_that_name_its_labels(monkeypatch):
    lists, lengths = Postings.lists, []

    def counting(self, indices):
        found = lists(self, indices)
        lengths.append(len(found))
        return found

    monkeypatch.setattr(Postings, "lists", counting)
    others = [LabelMatcher((Requirement(f"key-{nth}", "In", frozenset(("x",))),)) for nth in range(1000)]
    table = SelectorTable([*others, LabelMatcher((Requirement("app", "In", frozenset(("web",))),))])
    assert table.matching(table.signature({"app": "web", "pod": "web-1"})).sum() == 1
    assert lengths == [1]
