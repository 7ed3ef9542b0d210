"""Events at a real API server: what kubectl shows beside kube-scheduler's own, its validation, and the permission."""

import subprocess

import pytest

from extender.cluster.apiserver.client import ApiServer
from extender.server.events.correlator import PATCH_INTERVAL_SECONDS
from extender.server.events.recorder import EventRecorder
from tests.builders import incoming
from tests.builders import node as built_node
from tests.builders import pod as built_pod
from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.deploy.manifests import KUBECTL, NO_KUBECTL
from tests.server.events.preemptions import answered

ENABLED = {"events": {"enabled": True}}
PROTECTED = {"preemption": {"protections": {"rules": [{"name": "all"}]}}}

EVENT = "events.k8s.io/v1/Event"
KUBE_SCHEDULERS = {"FailedScheduling", "Preempted"}
"""Reasons of kube-scheduler's own Events about a preemption, which it writes in the background."""
EXTENDER = "system:serviceaccount:kube-system:extender"


@pytest.fixture(scope="module")
def cluster(plane):
    plane.kubelet.deletion_seconds = 0.1
    plane.api.create(priority_class("high", 1000), node("n0", cpu="4"))
    plane.api.create_namespace("batch")
    return plane


@pytest.fixture
def full_node(cluster):
    """A pod of each namespace fills the only node."""
    cluster.api.create(*(pod(f"low-{name}", "2", node="n0", namespace=name, grace=1) for name in ("default", "batch")))
    yield
    kinds.clear_pods(cluster.api)
    for kind in ("Pod", "Event"):
        cluster.api.request("DELETE", cluster.api.path(kind, "batch"), {"gracePeriodSeconds": 0})
    cluster.api.wait_until(lambda: not cluster.api.list("Pod", "batch"), 20, "all pods to go")


def preempt(cluster, config, roles=(), is_done=lambda api: api.get("Pod", "urgent")["spec"].get("nodeName")):
    """Create a preemptor of the whole node and wait until it is done; return the extender's log."""
    with Service(cluster, config, roles=roles) as service:
        scheduler = cluster.start_scheduler({"extenders": [service.extender()]})
        cluster.api.create(pod("urgent", "4", priority_class="high", grace=1))
        cluster.api.wait_until(lambda: is_done(cluster.api), 30, "the preemptor to be done")
        scheduler.stop()
    return service.log


def own_events(api, namespace=None):
    """(reason, pod, note) of the extender's Events."""
    found = [one for one in api.list(EVENT, namespace) if one.get("reportingController") == "kube-scheduler-extender"]
    return sorted((one["reason"], one["regarding"]["name"], one["note"]) for one in found)


def reasons(api):
    """Reasons of all Events as the core API shows them."""
    return {one["reason"] for one in api.list("v1/Event")}


def test_by_default_no_event_is_written(cluster, full_node):
    preempt(cluster, {})
    assert own_events(cluster.api) == []
    assert [one for one in cluster.audit_events() if one.user == EXTENDER and one.resource == "events"] == []


def test_without_the_permission_pods_are_scheduled_and_the_log_names_it(cluster, full_node):
    log = preempt(cluster, ENABLED)
    assert "the permission to create and patch events of events.k8s.io" in log
    assert own_events(cluster.api) == []


def test_preemptor_and_victims_learn_of_the_preemption(cluster, full_node):
    api = cluster.api
    preempt(cluster, ENABLED, ("events",), lambda api: len(own_events(api)) == 3 and reasons(api) >= KUBE_SCHEDULERS)
    nominated, victim = own_events(api, "default")
    assert nominated == (
        "PreemptionNominated",
        "urgent",
        "Preempting on node n0, the only candidate; evicting default/low-default and 1 pod of other namespaces",
    )
    assert victim[:2] == ("PreemptionVictim", "low-default")
    assert victim[2].startswith("Chosen for eviction from node n0: pod default/urgent of priority 1000 takes the room")
    ((_, name, note),) = own_events(api, "batch")
    assert name == "low-batch"
    assert "a pod of another namespace of priority 1000 takes the room" in note
    assert reasons(api) >= {"PreemptionNominated", "PreemptionVictim"}, "the core API does not show them"


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_kubectl_describes_a_vetoed_pod_with_the_reason(cluster, full_node):
    preempt(cluster, ENABLED | PROTECTED, ("events",), lambda api: own_events(api))
    command = [KUBECTL, "--kubeconfig", cluster.kubeconfig(), "describe", "pod", "urgent"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = [line.split() for line in text.splitlines() if "PreemptionVetoed" in line]
    assert (line[0], line[3]) == ("Warning", "kube-scheduler-extender")
    assert " ".join(line[4:]) == "No pod is evicted: pods that policies protect are in the way on 1 node"


def test_the_api_server_takes_the_count_of_a_repetition_and_long_names(cluster):
    """In this process, where a minute passes at once."""
    now = 0.0
    api = ApiServer.connect(str(cluster.service_account_kubeconfig("kube-system", "extender")))
    events = EventRecorder(api, names_across_namespaces=False, clock=lambda: now)
    state = {built_node("n1", "1"): [built_pod("v" * 253, "1", priority=10, metadata={"uid": "v"})]}
    preemption = answered(state, incoming("p" * 253, metadata={"uid": "p"}))
    events.start()
    for number in (1, 2, 3):
        events.record(preemption)
        cluster.api.wait_until(lambda number=number: sum(events.counts.values()) == 2 * number, 10, "the Events")
        now += PATCH_INTERVAL_SECONDS
    events.stop()
    api.close()
    assert events.totals() == {"written": 6, "dropped": 0, "failed": 0}
    found = [one for one in cluster.api.list(EVENT, "default") if one["regarding"]["name"][:2] in ("vv", "pp")]
    assert [one["series"]["count"] for one in found] == [3, 3]


def test_the_role_is_what_events_need(cluster):
    """Last: what the tests before made the extender ask for."""
    done = {
        (one.group, one.resource, one.verb)
        for one in cluster.audit_events()
        if one.user == EXTENDER and one.resource == "events"
    }
    assert done == {("events.k8s.io", "events", "create"), ("events.k8s.io", "events", "patch")}
