"""Selectors have the result, or the error and its position, that kube-scheduler v1.36 gives them.

answers.jsonl.gz has expressions and what kube-scheduler said of each about one device: every function of the libraries,
errors of types, of overloads and at run time, and expressions drawn at random.
"""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from extender.k8s.cost.budget import WorkBudget
from extender.k8s.devices.cel.selector import DeviceSelectorError, DeviceView, NotFollowed, compile_selector
from extender.k8s.devices.objects import Device, DeviceAttribute, DeviceCapacity

compiled = cache(compile_selector)

ANSWERS = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "answers.jsonl.gz").read_bytes()).decode().splitlines()
]
DEVICE = Device(
    name="d0",
    attributes={
        "model": DeviceAttribute(string_value="h100"),
        "index": DeviceAttribute(int_value=1),
        "ok": DeviceAttribute(bool_value=True),
        "ver": DeviceAttribute(version_value="1.2.3"),
        "re": DeviceAttribute(string_value="("),
    },
    capacity={"memory": DeviceCapacity(value="80Gi")},
)


def answer(expression, device=DEVICE, steps=5_000_000):
    """Return kube-scheduler's words for what a selector says of a device; None where that is not followed."""
    selector = compiled(expression)
    if selector.unsupported:
        return None
    if selector.error:
        return f"CEL compile error: {selector.error}"
    try:
        return str(selector.matches(DeviceView("gpu.example.com", device), WorkBudget(steps))).lower()
    except DeviceSelectorError as error:
        return f"CEL runtime error: {error}"
    except NotFollowed:
        return None


def test_every_answer_is_kube_schedulers_or_not_followed():
    different = [
        (expression, wanted, found)
        for expression, wanted in ANSWERS
        if (found := answer(expression)) is not None and found != wanted
    ]
    assert different == []


def test_few_expressions_are_not_followed():
    unsupported = {compiled(expression).unsupported for expression, _ in ANSWERS} - {""}
    assert unsupported == {
        "find()",
        "format()",
        "format.dns1123Label()",
        "ip()",
        "url()",
        "the type google.protobuf.Int64Value",
        "a map with keys that are doubles, lists or maps",
        "a key of the type google.protobuf.Duration",
        "a key of the type list",
        "a key of the type map",
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
    found = compile_selector(expression).reads
    assert found == (None if reads is None else frozenset(reads))


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
