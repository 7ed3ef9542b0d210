"""Selectors have the result, or the error and its position, that kube-scheduler gives them, v1.36 or v1.37."""

from random import Random

import pytest

from extender.k8s.devices.objects import Device, DeviceAttribute, DeviceCapacity
from extender.k8s.devices.selector import OPTIONAL_FIELD, DeviceSelectorError, DeviceView
from extender.k8s.limits.limits import WorkBudget
from tests.k8s.cel.answers import agree, answer, compiled, recorded
from tests.profiles import by_profile

ANSWERS = {minor: recorded(minor) for minor in (36, 37)}


@pytest.mark.parametrize("minor", ANSWERS)
def test_every_answer_is_kube_schedulers_or_not_followed(minor):
    different = [
        (expression, wanted, found)
        for expression, wanted, *about in ANSWERS[minor][:: by_profile(4, 1, 1)]
        if (found := answer(expression, *about, minor=minor)) is not None and not agree(found, wanted)
    ]
    assert different == []


@pytest.mark.slow
@pytest.mark.parametrize("minor", ANSWERS)
def test_few_expressions_are_not_followed(minor):
    of_1_37 = minor == 37
    unsupported = {compiled(expression, of_1_37=of_1_37).unsupported for expression, *_ in ANSWERS[minor]} - {""}
    assert unsupported == {
        "format.dns1123Label()",
        "ip()",
        "url()",
        "the type google.protobuf.Int64Value",
        "a map with keys that are doubles, lists or maps",
        "the error of a regular expression that looks behind",
        r"a regular expression with \C, or with a number of nine digits",
        *({"a key behind a name with a leading dot that is a loop's variable, too"} if of_1_37 else ()),
    }


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ('device.attributes["d"].x == 1', {("attributes", "d", "x")}),
        ("device.capacity.d.x.isInteger()", {("capacity", "d", "x")}),
        ('device.attributes["d"].?x.hasValue()', {("attributes", "d", "x")}),
        ('device.attributes["d"][?"x"].hasValue()', {("attributes", "d", "x")}),
        ('has(device.attributes["d"].x)', {("attributes", "d", "x")}),
        ('device.attributes["d"].x == 1 || device.driver == "d"', {("attributes", "d", "x")}),
        ('"x" in device.attributes["d"]', None),
        ('cel.bind(d, device.attributes["d"], d.x == 1)', None),
        ("device.attributes[device.driver].x == 1", None),
        ("device.attributes.size() == 1", None),
        ("dyn(device).driver == 'd'", None),
    ],
)
def test_what_is_read_by_literal_keys_is_known(expression, reads):
    for of_1_37 in (False, True):
        found = compiled(expression, of_1_37=of_1_37).reads
        assert found == (None if reads is None else frozenset(reads))


PATHS = ['["d"].x', '["o"].y', '.d["x"]', "[device.driver].x", '[?"d"].?x.orValue(0)', '["d"][?"y"].orValue(0)']
OBJECTS = [*["device"] * 12, "dyn(device)", "v", "cel.bind(w, device, w)", "[device][0]"]
TESTS = [
    "{0} == 1",
    "{0} == {1}",
    "{0}.includes({1})",
    "has({2}.d.x)",
    '"x" in {2}["d"]',
    '"o" in {2}',
    "{2}.d.?y.hasValue()",
    "{2}.exists(k, v, 'x' in v)",
    "[1, 2].exists(device, {0} == 1)",
    "cel.bind(device, {{'attributes': {{'d': {{'x': 1}}}}}}, {0} == 1)",
    "cel.bind(d, {2}, d.d.x == 1)",
    "(device.driver == 'd' ? {2}.d : {2}.o).x == 1",
]


def random_selector(random):
    def part():
        return f"{random.choice(OBJECTS)}.{random.choice(('attributes', 'capacity'))}"

    def test():
        return random.choice(TESTS).format(part() + random.choice(PATHS), part() + random.choice(PATHS), part())

    joined = random.choice(("{0}", "{0} && {1}", "{0} || {1}", "({0} ? {1} : {2})", "!({0}) || {1}"))
    expression = joined.format(test(), test(), test())
    return f"cel.bind(v, device, {expression})" if "v." in expression else expression


