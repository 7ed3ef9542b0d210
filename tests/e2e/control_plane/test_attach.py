"""The extender attaches to a real API server with exactly the shipped role, and a kube-scheduler calls it."""

from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.evictions import judge
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.service import Service


def test_kube_scheduler_filters_scores_preempts_and_binds_through_the_extender(plane):
    api = plane.api
    api.create(priority_class("high", 1000), *(node(f"n{i}", cpu="4") for i in range(5)))
    api.create(*(pod(f"low-{i}", cpu="3", node=f"n{i}") for i in range(5)))
    with (
        Service(plane, {"bind": {"enabled": True}}, roles=("bind",)) as service,
        CallRecorder(service.url) as recorder,
    ):
        scheduler = plane.start_scheduler({"extenders": [service.extender(recorder.url, bindVerb="bind")]})
        api.create(pod("small", cpu="500m"))
        api.wait_until(lambda: api.get("Pod", "small")["spec"].get("nodeName"), 20, "small to be bound")
        api.create(pod("urgent", cpu="3", priority_class="high"))
        api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "urgent to be bound")
        judgement = judge(plane.audit_events(), recorder.calls)
        assert (len(judgement.preemptions), judgement.evictions, judgement.unexplained) == (1, 1, [])
        assert judgement.faults == []
        assert {call.verb for call in recorder.calls} == {"filter", "prioritize", "preempt", "bind"}
        scheduler.stop()
