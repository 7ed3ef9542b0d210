"""Whatever a tenant writes into a selector ends within its budget: with an answer, an error or not followed."""

from contextlib import suppress

import pytest

from extender.k8s.cel.library.patterns import _compiled
from extender.k8s.devices.objects import Device
from extender.k8s.devices.selector import DeviceSelectorError, DeviceView, UnsupportedFeature, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached
from tests.k8s.cel.answers import answer

LIMIT = "CEL runtime error: operation cancelled: actual cost limit exceeded"


def chain(levels, first, step, last):
    """Bindings each of which uses the one before several times."""
    found = last.replace("#", f"x{levels - 1}")
    for level in range(levels - 1, 0, -1):
        found = f"cel.bind(x{level}, {step.replace('#', f'x{level - 1}')}, {found})"
    return f"cel.bind(x0, {first}, {found})"


def test_the_cost_limit_is_upstreams_error():
    items = "lists.range(1000)"
    assert answer(f"{items}.all(a, {items}.all(b, a + b >= 0)) || true") == LIMIT


def test_the_budget_ends_what_costs_less_than_the_limit():
    selector = compile_selector("lists.range(100).all(a, lists.range(100).all(b, a + b >= 0))", of_1_37=True)
    with pytest.raises(WorkLimitReached):
        selector.matches(DeviceView("d", Device()), WorkBudget(1000))


def test_every_evaluation_spends_the_budget():
    budget = WorkBudget(1000)
    assert compile_selector("device.driver == 'd'", of_1_37=True).matches(DeviceView("d", Device()), budget)
    assert budget.left < 1000


@pytest.mark.parametrize(
    "expression",
    [
        chain(15, '"aaaaaaaaaaaaaaaa"', "#+#+#+#", "#.size() > 0"),
        chain(15, "[1, 2, 3, 4]", "#+#+#+#", "#.size() > 0"),
        chain(10, "[1]", "[#, #, #]", "# == #"),
        chain(15, "{1: 1}", "{#: #}", "# == #"),
        chain(8, '"aaaaaaaaaaaaaaaa"', '#.replace("a", "aaaaaaaaaaaaaaaa")', "#.size() > 0"),
        chain(12, '"aaaaaaaaaaaaaaaa"', '["", "", "", "", ""].join(#)', "#.size() > 0"),
        chain(12, '"a,a,a,a"', '#.split(",").join(# + #)', "#.size() > 0"),
        chain(12, "[1]", "[#, #, #, #, #, #, #, #]", "[#].indexOf(dyn(0)) == -1"),
        'lists.range(1000).all(i, !matches("b", "^((a{1,30}){1,30})$" + string(i)))',
        'quantity("1e2000000000").add(1).isInteger()',
        'quantity("1e-2000000000").isInteger()',
        "lists.range(1000000000).size() > 0",
        "lists.range(3000).distinct().size() > 0",
        "lists.range(1000).map(x, lists.range(1000)).flatten().distinct().size() > 0",
        "(" * 4000 + "1" + ")" * 4000 + " == 1",
        "1" + "+1" * 4000 + " == 1",
        "[" * 4000 + "]" * 4000 + " == []",
        "device" + ".a" * 4000,
        "size(" * 100 + "'a'" + ")" * 100,
    ],
    ids=range(19),
)
@pytest.mark.parametrize("of_1_37", [False, True])
def test_large_values_and_deep_trees_end(expression, of_1_37):
    selector = compile_selector(expression, of_1_37=of_1_37)
    if selector.unsupported or selector.error:
        return
    with suppress(WorkLimitReached, DeviceSelectorError, UnsupportedFeature):
        selector.matches(DeviceView("d", Device()), WorkBudget(100_000))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("!" * 9999 + "true", "false"),
        (" && ".join(['device.driver == "gpu.example.com"'] * 290), "true"),
        (" || ".join(["1 == 2"] * 1000), "false"),
        ('"' + "a" * 50 + '!".matches("^(a+)+$")', "false"),
    ],
    ids=range(4),
)
def test_long_expressions_are_evaluated(expression, wanted):
    assert answer(expression) == wanted


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("(" * 100 + "a" + ")" * 100, "true"),
        ("(" * 101 + "a" + ")" * 101, None),
        ("(?:" * 101 + "a" + ")*" * 101, None),
        ("(" * 1000 + "a" + ")" * 1000, None),
        ("[[:alpha:](]" * 101 + "|a", "true"),
        ("[]((]" * 101 + "|[^]((]", "true"),
        (r"\Q" + "(" * 101 + r"\E|a", "true"),
        (r"\(" * 101 + "|a", "true"),
        ("(?i)" * 101 + "(a)" * 101 + "|a", "true"),
        ("[a](" * 101 + "a" + ")" * 101, None),
        (r"[\]](" * 101 + "a" + ")" * 101, None),
    ],
    ids=range(11),
)
def test_groups_of_a_pattern_are_followed_as_deep_as_go_surely_follows_them(pattern, wanted):
    assert answer(f"'a'.matches(r'{pattern}')") == wanted


def test_a_pattern_has_few_groups_that_are_searched_for():
    assert _compiled("((a)|b)+").groups == 0
    assert _compiled("((a)|b)+").search("zabab").span() == (1, 5)
    assert answer("'zabab'.find('(?P<first>(a)|b)+') == 'abab'") == "true"
    assert answer("'a'.matches('" + "(?P<n>a?)" * 10 + "')") == "true"
    assert answer("'a'.matches('" + "(?P<n>a?)" * 11 + "')") is None


def test_an_expression_longer_than_the_api_accepts_is_not_followed():
    assert compile_selector("'" + "a" * 20_000 + "' == ''", of_1_37=True).unsupported
