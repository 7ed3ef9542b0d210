"""The body of POST /simulate in YAML: manifests as for kubectl, and one document with the keys of the JSON body."""

import json

import pytest

from extender.core.profile import KubeScheduler
from extender.errors import RequestError
from extender.whatif.body import decode_body
from extender.whatif.simulator import simulate
from tests.builders import incoming, node, snapshot

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers: [{name: main, image: "example.com/app:1", resources: {requests: {cpu: 010m}}}]
"""
DEPLOYMENT = """
kind: Deployment
apiVersion: apps/v1
metadata: {name: many}
spec: {replicas: 2, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {}}}
"""
NODE = "{kind: Node, apiVersion: v1, metadata: {name: extra}, status: {allocatable: {cpu: 4}}}"
BUDGET = "{kind: PodDisruptionBudget, apiVersion: policy/v1, metadata: {name: b}, spec: {}}"


def decoded(text):
    return decode_body(text.encode(), KubeScheduler(), is_yaml=True)[0]


def names(manifests):
    return [one.name[1] for one in manifests]


def test_documents_are_what_their_kind_says():
    found = decoded("---\n".join((POD, DEPLOYMENT, NODE + "\n", BUDGET + "\n", "{pending: true, drain: [n1]}\n")))
    assert (names(found.pods), names(found.workloads), names(found.claims)) == (["web"], ["many"], ["b"])
    assert [(one.node.name[1], one.count) for one in found.add_nodes] == [("extra", 1)]
    assert (found.pending, found.drain) == (True, ["n1"])


def test_a_kind_that_no_decision_reads_is_noted_and_a_misspelled_one_named_with_its_document():
    config = "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"
    found = simulate(snapshot({node("n1"): []}), KubeScheduler(), decoded(f"{POD}---\n{config}\n---\n{BUDGET}\n"))
    assert found.notes[-1:] == ["ignored, not used by any decision: 1 ConfigMap"]
    with pytest.raises(RequestError, match=r"the body, document 2: expected a ResourceClaim, .* not v1 pod"):
        decoded(POD + "---\n{kind: pod, apiVersion: v1, metadata: {name: a}}\n")


def test_scalars_are_those_of_kubectl():
    (pod,) = decoded(POD).pods
    assert pod.object["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "010m"


def test_a_json_body_is_yaml_too():
    body = {"pods": [incoming("new")], "drain": ["n1"]}
    assert names(decoded(json.dumps(body)).pods) == ["new"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([incoming("a"), incoming("b")]),
        json.dumps({"kind": "List", "items": [incoming("a"), {"metadata": {"name": "b"}}]}),
        "- {metadata: {name: a}}\n- {metadata: {name: b}}\n",
    ],
    ids=["an array", "a List", "a sequence"],
)
def test_several_pods_in_one_document(text):
    assert names(decoded(text).pods) == ["a", "b"]


def test_nodes_to_add_may_be_a_text():
    nodes = f"---\n{NODE}\n---\nmetadata: {{name: other}}\n"
    found = decoded(json.dumps({"addNodes": [{"node": nodes, "count": 3}]}))
    assert [(one.node.name[1], one.count) for one in found.add_nodes] == [("extra", 3), ("other", 3)]


def test_manifests_come_before_those_of_the_settings():
    found = decoded(POD + "---\n" + json.dumps({"pods": [incoming("second")]}))
    assert names(found.pods) == ["web", "second"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the body: the file is empty"),
        ("a: [", "the body: not YAML: "),
        ("3", "the body: document 1: expected object, got int"),
        ("{drain: [a]}\n---\n{cordon: [b]}\n", "the body: document 2 has no kind"),
        ("{drains: [a]}", "invalid body: object contains unknown field drains"),
        (POD + "---\n{pods: 3}", "invalid body: pods: expected a list"),
        ("a: &a [1]\nb: *a\nc: {d: &d [*a, *a], e: " + "[" * 120 + "]" * 120 + "}", "the body: "),
        ('{addNodes: [{node: "a: ["}]}', "addNodes: not YAML: "),
        ('{addNodes: [{node: "{kind: Pod, metadata: {name: p}}"}]}', "added node 1 of the request: expected a Node"),
    ],
)
def test_it_says_what_is_wrong_with(text, message):
    with pytest.raises(RequestError) as refused:
        decoded(text)
    assert str(refused.value).startswith(message)
