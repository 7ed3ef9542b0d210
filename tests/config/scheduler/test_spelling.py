"""Names of plugins that are nearly those of in-tree plugins."""

import pytest

from extender.config.document import path_text
from extender.config.scheduler.check import find_misspelt_plugins
from extender.config.scheduler.schema import KubeSchedulerConfiguration


def found(profile):
    config = KubeSchedulerConfiguration.model_validate({"profiles": [{}, profile]})
    return [(path_text(one.path), one.message, one.advice) for one in find_misspelt_plugins(config)]


def test_a_misspelt_name_is_found_where_kube_scheduler_does_not_look_it_up():
    profile = {
        "plugins": {
            "score": {"enabled": [{"name": "NodeResourceFit"}]},  # kube-scheduler itself rejects it
            "multiPoint": {"disabled": [{"name": "ImageLocalty"}]},
        },
        "pluginConfig": [{"name": "podTopologySpread"}],
    }
    advice = "if {} is meant, correct the name"
    assert found(profile) == [
        (
            "profiles[1].plugins.multiPoint.disabled[0]",
            "ImageLocalty is not an in-tree plugin: nothing is disabled",
            advice.format("ImageLocality"),
        ),
        (
            "profiles[1].pluginConfig[0]",
            "podTopologySpread is not an in-tree plugin: its arguments have no effect here",
            advice.format("PodTopologySpread"),
        ),
    ]


OTHERS = (
    *("*", "NodeResourcesAllocatable", "Coscheduling", "CapacityScheduling", "TopologicalSort", "NetworkOverhead"),
    *("NodeResourceTopologyMatch", "PreemptionToleration", "LoadVariationRiskBalancing", "PodState", "EBSLimits"),
)


@pytest.mark.parametrize("name", OTHERS)
def test_plugins_of_others_are_not_taken_for_misspelt_ones(name):
    assert found({"plugins": {"filter": {"enabled": [{"name": name}], "disabled": [{"name": name}]}}}) == []
