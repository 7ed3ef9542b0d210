"""Making a scenario small, with differences that the tests decide on themselves."""

import json

import pytest

from tests.upstream.shrink import as_text, shrink


def scenario(objects=40):
    items = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{place}", "labels": {"zone": "a", "disk": "ssd"}},
            "status": {"x": [1, 2]},
        }
        for place in range(objects)
    ]
    cluster = {"apiVersion": "v1", "kind": "List", "items": items}
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "tolerations": [{"key": str(place)} for place in range(5)]}
    pod = {"kind": "Pod", "metadata": {"name": "incoming"}, "spec": spec}
    return {"id": "x", "category": "c", "cluster": cluster, "pod": pod, "config": {"kind": "y"}, "expected": {}}


def asking(differs):
    """`kinds` of scenarios for which the function says so; it has a list of how many each call asked for."""
    asked = []

    def kinds(scenarios):
        asked.append(len(scenarios))
        return [frozenset({"wanted"} if differs(one) else {"other"}) for one in scenarios]

    return kinds, asked


def names(one):
    return [item["metadata"]["name"] for item in one["cluster"]["items"]]


def test_only_the_objects_and_fields_that_matter_stay():
    def differs(one):
        nodes = {item["metadata"]["name"]: item for item in one["cluster"]["items"]}
        third = {"key": "3"} in one["pod"]["spec"].get("tolerations", ())
        return (
            third and "n31" in nodes and nodes.get("n7", {}).get("metadata", {}).get("labels", {}).get("disk") == "ssd"
        )

    kinds, asked = asking(differs)
    small = shrink(scenario(), "wanted", kinds)
    assert small == {
        "id": "x",
        "category": "c",
        "cluster": {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {"kind": "Node", "metadata": {"name": "n7", "labels": {"disk": "ssd"}}},
                {"kind": "Node", "metadata": {"name": "n31"}},
            ],
        },
        "pod": {
            "kind": "Pod",
            "metadata": {"name": "incoming"},
            "spec": {"containers": [{"name": "a"}], "tolerations": [{"key": "3"}]},
        },
    }
    assert sum(asked) <= 400


def test_another_kind_of_difference_is_not_followed():
    kinds, _ = asking(lambda one: len(one["cluster"]["items"]) >= 25)
    assert len(names(shrink(scenario(), "wanted", kinds))) == 25


@pytest.mark.parametrize("asks", [0, 1, 30])
def test_the_number_of_asks_is_bounded(asks):
    kinds, asked = asking(lambda one: True)
    shrink(scenario(), "wanted", kinds, asks=asks)
    assert sum(asked) <= asks


def test_nothing_is_asked_when_the_time_is_over():
    kinds, asked = asking(lambda one: True)
    assert names(shrink(scenario(), "wanted", kinds, seconds=0)) == names(scenario())
    assert asked == []


def test_parts_that_are_the_same_object_are_removed_one_by_one():
    given = scenario(2)
    resources = {"pods": "10", "cpu": "1"}
    given["pod"]["status"] = {"capacity": resources, "allocatable": resources}
    kinds, _ = asking(lambda one: one["pod"].get("status", {}).get("allocatable", {}).get("cpu") == "1")
    assert shrink(given, "wanted", kinds)["pod"]["status"] == {"allocatable": {"cpu": "1"}}


def test_a_configuration_goes_as_a_whole_or_in_parts():
    def needs_profile(one):
        return "profiles" in one.get("config", {})

    given = scenario(2) | {
        "config": {"kind": "y", "parallelism": 2, "profiles": [{"schedulerName": "a", "plugins": {}}]}
    }
    assert "config" not in shrink(given, "wanted", asking(lambda one: True)[0])
    assert shrink(given, "wanted", asking(needs_profile)[0])["config"] == {
        "kind": "y",
        "profiles": [{"schedulerName": "a"}],
    }


def test_the_given_scenario_is_not_changed():
    given = scenario()
    kinds, _ = asking(lambda one: True)
    shrink(given, "wanted", kinds)
    assert given == scenario()


def test_the_text_is_json_with_a_line_for_each_object():
    small = scenario(3)
    text = as_text(small)
    assert json.loads(text) == small
    assert [json.loads(line.strip().rstrip(",")) for line in text.splitlines()[3:6]] == small["cluster"]["items"]
    assert json.loads(as_text(scenario(0))) == scenario(0)
