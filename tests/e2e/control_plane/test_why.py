"""`extender why` says what a real kube-scheduler wrote into its event, for pending pods of all kinds."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.core.preemption.eligibility import TERMINATING_POD_ON_NOMINATED_NODE
from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.evictions import judge_when_explained
from tests.e2e.control_plane.lab.pending_pods import create_what_they_name, not_tried_pods, pending_pods

JSON = dict[str, Any]
ROOT = Path(__file__).parents[3]

PENDING = [one["metadata"]["name"] for one in pending_pods()]
DOES_NOT_FIT, FITS_AFTER_PREEMPTION, NOT_TRIED, NOT_FOUND = 1, 3, 6, 5


@pytest.fixture(scope="module")
def cluster(plane):
    """Full nodes, pods that stay pending, and a kube-scheduler without an extender that has tried each once."""
    api = plane.api
    plane.kubelet.deletion_seconds = 0.1
    kinds.create_cluster(api)
    kinds.fill_nodes(api, "fill")
    create_what_they_name(api)
    kinds.wait_for_budgets(api)
    api.create(*pending_pods(), *not_tried_pods())
    plane.start_scheduler({})
    api.wait_until(lambda: failures(api).keys() == set(PENDING), 60, "an event of each pending pod")
    return plane


@pytest.fixture(scope="module")
def answers(cluster):
    """Name -> exit code and answer of `extender why NAME`: every fifth by a process, which takes two seconds."""
    names = [*PENDING, *(one["metadata"]["name"] for one in not_tried_pods())]
    asked = [why if number % 5 == 0 else why_in_process for number in range(len(names))]
    return {name: ask(cluster, f"default/{name}", "--all") for name, ask in zip(names, asked, strict=True)}


def why(cluster, *arguments: str, stdin: str = "") -> tuple[int, JSON]:
    """Run the command as a user with the administrator's kubeconfig does."""
    argv = [sys.executable, "-m", "extender", *words(cluster, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def why_in_process(cluster, *arguments: str) -> tuple[int, JSON]:
    """Run the command in this process."""
    done = CliRunner().invoke(cli.app, words(cluster, arguments))
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


def words(cluster, arguments: Sequence[str]) -> list[str]:
    return ["why", *arguments, "--kubeconfig", str(cluster.kubeconfig()), "-o", "json"]


def failures(api) -> dict[str, str]:
    """Return the pod of each event FailedScheduling -> its message."""
    found = api.list("v1/Event", "default", fieldSelector="reason=FailedScheduling")
    return {one["involvedObject"]["name"]: one["message"] for one in found}


def test_there_are_fifty_of_them():
    assert len(PENDING) >= 50


@pytest.mark.parametrize("name", PENDING)
def test_the_message_is_that_of_the_event(cluster, answers, name):
    code, said = answers[name]
    assert said["message"] == failures(cluster.api)[name]
    assert (code, said["state"], said["verdict"]) == (DOES_NOT_FIT, "Pending", "DoesNotFit")
    assert said["history"]["failedScheduling"]["message"] == said["message"]
    assert said["notEvaluated"] == []
    assert sum(one["code"] != "Success" for one in said["nodes"]) == len(said["nodes"]) == kinds.NODES


def test_what_kube_scheduler_does_not_try(cluster, answers):
    for name, state, words in (
        ("gated", "Gated", "example.com/first"),
        ("of-another", "NotOurs", "absent"),
        ("without-claim", "Gated", "absent"),
    ):
        code, said = answers[name]
        assert (code, said["state"], said["verdict"]) == (NOT_TRIED, state, "Unknown")
        assert words in said["why"]
        assert name not in failures(cluster.api)


def test_without_a_name_exactly_the_pending_pods_are_listed_with_the_causes_of_their_events(cluster):
    code, said = why(cluster)
    pods = {one["metadata"]["name"]: one for one in cluster.api.list("v1/Pod", "default")}
    waiting = {name for name, one in pods.items() if not one["spec"].get("nodeName")}
    listed = {one["pod"].removeprefix("default/"): one for one in said["pods"]}
    assert listed.keys() == waiting == {*PENDING, *(one["metadata"]["name"] for one in not_tried_pods())}
    assert code == DOES_NOT_FIT
    assert said["source"]["kind"] == "live"
    events = failures(cluster.api)
    for name, one in listed.items():
        assert one["state"] == ("Pending" if name in events else "NotOurs" if name == "of-another" else "Gated")
        conditions = {each["type"]: each for each in pods[name].get("status", {}).get("conditions") or ()}
        own = conditions.get("PodScheduled", {}).get("lastTransitionTime")
        assert one["since"] == (own or pods[name]["metadata"]["creationTimestamp"])
        if name in events:
            assert one["message"] == events[name]
            assert all(reason["reason"] in events[name] for reason in one["reasons"])
            assert one["preemption"] in ("NoRoom", "NotAllowed")
    assert sum(one["pods"] for one in said["causes"]) == len(listed)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_manifest_names_the_victims_of_a_preemption(cluster, number):
    """Before the pod exists: the node or one of equal cost, the victims and the budgets that it breaks."""
    api = cluster.api
    one = kinds.preemptor(
        number, "asked", priority_class="critical"
    )  # pending pods of a higher class would take the room
    code, said = why(cluster, "--pod", "-", stdin=json.dumps(one))
    assert (code, said["verdict"]) == (FITS_AFTER_PREEMPTION, "FitsAfterPreemption")
    uid = api.create(one)["metadata"]["uid"]
    name = one["metadata"]["name"]
    bound = api.wait_until(lambda: api.get("Pod", name)["spec"].get("nodeName"), 30, f"{name} to be bound")
    (done,) = [it for it in judge_when_explained(cluster).preemptions if it.preemptor == uid]
    preemption = said["preemption"]
    assert done.node == bound
    assert bound in preemption["ties"]
    assert bound != preemption["node"] or {it["uid"] for it in preemption["victims"]} == set(done.victims)
    message = api.wait_until(lambda: failures(api).get(name), 20, "the event FailedScheduling")
    filtered, _, _ = said["message"].partition(" preemption: ")
    first = said["message"].replace(f" node {preemption['node']},", f" node {bound},")  # of nodes of equal cost
    second = f"{filtered} preemption: {TERMINATING_POD_ON_NOMINATED_NODE}"
    assert message in (first, second)  # attempts that follow at once share one event, with the text of any
    code, placed = why(cluster, name, "-n", "default")
    assert (code, placed["state"], placed["placement"]["node"]) == (0, "Assigned", bound)


def test_an_evicted_pod_was_preempted_by_the_pod_that_runs_in_its_place(cluster):
    api = cluster.api
    one = kinds.preemptor(2, "winner", priority_class="critical")
    name, uid = one["metadata"]["name"], api.create(one)["metadata"]["uid"]
    bound = api.wait_until(lambda: api.get("Pod", name)["spec"].get("nodeName"), 30, f"{name} to be bound")
    evicted = api.wait_until(lambda: evicted_for(api, uid), 20, "an event Preempted")
    code, said = why(cluster, f"default/{evicted[0]}")
    assert (code, said["state"]) == (NOT_FOUND, "NotFound")
    by = said["history"]["preempted"]
    assert by["message"] == f"Preempted by pod {uid} on node {bound}"
    assert (by["node"], by["preemptorUID"], by["preemptor"]) == (bound, uid, f"default/{name}")
    assert (by["preemptorExists"], by["preemptorNode"], by["isRunning"]) == (True, bound, True)


def evicted_for(api, uid: str) -> list[str]:
    """Return the names of the pods that were evicted for a pod, by the events Preempted."""
    events = api.list("v1/Event", "default", fieldSelector="reason=Preempted")
    return [event["involvedObject"]["name"] for event in events if uid in event["message"]]
