"""Random configurations are files that kube-scheduler starts with, and they reach every point and argument."""

import json
from collections import Counter
from random import Random

import pytest

from extender.config.scheduler.load import kube_scheduler_of
from extender.errors import ConfigError
from tests.parity.agreement import load
from tests.upstream.generate.configurations import (
    FOREIGN_NAME,
    NAMES,
    POINTS,
    random_configuration,
    random_scenario,
    without_extenders,
)

NO_ARGUMENTS = "can't find NodeResourcesFitArgs in plugin config, for ignoredByScheduler"
"""What kube-scheduler says of extenders' resources beside a profile that does not know NodeResourcesFit."""


@pytest.fixture(scope="module")
def scenarios():
    return load("resources")[:60] + load("volumes")[:60] + load("wide/config")[:60]


@pytest.fixture(scope="module")
def configurations(scenarios):
    return [random_configuration(Random(seed), scenario) for seed, scenario in enumerate(scenarios)]


def test_the_same_seed_and_scenario_give_the_same_file(scenarios):
    for one in scenarios[:10]:
        assert random_scenario(Random(7), one) == random_scenario(Random(7), one)


def loaded(document):
    """The kube-scheduler of the file; None: it does not start, as extenders manage what no profile can ignore."""
    try:
        return kube_scheduler_of(document)
    except ConfigError as error:
        if NO_ARGUMENTS in str(error):
            return None
        raise


@pytest.fixture(scope="module")
def started(configurations):
    """The files that kube-scheduler starts with, each with the kube-scheduler that it is here."""
    return [(document, scheduler) for document in configurations if (scheduler := loaded(document))]


def test_the_configuration_loads_and_has_the_named_profiles(started, configurations):
    for document, scheduler in started:
        names = [one["schedulerName"] for one in document["profiles"]]
        assert [one.scheduler_name for one in scheduler.profiles] == names
    assert len(started) > 0.9 * len(configurations)


def test_what_the_extenders_manage_can_be_said_without_extenders(started):
    compared = 0
    for document, scheduler in started:
        if "extenders" in document:  # the others are as they were
            assert kube_scheduler_of(without_extenders(document)) == scheduler.for_calls()
            compared += "managedResources" in json.dumps(document)
    assert compared > 10


def test_every_extension_point_is_enabled_and_disabled_somewhere(configurations):
    seen = Counter(
        (point, key)
        for document in configurations
        for profile in document["profiles"]
        for point, plugins in profile.get("plugins", {}).items()
        for key in plugins
    )
    points = ("multiPoint", *POINTS)
    assert {(point, key) for point in points for key in ("enabled", "disabled")} <= seen.keys()


def test_the_arguments_of_every_plugin_are_given_somewhere(configurations):
    text = json.dumps(configurations)
    for word in [
        "LeastAllocated",
        "MostAllocated",
        "RequestedToCapacityRatio",
        "ignoredResources",
        "ignoredResourceGroups",
        "hardPodAffinityWeight",
        "ignorePreferredTermsOfExistingPods",
        "preferredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "minDomains",
        "nodeTaintsPolicy",
        "minCandidateNodesAbsolute",
        "percentageOfNodesToScore",
        "ignoredByScheduler",
        "NodeResourcesBalancedAllocationArgs",
    ]:
        assert word in text


def test_pods_are_of_several_profiles_and_some_of_another_scheduler(scenarios):
    names = {
        item["spec"]["schedulerName"]
        for seed, one in enumerate(scenarios)
        for item in random_scenario(Random(seed), one)["cluster"]["items"]
        if item["kind"] == "Pod"
    }
    assert names == {*NAMES, FOREIGN_NAME}
