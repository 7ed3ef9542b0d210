"""Which columns are followed while pods are put back, where that is not plain to see."""

import extender
from extender.core.filtering import judge, meet, run_filters
from extender.core.preemption import groups, taken_off
from extender.core.profile import Profile
from extender.core.reprieve import victims_of
from tests import reference
from tests.builders import built, cluster, incoming, node, pod, typed


def candidates(objects, waiting):
    found = extender.evaluate(objects, waiting).to_dict()["candidates"]
    assert found == reference.evaluate(objects, waiting)["candidates"]
    return {name: one["victims"] for name, one in found.items()}


def test_a_pod_that_asks_for_less_than_nothing_does_not_hide_what_runs_short_before_it_is_back():
    """All three leave 4 - (3 - 1 + 0) = 2 cores, which will do; but beside the first alone there is 1."""
    pods = [
        pod("first", priority=10, cpu="3", memory="1Gi"),
        pod("giver", priority=5, cpu="-1", memory="1Gi"),
        pod("last", priority=1, cpu="0", memory="2Gi"),
    ]
    here = cluster({node("n1", cpu="4", memory="4Gi"): pods})
    victims = [one["metadata"]["uid"] for one in pods if one["metadata"]["name"] != "giver"]
    assert candidates(here, incoming(cpu="2", memory="2Gi")) == {"n1": victims}


def test_where_the_pod_does_not_fit_even_on_the_emptied_node_nobody_is_a_victim():
    here = built(cluster({node("n1", cpu="2"): [pod("small", cpu="1"), pod("tiny", cpu="100m")]}))
    filtering = run_filters(meet(here, typed(incoming(cpu="4")), Profile()))
    grouped = groups(filtering.incoming)
    emptied = judge(filtering.checks, taken_off(filtering.checks, grouped.evictable), 1)
    assert grouped.evictable.mask.any()
    assert not victims_of(emptied, grouped.evictable, (grouped.violating, grouped.others)).any()
