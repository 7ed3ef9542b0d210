"""Preemptions without the extender and with it: the same nodes and victims, and no more evictions."""

from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.evictions import judge_when_explained
from tests.e2e.control_plane.lab.service import Service

PREEMPTORS = 28


def run(plane, extenders):
    """Preempt on full nodes, one pod after the other; return what became of each, by names."""
    api = plane.api
    kinds.fill_nodes(api, "fill")
    scheduler = plane.start_scheduler({"extenders": extenders})
    names: dict[str, str] = {}
    bound: dict[str, str | None] = {}
    for i in range(PREEMPTORS):
        names |= {one["metadata"]["uid"]: one["metadata"]["name"] for one in kinds.wait_for_budgets(api)}
        made = api.create(kinds.preemptor(i, "preemptor"))["metadata"]
        bound[made["uid"]] = kinds.settle(api, made["name"])["spec"].get("nodeName")
        if not bound[made["uid"]]:
            api.delete("Pod", made["name"], grace=0)
    preemptions = judge_when_explained(plane).preemptions
    scheduler.stop()
    kinds.clear_pods(api)
    evicted: dict[str, set[str]] = {uid: set() for uid in bound}
    for one in preemptions:
        if one.preemptor in evicted:  # not of the run before
            evicted[one.preemptor] |= {names[uid] for uid in one.victims}
    return [(f"preemptor-{i}", bound[uid], evicted[uid]) for i, uid in enumerate(bound)]


def test_placements_and_victims_are_the_same(plane):
    """All start times differ, so that no two candidates are equal and kube-scheduler never draws."""
    plane.kubelet.deletion_seconds = 0.1
    kinds.create_cluster(plane.api)
    without = run(plane, [])
    with Service(plane, {"bind": {"enabled": True}}, roles=("bind",)) as service:
        with_it = run(plane, [service.extender(bindVerb="bind")])
    assert sum(1 for _, _, evicted in without if evicted) >= 25
    assert with_it == without