def random_content(random):
    names = [f"{domain}{name}" for domain in ("", "o/", "e/") for name in "xyz"]
    attributes = {name: DeviceAttribute(int_value=random.choice((1, 2))) for name in names if random.random() < 0.6}
    return attributes, {name: DeviceCapacity(value="1") for name in names if random.random() < 0.5}


def agreeing(reads, kind, values, others):
    """Return `others` with what is read of `values`."""
    read = {name for name in {*values, *others} if (kind, *(name if "/" in name else f"d/{name}").split("/")) in reads}
    kept = {name: value for name, value in others.items() if name not in read}
    return {**kept, **{name: values[name] for name in read if name in values}}


def outcome(selector, attributes, capacity):
    view = DeviceView("d", Device(attributes=attributes, capacity=capacity))
    try:
        return selector.matches(view, WorkBudget(100_000))
    except DeviceSelectorError as error:
        return str(error)


def test_devices_that_agree_in_what_is_read_have_the_same_result():
    random, known = Random(1), 0
    for _ in range(500):
        selector = compiled(random_selector(random), of_1_37=random.random() < 0.5)
        if selector.error or selector.unsupported or selector.reads is None:
            continue
        known += 1
        for _ in range(4):
            attributes, capacity = random_content(random)
            others, other_capacity = random_content(random)
            others = agreeing(selector.reads, "attributes", attributes, others)
            other_capacity = agreeing(selector.reads, "capacity", capacity, other_capacity)
            found = outcome(selector, attributes, capacity)
            assert found == outcome(selector, others, other_capacity), selector.expression
    assert known > 40


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("9223372036854775807 < 9223372036854775808.0", "false"),
        ("dyn(9007199254740993) == 9007199254740992.0", "true"),
        ('quantity("1e100").isGreaterThan(quantity("1e30"))', "true"),
        ('quantity("10E").isLessThan(quantity("20E"))', "true"),
        ('quantity("99999999999999999999").isGreaterThan(quantity("1"))', "true"),
        ('quantity("1e1000").isInteger()', None),
        ('double("1_0") == 10.0', None),
        ('.device.driver == "gpu.example.com"', "true"),
        ('cel.bind(q, quantity("1.5Gi"), q.add(7) == q)', None),
        ('cel.bind(v, optional.of(semver("1.0.0")), v.hasValue())', None),
        ('optional.of(quantity("1")).optMap(x, x).optMap(x, x).hasValue()', None),
        ("has((dyn(1) ? {'a': 1} : dyn({})).a)", None),
        ("'%d %s'.format([1, 'a']) == '1 a'", "true"),
        ("'%.1001f'.format([1.0]) == ''", None),
        ("matches('a', '(?<=a)')", None),
        ("matches('a', 'a{999999999}')", None),
        ("['a', 'b'].transformMapEntry(i, x, {duration('1s'): i}) == {}", None),
    ],
)
def test_numbers_beyond_a_doubles_digits_and_unusual_spellings(expression, wanted):
    assert answer(expression) == wanted


COMPILE = "CEL compile error: "
RUNTIME = "CEL runtime error: "


@pytest.mark.parametrize(
    ("expression", "up_to_1_36", "since_1_37"),
    [
        ('device.attributes["o"].x', f"{RUNTIME}no such key: x", f"{RUNTIME}no such key: x{OPTIONAL_FIELD}"),
        ('dyn(device.attributes["gpu.example.com"].ok)', f"{COMPILE}must evaluate to bool or the unknown type", "true"),
        ('[dyn(1), device.attributes["gpu.example.com"].index] == [1, 1]', f"{COMPILE}compilation failed", "true"),
        (
            '[1].all(x, duration(x) == duration("1s"))',
            f"{RUNTIME}type conversion error",
            f"{COMPILE}compilation failed",
        ),
        ("dyn(1).orValue(2) == 1", "true", f"{RUNTIME}no such overload"),
        ("lists.range(-1) == []", "true", f"{RUNTIME}lists.range: size must be non-negative, got -1"),
        ("lists.range(60).includes(70)", f"{RUNTIME}'includes' function cannot be applied to lists", "false"),
        ('"abc".indexOf("", 9) == 9', "true", "false"),
        ('"abc".lastIndexOf("", -1) == -1', "true", f"{RUNTIME}index out of range: -1"),
        ('["x"].all(device, .device.driver == "gpu.example.com")', f"{COMPILE}compilation failed", "true"),
        ('cel.bind(q, quantity("0.1Ki"), q.add(7).isGreaterThan(q))', None, "true"),
        ('cel.bind(v, optional.of(semver("1.0.0")), v.hasValue())', None, "true"),
    ],
)
def test_what_1_37_changes(expression, up_to_1_36, since_1_37):
    for minor, wanted in ((36, up_to_1_36), (37, since_1_37)):
        found = answer(expression, minor=minor)
        assert found == wanted or (wanted is not None and "error" in wanted and str(found).startswith(wanted))


