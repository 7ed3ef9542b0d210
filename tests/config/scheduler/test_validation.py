"""Configurations that kube-scheduler's own code (v1.36.2, v1.33.13) accepts or refuses, and what is said of them here.

judged.jsonl has one configuration per line: upstream's validation tables (validation_test.go,
validation_pluginargs_test.go) in our own words, and more. `verdict` is kube-scheduler's error, empty if it starts;
`said` are our mistakes: none where only kube-scheduler would be in the way.
"""

import json
import re
from pathlib import Path

import pytest

import extender
from extender.config.scheduler.load import kube_scheduler_of
from extender.errors import ConfigError
from tests.builders import cluster, incoming, node, pod

CASES = [json.loads(line) for line in (Path(__file__).parent / "judged.jsonl").read_text("utf-8").splitlines()]

FIELD_ERROR = re.compile(r"(?:^|, |\[|: )((?:profiles|percentageOfNodesToScore|scoringStrategy)[\w.\[\]]*): ")
"""A field that kube-scheduler's message names."""


def reported(case):
    try:
        kube_scheduler_of(case["config"], version=case["version"], feature_gates=case["featureGates"])
    except ConfigError as error:
        return [line.removeprefix("KubeSchedulerConfiguration: ") for line in str(error).splitlines()]
    return []


def name(case):
    rest = {key: value for key, value in case["config"].items() if key not in ("apiVersion", "kind")}
    return f"{case['version']}-{json.dumps(rest)[:90]}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_what_is_said_of_a_configuration(case):
    assert reported(case) == case["said"]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_what_kube_scheduler_accepts_is_accepted(case):
    assert case["verdict"] or not case["said"]


def fields_of(case):
    """The fields that kube-scheduler names, as the file has them: below the plugin, and below the preference."""
    for path in FIELD_ERROR.findall(case["verdict"]):
        path = path if path.startswith(("profiles", "percentage")) else f"profiles[0].pluginConfig[0].args.{path}"
        yield re.sub(r"(preferredDuring\w+\[\d+])\.match", r"\1.preference.match", path)


REFUSED = [case for case in CASES if case["said"] and FIELD_ERROR.search(case["verdict"])]


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_what_is_refused_kube_scheduler_refuses_there(case):
    """At the same field, or at what holds it."""
    fields = [*fields_of(case)]
    for line in case["said"]:
        place = line.split(": ")[0]
        assert any(field.startswith(place) or place.startswith(field) for field in fields), (place, fields)


def test_a_part_of_the_table_is_compared_field_by_field():
    assert len(REFUSED) >= 35


LEFT_TO_KUBE_SCHEDULER = [case for case in CASES if case["verdict"] and not case["said"]]


@pytest.mark.parametrize("case", LEFT_TO_KUBE_SCHEDULER, ids=name)
def test_pods_are_judged_by_what_only_kube_scheduler_refuses(case):
    web = {"app": "web"}
    nodes = {node("n1", labels={"zone": "a", "a": "5"}): [pod("low", cpu="3", priority=0, labels=web)], node("n2"): []}
    found = kube_scheduler_of(case["config"], version=case["version"], feature_gates=case["featureGates"])
    for profile in found.profiles:
        waiting = incoming(cpu="2", schedulerName=profile.scheduler_name, labels=web)
        shown = extender.evaluate(cluster(nodes), waiting, scheduler=found).to_dict()
        assert set(shown["filter"]) == {"n1", "n2"}
