"""What simulate foretells is what then happens: the first FailedScheduling message, the node and the victims."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.evictions import judge_when_explained
from tests.e2e.control_plane.lab.objects import pod
from tests.e2e.control_plane.lab.service import Service

JSON = dict[str, Any]
GATE = [{"name": "example.com/gate"}]


@pytest.fixture(scope="module")
def cluster(plane):
    """Full nodes, and a kube-scheduler that lets the extender choose the victims."""
    plane.kubelet.deletion_seconds = 0.1
    kinds.create_cluster(plane.api)
    kinds.fill_nodes(plane.api, "fill")
    kinds.create_volumes(plane.api, "arrival", 1)
    return plane


@pytest.fixture(scope="module")
def service(cluster):
    with Service(cluster) as started:
        yield started


@pytest.fixture(scope="module")
def scheduler(cluster, service):
    return cluster.start_scheduler({"extenders": [service.extender()]})


def pods():
    """One pod of every kind, preemptors, and pods that cannot be scheduled, each for another reason."""
    made = [kinds.preemptor(i, "preemptor") for i in (0, 1, 3, 7, 11, 15, 19)]
    made += [kinds.arrival(i, "arrival") for i in range(len(kinds.KINDS))]

    def plain(name: str, cpu: str = "100m", priority_class: str = "standard", **spec: Any) -> None:
        made.append(pod(name, cpu, priority_class=priority_class, grace=1, **spec))

    absent = {"labelSelector": {"matchLabels": {"app": "absent"}}, "topologyKey": kinds.HOST}
    plain("too-large", "64", "critical")
    plain("patient", "3", "patient")
    plain("absent-label", nodeSelector={"absent": "x"})
    plain("absent-claim", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}])
    plain("absent-node", affinity=kinds.affinity_to_node("absent"))
    plain("absent-pod", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [absent]}})
    plain("one-full-node", "7", "low", affinity=kinds.affinity_to_node("n07"))
    plain("one-node-preempts", "3", "critical", affinity=kinds.affinity_to_node("n10"))
    plain("one-node-fits", "10m", "low", affinity=kinds.affinity_to_node("n01"), tolerations=[{"operator": "Exists"}])
    return made


PODS = {one["metadata"]["name"]: one for one in pods()}

NOMINATED = {
    # name -> affinity to node, nominated node, cpu, class, node selector
    "nominated-full": ("n12", "n12", "7", "low", {}),
    "nominated-preempts": ("n14", "n14", "3", "critical", {}),
    "nominated-elsewhere": ("n12", "n16", "5", "low", {}),
    "nominated-other-zone": ("n12", "n16", "5", "critical", {kinds.ZONE: "zone-q"}),
    "nominated-absent": ("n12", "absent", "7", "low", {}),
}
"""Pods with a PreFilterResult and a nominated node: kube-scheduler looks at that one first."""


@pytest.mark.parametrize("name", PODS)
def test_what_was_foretold_happens(cluster, service, scheduler, name):
    kinds.wait_for_cache(cluster.api, service)
    said = foretold(service, PODS[name])
    made = cluster.api.create(PODS[name])
    assert_it_happens(cluster, scheduler, made, said)


@pytest.mark.parametrize("name", NOMINATED)
def test_what_was_foretold_of_a_nominated_pod_happens(cluster, service, scheduler, name):
    """A gate holds the pod until it is nominated."""
    api = cluster.api
    only, nominated, cpu, priority_class, selector = NOMINATED[name]
    one = pod(name, cpu, priority_class=priority_class, affinity=kinds.affinity_to_node(only), nodeSelector=selector)
    made = api.create({**one, "spec": {**one["spec"], "schedulingGates": GATE}})
    api.patch_status("Pod", name, {"nominatedNodeName": nominated})
    kinds.wait_for_cache(api, service)
    # As it is stored, with its UID: from 1.37 on it is nominated despite the gate, once.
    asked = {**made, "spec": {**made["spec"], "schedulingGates": None}, "status": {"nominatedNodeName": nominated}}
    said = foretold(service, asked)
    api.patch("Pod", name, {"spec": {"schedulingGates": None}})
    assert_it_happens(cluster, scheduler, made, said)


def test_what_is_not_tried(cluster, service, scheduler):
    api = cluster.api
    gated, foreign = pod("gated", schedulingGates=GATE), pod("foreign", schedulerName="absent")
    kinds.wait_for_cache(api, service)
    said = [foretold(service, one)["cycles"] for one in (gated, foreign)]
    assert [(one["outcome"], one["message"]) for (one,) in said] == [
        ("Skipped", "not tried: waiting for scheduling gates: [example.com/gate]"),
        ("Skipped", 'not tried: not ours: no profile has schedulerName "absent"'),
    ]
    made = [api.create(one)["metadata"]["uid"] for one in (gated, foreign)]
    later = api.create(pod("later", "64"))["metadata"]["uid"]
    api.wait_until(lambda: events(api, later), 20, "the event of a pod that was created later")
    assert [events(api, uid) for uid in made] == [[], []]


def test_the_command_line_foretells_the_same(cluster, service, tmp_path):
    kinds.wait_for_cache(cluster.api, service)
    one = kinds.preemptor(2, "asked")
    said = foretold(service, one)
    assert said["evicted"]
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(one))
    argv = [sys.executable, "-m", "extender", "simulate", "--kubeconfig", service.kubeconfig,
            "--config", service.config_file, "--pod", file, "--no-replacements", "-o", "json"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["source"]["kind"] == "live"
    assert found == said


# --- what is said, and what happens


def foretold(service: Service, one: JSON) -> JSON:
    """Simulate the pod; no controllers run here that would replace evicted pods."""
    answer = service.admin_post("/simulate", {"pod": one, "replaceEvicted": False})
    assert answer.status_code == 200, answer.text
    return answer.json()


def assert_it_happens(cluster, scheduler, made, said):
    """Compare the first message, the victims and the node (or one of equal score)."""
    api, cycles = cluster.api, said["cycles"]
    about = made["metadata"]
    message = next((one["message"] for one in cycles if one["message"]), None)
    if message is not None:
        event = api.wait_until(lambda: events(api, about["uid"]), 20, "the event FailedScheduling")[0]
        assert event in failures(scheduler, about["name"])
    if said["pending"]:
        assert api.get("Pod", about["name"])["spec"].get("nodeName") is None
    else:
        bound = api.wait_until(lambda: api.get("Pod", about["name"])["spec"].get("nodeName"), 20, f"binding: {said}")
        last = cycles[-1]["score"] or {"ties": [cycles[-1]["node"]], "tied": 1}
        assert bound in last["ties"] or last["tied"] > len(last["ties"])
    assert next(iter(failures(scheduler, about["name"])), None) == message
    preemptions = judge_when_explained(cluster).preemptions
    evicted = {uid for one in preemptions if one.preemptor == about["uid"] for uid in one.victims}
    assert evicted == {one["uid"] for one in said["evicted"]}


def events(api, uid):
    """Messages of the pod's events FailedScheduling; attempts that follow at once share one, with the text of any."""
    found = api.list("v1/Event", "default", fieldSelector=f"involvedObject.uid={uid},reason=FailedScheduling")
    return [one["message"] for one in found]


def failures(scheduler, name):
    """What kube-scheduler says of each attempt that failed, in order."""
    line = rf'"Unable to schedule pod; no fit; waiting" pod="default/{name}" err=(".*")'
    return [json.loads(quoted) for quoted in re.findall(line, scheduler.log)]
