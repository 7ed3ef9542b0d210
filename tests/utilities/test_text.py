import pytest

from extender.utilities.text import join_names, pluralize


@pytest.mark.parametrize(
    ("names", "limit", "total", "text"),
    [
        pytest.param([], 2, None, "", id="none"),
        pytest.param(["a", "b"], 2, None, "a, b", id="all"),
        pytest.param(["a", "b", "c"], 2, None, "a, b and 1 more", id="too many"),
        pytest.param(["a"], 2, 5, "a and 4 more", id="only some were given"),
        pytest.param(["a", "b", "c"], 2, 7, "a, b and 5 more", id="only some were given, too many"),
    ],
)
def test_long_lists_are_shortened(names, limit, total, text):
    assert join_names(names, limit, total) == text


def test_a_count_has_its_noun():
    assert [pluralize(1, "node"), pluralize(0, "node"), pluralize(2, "entry", "entries")] == [
        "1 node",
        "0 nodes",
        "2 entries",
    ]