def test_attributes_are_lists_since_1_37():
    attributes = {"l": DeviceAttribute(int_values=(1, 2)), "v": DeviceAttribute(version_values=("1.2.3",))}
    expression = 'device.attributes["d"].l.includes(2) && device.attributes["d"].v[0].minor() == 2'
    device = Device(attributes=attributes)
    assert answer(expression, device, "d", minor=37) == "true"
    assert answer(expression, device, "d") == "CEL runtime error: attribute l: unsupported attribute value"
    broken = Device(attributes={"v": DeviceAttribute(version_values=("1.2.3", "1"))})
    wanted = "CEL runtime error: attribute v: parse semantic version: No Major.Minor.Patch elements found"
    assert answer("true", broken, "d", minor=37) == wanted


@pytest.mark.parametrize(
    "expression",
    [
        "[1/0].sort() == []",
        "[1].map(x, x / 0).distinct() == []",
        "dyn(1).distinct() == []",
        "[1, 2].sortBy(x, x / 0) == []",
        "[1, 2].map(x, x / 0).sortBy(x, x) == []",
        '[[1]].flatten(dyn("a")) == []',
        "1 / 0 == [1, 2].sortBy(x, x / 0)[0]",
    ],
)
@pytest.mark.parametrize("minor", ANSWERS)
def test_panics_of_cost_trackers_are_not_absorbed(expression, minor):
    found = answer(f"{expression} || true", minor=minor)
    assert found is not None
    assert found.startswith("CEL runtime error: internal error: interface conversion: ")


@pytest.mark.parametrize(
    "expression", ["dyn(1).sort()", "dyn(1).flatten()", "dyn(1).sortBy(x, x)", "[[1]].flatten(-1)"]
)
@pytest.mark.parametrize("minor", ANSWERS)
def test_other_errors_of_lists_are_absorbed(expression, minor):
    assert str(answer(f"{expression} == []", minor=minor)).startswith("CEL runtime error: ")
    assert answer(f"{expression} == [] || true", minor=minor) == "true"


@pytest.mark.parametrize(
    ("expression", "place", "words"),
    [
        ("has(device)", 5, "invalid argument to has() macro"),
        ("[1].all(a.b, true)", 10, "argument must be a simple name"),
        ("[1].exists_one(1, true)", 16, "argument must be a simple name"),
        ("[1].map(a.b, true, 1) == []", 10, "argument is not an identifier"),
        ("cel.bind(a.b, 1, true)", 11, "cel.bind() variable names must be simple identifiers"),
        ("[1].sortBy(a.b, 1) == []", 13, "argument is not an identifier"),
    ],
)
def test_errors_of_macros_are_kube_schedulers(expression, place, words):
    error = f"CEL compile error: compilation failed: ERROR: <input>:1:{place}: {words}\n | {expression}\n | "
    assert answer(expression) == f"{error}{'.' * (place - 1)}^"


def test_an_attribute_without_a_value_fails_every_selector():
    device = Device(attributes={"a": DeviceAttribute(), "b": DeviceAttribute(version_value="1")})
    assert answer("true", device) == "CEL runtime error: attribute a: unsupported attribute value"
    device = Device(attributes={"b": DeviceAttribute(version_value="1")})
    wanted = "CEL runtime error: attribute b: parse semantic version: No Major.Minor.Patch elements found"
    assert answer("true", device) == wanted


def test_a_name_without_a_domain_has_the_drivers():
    device = Device(
        attributes={"a": DeviceAttribute(int_value=1), "other.com/a": DeviceAttribute(int_value=2)},
        capacity={"other.com/c": DeviceCapacity(value="1")},
    )
    assert answer('device.attributes["gpu.example.com"].a == 1', device) == "true"
    assert answer('device.attributes["other.com"].a == 2', device) == "true"
    assert answer('device.capacity["other.com"].c.isInteger()', device) == "true"
