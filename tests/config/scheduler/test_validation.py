"""Configurations that kube-scheduler's own code (v1.36.2, v1.33.13) accepts or refuses, and what is said of them here.

judged.jsonl has one configuration per line: upstream's validation tables (validation_test.go,
validation_pluginargs_test.go) in our own words, and more. `verdict` is kube-scheduler's error, empty if it starts;
`said` are our mistakes.
"""

import json
import re
from pathlib import Path

import pytest

from extender.config.scheduler import kube_scheduler_of
from extender.errors import ConfigError

CASES = [json.loads(line) for line in (Path(__file__).parent / "judged.jsonl").read_text("utf-8").splitlines()]

OUT_OF_TREE = 'Plugin "Foo" does not exist'
"""kube-scheduler without that plugin refuses it; one with it does not, and which one runs is not known here."""

NOT_LOOKED_AT = "can't find NodeResourcesFitArgs in plugin config"
"""Said by buildExtenders, which the judge does not call."""

FIELD_ERROR = re.compile(
    r"(?:^|, |\[|: )((?:profiles|extenders|leaderElection|clientConnection|parallelism|percentageOfNodesToScore|pod)"
    r"[\w.\[\]]*|(?:scoringStrategy|ignoredResource)[\w.\[\]]*): "
    r"((?:Invalid|Required|Duplicate|Unsupported) value|Forbidden)"
)


def said(case):
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
    assert said(case) == case["said"]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_same_configurations_are_accepted_and_refused(case):
    exempt = OUT_OF_TREE in case["verdict"] or any(NOT_LOOKED_AT in line for line in case["said"])
    assert exempt or bool(case["said"]) == bool(case["verdict"])


def our_path(path, verdict):
    """Upstream's field path, as the file has it: below its profile, without map keys, with the key of a preference."""
    if "initializing plugin" in verdict:
        path = f"profiles[0].pluginConfig[0].args.{path}"
    path = re.sub(r"(values\[\d+])\[\w+]$", r"\1", path).replace("queueSort.Enabled", "queueSort.enabled")
    return re.sub(r"(preferredDuring\w+\[\d+])\.match", r"\1.preference.match", path)


VALIDATED = [case for case in CASES if case["said"] and FIELD_ERROR.search(case["verdict"])]


@pytest.mark.parametrize("case", VALIDATED, ids=name)
def test_every_field_that_kube_scheduler_names_is_named_with_its_kind_of_mistake(case):
    found = {f"{our_path(path, case['verdict'])}: {kind}" for path, kind in FIELD_ERROR.findall(case["verdict"])}
    told = {": ".join(line.split(": ")[:2]) for line in case["said"]}
    assert found <= told


@pytest.mark.parametrize("case", VALIDATED, ids=name)
def test_every_reason_is_in_the_words_of_kube_scheduler(case):
    """All but the value itself, where Go prints a struct; the length of a message is limited."""
    for line in case["said"]:
        _, told = line.split(": ", 1)
        assert told.rstrip("…") in case["verdict"] or told.rsplit(": ", 1)[1] in case["verdict"] or "Duplicate" in told


def test_most_of_the_table_is_compared_field_by_field():
    assert len(VALIDATED) >= 70
