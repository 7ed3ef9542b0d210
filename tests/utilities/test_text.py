import pytest

from extender.utilities import text
from extender.utilities.text import (
    format_amount,
    format_together,
    join_names,
    pluralize,
    similar_names,
)


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


def test_a_misspelt_name_is_compared_with_those_near_it_in_the_alphabet(monkeypatch):
    names = [f"worker-{number:05}" for number in range(5000)]
    assert similar_names("worker-04219x", names, 1) == ["worker-04219"]
    monkeypatch.setattr(text, "MAX_COMPARED_NAMES", 2)
    assert similar_names("worker-04219x", names, 5) == ["worker-04219", "worker-04220"]
    assert similar_names("worker-0" * 100, ["worker-0" * 100], 1) == []


def test_a_count_has_its_noun():
    assert [pluralize(1, "node"), pluralize(0, "node"), pluralize(2, "entry", "entries")] == [
        "1 node",
        "0 nodes",
        "2 entries",
    ]


@pytest.mark.parametrize(
    ("resource", "value", "exact"),
    [
        ("memory", 15839424 << 10, "15839424Ki"),
        ("memory", -(15839424 << 10), "-15839424Ki"),
        ("memory", 4 << 30, "4Gi"),
        ("memory", (1 << 30) + 1, "1073741825"),
        ("hugepages-2Mi", 1000, "1000"),
        ("cpu", 2500, "2500m"),
        ("cpu", 3000, "3"),
        ("example.com/gpu", 2048, "2048"),
        ("memory", 0, "0"),
    ],
)
def test_an_exact_amount_is_as_kubectl_prints_it(resource, value, exact):
    assert format_amount(resource, value, is_exact=True) == exact


@pytest.mark.parametrize(
    ("resource", "values", "shown"),
    [
        pytest.param("cpu", [3000, 0, 64000], ["3", "0", "64"], id="whole cores"),
        pytest.param("cpu", [3000, 2800, 0, -500], ["3000m", "2800m", "0", "-500m"], id="millicores of all"),
        pytest.param("memory", [30080 << 20, 0, 32 << 30], ["29.38Gi", "0", "32Gi"], id="the largest unit"),
        pytest.param("memory", [5 << 20, 64 << 30], ["5Mi", "65536Mi"], id="a small amount stays one"),
        pytest.param("memory", [(4 << 30) + (1 << 20), 4 << 30], ["4097Mi", "4096Mi"], id="a small difference, too"),
        pytest.param("memory", [2688 << 20, -2688 << 20, 32 << 30], ["2.63Gi", "-2.63Gi", "32Gi"], id="as the page"),
        pytest.param("memory", [0, 0], ["0", "0"], id="nothing"),
        pytest.param("memory", [2**63 - 1, 1], [f"{2**63 - 1}", "1"], id="bytes that no float holds"),
        pytest.param("memory", [2**63 - 1024, 103], ["9007199254740991Ki", "0.1Ki"], id="nor hundredths of a unit"),
        pytest.param("memory", [-1, 1 << 10], ["-1", "1024"], id="a negative byte"),
        pytest.param("pods", [3, 110], ["3", "110"], id="a count"),
        pytest.param("example.com/gpu", [2**62 + 1, 0], [f"{2**62 + 1}", "0"], id="a count that no float holds"),
    ],
)
def test_amounts_of_a_row_have_one_unit(resource, values, shown):
    assert format_together(resource, values) == shown
