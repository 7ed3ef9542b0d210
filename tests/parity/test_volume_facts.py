"""Facts about volumes in the scenarios that have many: without what they name, the plugin accepts every node."""

from collections import Counter

import pytest

from extender.config.scheduler.load import kube_scheduler_of
from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import node_volume_limits, volume_binding, volume_restrictions, volume_zone
from extender.report.facts.node_facts import facts_of_nodes
from tests.builders import typed
from tests.parity.agreement import load
from tests.parity.parity import NOW, Evaluated
from tests.parity.test_facts import explained, fresh, rejections
from tests.profiles import by_profile

PLUGINS = {volume_binding.NAME, volume_restrictions.NAME, volume_zone.NAME, node_volume_limits.NAME}
CATEGORIES = {
    "volumes": PLUGINS,
    "wide/volumes2": PLUGINS - {volume_zone.NAME},
    "v1.37/volumes37": {node_volume_limits.NAME},
}
"""Category -> plugins whose rejections it has."""


@pytest.mark.parametrize("category", CATEGORIES)
def test_facts_about_volumes_explain_every_node(category):
    unexplained, seen = list[object](), Counter[str]()
    for scenario in load(category, by_profile(24, 2, 1)):
        minor = category[1:5] if category.startswith("v1") else "1.36"
        scheduler = kube_scheduler_of(scenario.get("config") or {}, version=minor)
        pod = typed(scenario["pod"])
        profile = Evaluated.profile_of(scheduler.for_calls(), pod)
        evaluation = Evaluation(fresh(scenario, scheduler.features), pod, profile, NOW)
        of_node = facts_of_nodes(evaluation)
        for row, name, plugin in rejections(evaluation):
            if plugin in PLUGINS:
                seen[plugin] += 1
                still = explained(fresh(scenario, scheduler.features), pod, profile, name, plugin)
                if still or not of_node(row, plugin):
                    unexplained.append((scenario["id"], name, plugin, still))
    assert unexplained == []
    assert CATEGORIES[category] <= seen.keys(), seen
