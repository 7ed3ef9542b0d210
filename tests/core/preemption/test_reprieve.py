"""Which columns are followed while pods are put back, where that is not plain to see."""

import extender
from extender.core.framework.filter import evaluate_constraints, run_filter_plugins, scheduling_context
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.reprieve import reprieve
from extender.core.profile import Profile
from extender.k8s.storage.volumes import BIND_COMPLETED
from tests.builders import built, cluster, incoming, node, pod, thing, typed
from tests.parity import reference


def candidates(objects, waiting):
    found = extender.evaluate(objects, waiting, version=reference.VERSION).to_dict()["candidates"]
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


def test_what_pods_take_of_a_device_is_theirs_also_where_not_all_nodes_are_looked_at():
    """The first node needs no eviction: what its pod takes is not in the columns of the others."""

    def takes(name, count, priority):
        return pod(name, "0", priority=priority, requests={"example.com/gpu": count})

    four = {"example.com/gpu": "4"}
    here = cluster(
        {
            node("roomy", allocatable=four): [takes("elsewhere", "1", 9)],
            node("full", allocatable=four): [takes("wide", "2", 9), takes("small", "1", 5), takes("tiny", "1", 1)],
        }
    )
    waiting = incoming(requests={"example.com/gpu": "2"})
    assert candidates(here, waiting) == {"full": ["uid-small", "uid-tiny"]}


def test_a_pod_comes_back_only_where_that_will_do_beside_the_nominated_pods_too():
    """The node may have three volumes: one is for the pod and one for another that is expected here."""
    driver = "csi.example.com"

    def mounts(claim):
        return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}

    bound = {"annotations": {BIND_COMPLETED: "yes"}}
    claims = {f"claim-{number}": f"volume-{number}" for number in range(4)}
    others = [
        thing("CSINode", "n1", spec={"drivers": [{"name": driver, "nodeID": "1", "allocatable": {"count": 3}}]}),
        *(thing("PersistentVolume", v, spec={"csi": {"driver": driver, "volumeHandle": v}}) for v in claims.values()),
        *(
            thing("PersistentVolumeClaim", claim, namespace="default", metadata=bound, spec={"volumeName": v})
            for claim, v in claims.items()
        ),
    ]
    running = [pod("first", "1", priority=10, **mounts("claim-0")), pod("second", "1", priority=1, **mounts("claim-1"))]
    expected = incoming("expected", "0", priority=2000, status={"nominatedNodeName": "n1"}, **mounts("claim-2"))
    here = cluster({node("n1"): running}, waiting=[expected], others=others)
    assert candidates(here, incoming(**mounts("claim-3"))) == {"n1": ["uid-second"]}


def test_where_the_pod_does_not_fit_even_on_the_emptied_node_there_is_no_victim():
    here = built(cluster({node("n1", cpu="2"): [pod("small", cpu="1"), pod("tiny", cpu="100m")]}))
    filter_run = run_filter_plugins(scheduling_context(here, typed(incoming(cpu="4")), Profile()))
    grouped = potential_victims(filter_run.context)
    emptied = evaluate_constraints(filter_run.checks, 1, grouped.evictable)
    assert grouped.evictable.mask.any()
    assert not reprieve(emptied, grouped.evictable, (grouped.violating, grouped.non_violating)).any()
