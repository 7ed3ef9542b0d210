"""The engine against kube-scheduler's own verdicts: every category must agree in full.

Exempt is only what `agreement.exempt_nodes` names. `-s` or a failure shows the agreement per category.
"""

import pytest

import extender
from tests.oracle.agreement import COMPARED, compare, load

CATEGORIES = ("resources", "pdb", "priorities", "taints", "affinity", "ports", "nominated", "eligibility", "images")

NOT_MODELLED_YET = {
    "quirk-spread-terminating": "PodTopologySpread",
    "quirk-spread-empty-selector": "PodTopologySpread",
    "quirk-rwop-other-namespace": "VolumeRestrictions",
}
"""Quirks of plugins that are not modelled -> the plugin."""

WITHOUT_SCORES = tuple(key for key in COMPARED if key != "scores")


def differences(scenario, keys=COMPARED):
    evaluation = extender.evaluate(scenario["cluster"], scenario["pod"])
    return compare(scenario, evaluation.to_dict(), keys)


def report(name, scenarios, keys=COMPARED):
    """Print the agreement and return the first differences of every scenario that disagrees."""
    wrong = {scenario["id"]: found[:3] for scenario in scenarios if (found := differences(scenario, keys))}
    print(f"{name}: {len(scenarios) - len(wrong)} of {len(scenarios)} agree")  # noqa: T201 - the figures are part of what the test says
    return wrong


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_scenario_of_the_category_agrees_in_everything(category):
    assert report(category, load(category)) == {}


def test_required_inter_pod_affinity_agrees_in_everything_but_the_preferred_scores():
    assert report("interpod, without scores", load("interpod"), WITHOUT_SCORES) == {}


def test_every_quirk_of_a_modelled_plugin_agrees_in_everything():
    quirks = [scenario for scenario in load("quirks") if scenario["id"] not in NOT_MODELLED_YET]
    assert report("quirks", quirks) == {}
