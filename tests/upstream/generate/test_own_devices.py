"""Random clusters with devices reach every topic, and every field that dynamic resource allocation reads."""

import json
from collections import Counter

import pytest

from tests.builders import stored_cluster
from tests.parity.agreement import load, load_verdicts
from tests.upstream.generate.own_devices import FAILING_SELECTORS, SELECTORS, TOPICS, random_scenario

KEPT = 250
"""Scenarios in own/dra, of those that were judged."""


@pytest.fixture(scope="module")
def scenarios():
    return [random_scenario("test", number) for number in range(300)]


def test_the_same_seed_and_number_give_the_same_scenario(scenarios):
    assert [random_scenario("test", number) for number in range(10)] == scenarios[:10]
    assert random_scenario("other", 0) != scenarios[0]


def test_every_topic_is_frequent_and_every_object_is_one_that_we_read(scenarios):
    topics = Counter(tag for one in scenarios for tag in one["tags"])
    assert topics.keys() == {*TOPICS}
    assert min(topics.values()) >= 8
    for one in scenarios[::8]:
        stored_cluster(one["cluster"])


def test_every_field_that_says_something_of_devices_is_given_somewhere(scenarios):
    text = json.dumps(scenarios)
    for word in [
        "nodeName",
        "allNodes",
        "nodeSelector",
        "perDeviceNodeSelection",
        "sharedCounters",
        "consumesCounters",
        "allowMultipleAllocations",
        "validRange",
        "validValues",
        "bindsToNode",
        "bindingConditions",
        "allocationTimestamp",
        "timeAdded",
        "matchAttribute",
        "distinctAttribute",
        "firstAvailable",
        "adminAccess",
        "tolerations",
        "shareID",
        "consumedCapacity",
        "reservedFor",
        "deletionTimestamp",
        "resourceClaimTemplateName",
        "resourceClaimStatuses",
        "extendedResourceName",
        "deviceclass.resource.kubernetes.io/",
        "resource.kubernetes.io/extended-resource-claim",
        "restartPolicy",
        "nominatedNodeName",
        "bindingTimeout",
    ]:
        assert word in text


def test_nearly_every_selector_is_asked_somewhere(scenarios):
    items = [item for one in scenarios for item in one["cluster"]["items"]]
    text = json.dumps([item["spec"] for item in items if item["kind"] in ("ResourceClaim", "DeviceClass")])
    texts = [json.dumps(one.format(driver="gpu.example.com"))[1:-1] for one in (*SELECTORS, *FAILING_SELECTORS)]
    assert sum(one in text for one in texts) > 0.8 * len(texts)


def test_the_scenarios_kept_have_both_outcomes_and_many_reasons():
    verdicts = [one["expected"] for one in load_verdicts("own/dra")]
    assert len(verdicts) == len({one["id"] for one in load_verdicts("own/dra")}) == KEPT
    assert {tag for one in load("own/dra", 5) for tag in one["tags"]} == {*TOPICS}
    statuses = [
        status
        for one in verdicts
        for status in (one.get("prefilter", {}), *one["filter"].values(), *one["nonCandidates"].values())
    ]
    reasons = {
        (status["code"], *status["reasons"]) for status in statuses if status.get("plugin") == "DynamicResources"
    }
    assert len(reasons) > 80
    assert sum(one["feasible"] > 0 for one in verdicts) > KEPT // 4
    assert (
        sum(any(score["plugins"].get("DynamicResources") for score in one["scores"].values()) for one in verdicts) > 15
    )
