"""What decisions do not read is in no file of a recording; what they read, and the shape of requests, stays."""

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from extender.cluster.cache.cache import Change, ClusterCache
from extender.config import Configuration
from extender.core.profile import KubeScheduler, Profile
from extender.errors import RequestError
from extender.k8s.version.features import DEFAULT_FEATURES, Features
from extender.k8s.well_known import DO_NOT_DISRUPT
from extender.server.recording import redact
from extender.server.recording.lines import FORMAT, HEADER_DECODER, SegmentHeader, encode_line
from extender.server.replay import open_recording
from extender.server.settings import Loaded, Settings
from extender.wire.decode import decode_filter, decode_preempt
from tests.builders import stored_cluster
from tests.fakes.source import Live
from tests.server.conftest import CLUSTER, node, pod
from tests.server.recording.rig import Rig, everything_in

CANARY = "canary-5ecret"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def metadata(**more):
    return {
        "annotations": {LAST_APPLIED: CANARY, "example.com/token": CANARY, DO_NOT_DISRUPT: "true"},
        "managedFields": [{"manager": CANARY}],
        "finalizers": [CANARY],
    } | more


PROBE = {"httpGet": {"path": f"/{CANARY}", "httpHeaders": [{"name": "Authorization", "value": CANARY}]}}
CONTAINER = {
    "name": "app",
    "image": "shop/app:1",
    "command": ["sh", "-c", CANARY],
    "args": [f"--password={CANARY}"],
    "env": [{"name": "TOKEN", "value": CANARY}],
    "envFrom": [{"secretRef": {"name": CANARY}}],
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "lifecycle": {"preStop": {"exec": {"command": [CANARY]}}},
    "resources": {"requests": {"cpu": "1"}},
}
TEMPLATE = {"volumeClaimTemplate": {"metadata": {"annotations": {"example.com/token": CANARY}}, "spec": {}}}
VOLUMES = [
    {"name": "token", "projected": {"sources": [{"secret": {"name": CANARY}}]}},
    {"name": "csi", "csi": {"driver": "d", "volumeAttributes": {"password": CANARY}}},
    {"name": "scratch", "ephemeral": TEMPLATE},
    {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i", "keyring": CANARY, "secretRef": {"name": CANARY}}},
]


def telling(name, **given):
    """A pod full of confidential fields."""
    plain = pod(name, **given)
    spec = {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "ephemeralContainers": [CONTAINER],
        "volumes": VOLUMES,
        "imagePullSecrets": [{"name": CANARY}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": [CANARY]}],
        "unheardOf": {"of": CANARY},
    }
    status = {"message": CANARY, "conditions": [{"type": "Ready", "status": "True", "message": CANARY}]}
    status["containerStatuses"] = [{"name": "app", "state": {"terminated": {"message": CANARY}}}]
    return plain | {
        "metadata": plain["metadata"] | metadata(),
        "spec": plain["spec"] | spec,
        "status": plain["status"] | status,
    }


def telling_node(name):
    status = {"nodeInfo": {"machineID": CANARY}, "addresses": [{"address": CANARY}], "config": {"error": CANARY}}
    plain = node(name)
    return plain | {"metadata": {"name": name} | metadata(), "status": plain["status"] | status}


OTHERS = [
    {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"} | metadata(),
        "spec": {"csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"password": CANARY}}},
    },
    {"kind": "Namespace", "metadata": {"name": "shop"} | metadata()},
    {
        "kind": "StorageClass",
        "metadata": {"name": "fast"} | metadata(),
        "provisioner": "d",
        "parameters": {"k": CANARY},
    },
    {"kind": "Service", "metadata": {"name": "s", "namespace": "shop"} | metadata(), "spec": {"externalName": CANARY}},
    {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "r", "namespace": "shop"} | metadata()},
    {"kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"k": CANARY}},
]


def test_a_canary_is_in_no_file_of_a_recording(tmp_path):
    nodes = [telling_node("worker-1"), telling_node("worker-2")]
    running = [telling("small", on="worker-1", priority=10), telling("large", on="worker-2", cpu="3", priority=10)]
    items = [*nodes, *running, *OTHERS]
    cache = ClusterCache()
    cache.replace(stored_cluster({"kind": "List", "items": items}))
    rig = Rig(tmp_path, cache, Live())
    urgent = telling("urgent", cpu="4", priority=100)
    urgent["spec"]["containers"] = [CONTAINER | {"resources": {"requests": {"cpu": "3"}}}]
    urgent["spec"]["volumes"] = [volume for volume in VOLUMES if volume["name"] != "scratch"]
    victims = {"worker-1": {"Pods": [running[0]], "NumPDBViolations": 0, "Secret": CANARY}}
    rig.recorder.start()
    names = {"Pod": urgent, "Nodes": None, "NodeNames": ["worker-1"], "Secret": CANARY}
    whole = {"Pod": urgent, "Nodes": {"metadata": {"continue": CANARY}, "items": nodes}, "NodeNames": None}
    rig.ask("filter", names)
    rig.ask("prioritize", whole)
    rig.ask("filter", whole | {"pod": CANARY})
    rig.ask("filter", names | {"Pod": telling("waiting")})
    rig.ask("preempt", {"Pod": urgent, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None})
    changed = stored_cluster(
        {"kind": "List", "items": [telling("new", on="worker-2"), telling_node("worker-3"), *OTHERS]}
    )
    for kind, objects in (("Pod", changed.pods), ("Node", changed.nodes), ("PersistentVolume", changed.volumes)):
        for one in objects:
            cache.apply(
                Change(kind, msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, uid="n")))
            )
    rig.ask("filter", whole)
    rig.replays("filter", "prioritize", "filter", "filter", "preempt", "filter")
    found = everything_in(tmp_path)
    assert len(found) == 3
    assert [name for name, data in found.items() if CANARY.encode() in data] == []
    calls = next(data for name, data in found.items() if name.endswith("calls.jsonl"))
    assert calls.count(b'"type":"put"') == 6  # the preemptor, the victim, what changed, and the victim again
    assert all(DO_NOT_DISRUPT.encode() in data for name, data in found.items() if not name.endswith("settings.json"))


# --- requests ---------------------------------------------------------------------------------------------------------


def redacted_request(verb: str, body: bytes, annotations: frozenset[str] = frozenset()) -> bytes:
    return bytes(redact.redact_request(verb, Raw(body), annotations))


POD = '{"metadata":{"name":"p","uid":"u","x":1},"spec":{"x":1}}'
SLIM = '{"metadata":{"name":"p","uid":"u"},"spec":{}}'


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        pytest.param(
            f'{{"Pod":{POD},"Nodes":null,"NodeNames":["a","b"]}}',
            f'{{"Pod":{SLIM},"Nodes":null,"NodeNames":["a","b"]}}',
            id="names, and null for the form that is not used",
        ),
        pytest.param(
            f' {{ "nodenames" : ["a"], "POD" : {POD} }} ',
            f'{{"nodenames":["a"],"POD":{SLIM}}}',
            id="keys keep their spelling and order",
        ),
        pytest.param(
            f'{{"pod":{{"a":1}},"Pod":{POD},"nodeNames":["no"],"NodeNames":["a"],"Other":1}}',
            f'{{"Pod":{SLIM},"NodeNames":["a"]}}',
            id="keys that are not read are left out",
        ),
        pytest.param(
            f'{{"Pod":{POD},"Pod":{POD},"nodenames":7,"NODENAMES":["a"]}}',
            f'{{"Pod":{SLIM},"NODENAMES":["a"]}}',
            id="of several spellings the last one is read",
        ),
        pytest.param(
            f'{{"Pod":{POD},"Nodes":{{"metadata":{{"resourceVersion":"7","continue":"x"}},'
            f'"items":[{{"metadata":{{"name":"a","x":1}},"status":{{"allocatable":{{"cpu":"1"}},"x":1}}}}]}}}}',
            f'{{"Pod":{SLIM},"Nodes":{{"metadata":{{"resourceVersion":"7"}},'
            f'"items":[{{"metadata":{{"name":"a"}},"status":{{"allocatable":{{"cpu":"1"}}}}}}]}}}}',
            id="whole nodes keep what decisions read of nodes",
        ),
        pytest.param(
            f'{{"Pod":{POD},"Nodes":{{"items":[{{"metadata":{{"name":"a","labels":7}},"status":"odd"}}],"Items":1}}}}',
            f'{{"Pod":{SLIM},"Nodes":{{"items":[{{"metadata":{{"name":"a"}}}}]}}}}',
            id="of a node that is none the name stays",
        ),
        pytest.param(
            f'{{"Pod":{POD},"Nodes":{{"metadata":null,"items":null}}}}',
            f'{{"Pod":{SLIM},"Nodes":{{"metadata":null,"items":null}}}}',
            id="no nodes",
        ),
    ],
)
def test_a_filter_request_is_redacted_and_can_be_read_as_before(body, kept):
    redacted = redacted_request("filter", body.encode())
    assert redacted == kept.encode()
    before, after = decode_filter(body.encode()), decode_filter(redacted)
    assert (after.pod, after.nodes, after.has_whole_nodes) == (before.pod, before.nodes, before.has_whole_nodes)
    assert redacted_request("filter", redacted) == redacted


@pytest.mark.parametrize(
    ("victims", "kept"),
    [
        pytest.param(
            '"NodeNameToVictims":null,"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"u","x":1}],"NumPDBViolations":2}}',
            '"NodeNameToVictims":null,"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}',
            id="UIDs",
        ),
        pytest.param(
            '"nodenametometavictims":{"b":{"pods":[{"uid":"u","x":1}]},"a":{"PODS":null,"numpdbviolations":1,"x":2}}',
            '"nodenametometavictims":{"b":{"pods":[{"uid":"u"}]},"a":{"PODS":null,"numpdbviolations":1}}',
            id="UIDs with keys in any spelling",
        ),
        pytest.param(
            f'"NodeNameToVictims":{{"b":{{"Pods":[{POD}],"NumPDBViolations":0}}}}',
            f'"NodeNameToVictims":{{"b":{{"Pods":[{SLIM}],"NumPDBViolations":0}}}}',
            id="whole pods keep what decisions read of pods",
        ),
        pytest.param(
            '"NodeNameToVictims":{"b":{"Pods":[{"metadata":{"uid":"u"},"spec":{"priority":"high"}}],"NumPDBViolations":0}}',
            '"NodeNameToVictims":{"b":{"Pods":[{"metadata":{"uid":"u"}}],"NumPDBViolations":0}}',
            id="of a pod that is none the UID stays",
        ),
    ],
)
def test_a_preempt_request_is_redacted_and_can_be_read_as_before(victims, kept):
    body, wanted = f'{{"Pod":{POD},{victims}}}', f'{{"Pod":{SLIM},{kept}}}'
    redacted = redacted_request("preempt", body.encode())
    assert redacted == wanted.encode()
    before, after = decode_preempt(body.encode()), decode_preempt(redacted)
    assert after == before
    assert list(after.sent) == list(before.sent)
    assert redacted_request("preempt", redacted) == redacted


@pytest.mark.parametrize("body", [b'{"Pod":null,"NodeNames":[]}', b'{"Pod":{},"NodeNames":7}', b"[]", b"7"])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(RequestError):
        decode_filter(body)
    with pytest.raises(ValueError, match=r".*"):
        redacted_request("filter", body)


def test_annotations_of_the_policies_stay():
    body = b'{"Pod":{"metadata":{"annotations":{"shop/cost":"5","shop/token":"x"}}},"NodeNames":[]}'
    assert b"shop" not in redacted_request("filter", body)
    kept = json.loads(redacted_request("filter", body, frozenset({"shop/cost"})))
    assert kept["Pod"]["metadata"] == {"annotations": {"shop/cost": "5"}}


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
@pytest.mark.parametrize("body", [b'{"Error":"no"}', b"[]", b'{"Nodes":null,"NodeNames":["a"],"FailedNodes":{}}'])
def test_an_answer_without_whole_nodes_stays_as_it_is(verb, body):
    assert bytes(redact.redact_answer(verb, Raw(body))) == body


def test_nodes_are_redacted_in_an_answer_as_in_its_request():
    odd = [{"metadata": {"name": "a", "annotations": {"x": "y"}}}, {"metadata": {"name": "b"}, "spec": 7}]
    raw = [msgspec.json.encode(one) for one in odd]
    nodes = {"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [Raw(one) for one in raw]}
    request = msgspec.json.encode({"Pod": {"metadata": {}}, "Nodes": nodes})
    answer = {"Nodes": nodes, "NodeNames": None, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}
    of_request = msgspec.json.decode(redacted_request("filter", request), type=dict[str, Raw])["Nodes"]
    of_answer = msgspec.json.decode(
        redact.redact_answer("filter", Raw(msgspec.json.encode(answer))), type=dict[str, Raw]
    )["Nodes"]
    assert bytes(of_request) == bytes(of_answer)
    assert b"annotations" not in bytes(of_answer)


# --- settings ---------------------------------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "scheduler": {
        "version": "1.33.2",
        "emulatedVersion": "1.32",
        "featureGates": {"PodLevelResources": True},
        "percentageOfNodesToScore": 30,
        "profiles": [
            {
                "schedulerName": "a",
                "plugins": {
                    "preEnqueue": {"enabled": [{"name": "Gate"}], "disabled": [{"name": "SchedulingGates"}]},
                    "preFilter": {"disabled": [{"name": "NodePorts"}]},
                    "filter": {"enabled": [{"name": "Labels"}], "disabled": [{"name": "NodePorts"}]},
                    "postFilter": {"enabled": [{"name": "Reclaim"}], "disabled": [{"name": "*"}]},
                    "preScore": {"disabled": [{"name": "TaintToleration"}]},
                    "score": {"enabled": [{"name": "Load"}], "disabled": [{"name": "TaintToleration"}]},
                },
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "ignoredResources": ["example.com/b", "example.com/a"],
                            "ignoredResourceGroups": ["example.org"],
                            "scoringStrategy": {
                                "type": "RequestedToCapacityRatio",
                                "resources": [{"name": "memory", "weight": 3}],
                                "requestedToCapacityRatio": {
                                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                                },
                            },
                        },
                    },
                    {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "cpu", "weight": 1}]}},
                    {
                        "name": "InterPodAffinity",
                        "args": {"hardPodAffinityWeight": 9, "ignorePreferredTermsOfExistingPods": True},
                    },
                    {
                        "name": "NodeAffinity",
                        "args": {
                            "addedAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
                                    ]
                                },
                                "preferredDuringSchedulingIgnoredDuringExecution": [
                                    {
                                        "weight": 5,
                                        "preference": {
                                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
                                        },
                                    }
                                ],
                            }
                        },
                    },
                    {
                        "name": "PodTopologySpread",
                        "args": {
                            "defaultingType": "List",
                            "defaultConstraints": [
                                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                            ],
                        },
                    },
                    {
                        "name": "DefaultPreemption",
                        "args": {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 7},
                    },
                ],
            },
            {"schedulerName": "b"},
        ],
    },
    "preemption": {
        "preset": "strict",
        "emptySelector": "Everything",
        "importance": ["QoSClass", "Priority"],
        "ranking": ["PodGroups", "VictimCount"],
        "evictionCostAnnotation": "shop/cost",
        "protections": {
            "builtin": {"preemptionToleration": True, "tenantLabel": "team"},
            "rules": [
                {
                    "name": "everything",
                    "namespaces": ["b", "a"],
                    "selector": {
                        "matchLabels": {"app": "x"},
                        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b", "a"]}],
                    },
                    "priorityClasses": ["high"],
                    "ownerKinds": ["Job"],
                    "annotations": ["shop/keep=yes"],
                    "minRuntime": "1m30s",
                    "unlessPriorityAtLeast": 5,
                },
            ],
        },
        "minPendingDuration": "7s",
        "limits": {
            "maxVictims": 3,
            "evictionsPerMinute": 4,
            "evictionsPerMinutePerNamespace": 2,
            "workloadCooldown": "1m",
            "maxAttempts": 5,
            "attemptsWithin": "2m",
        },
        "onFailure": "Veto",
    },
    "mode": "Observe",
    "killSwitch": {"enabled": True, "preempt": "PassThrough"},
}


SAME_AS_BY_DEFAULT = [
    "has_second_document",
    "other_extenders",
    "volume_binding_shape",
    "binding_timeout",
    "keep_candidates",
]
"""Second documents and other extenders are not recorded. The shape may be set only with StorageCapacityScoring, which
1.33 cannot have on beside everything else, and bindingTimeout from 1.36 on."""


def read_back(settings):
    return HEADER_DECODER.decode(encode_line(SegmentHeader(FORMAT, "1", settings))).settings


@pytest.mark.parametrize("preset", ["upstream", "careful", "strict"])
def test_settings_are_read_back_as_they_were(preset):
    settings = Loaded.from_config(Configuration.model_validate({"preemption": {"preset": preset}})).settings()
    assert read_back(settings) == settings


def test_settings_with_everything_set_are_read_back_as_they_were():
    settings = Loaded.from_config(Configuration.model_validate(EVERYTHING)).settings()
    assert read_back(settings) == settings
    assert encode_line(settings) == encode_line(read_back(settings))


def test_everything_is_set_there():
    """A lost field would go unnoticed if it had its default; keepCandidates has to be 1 there."""
    settings, plain = Loaded.from_config(Configuration.model_validate(EVERYTHING)).settings(), Settings(KubeScheduler())
    profile, default = settings.scheduler.profiles[0], plain.scheduler.profiles[0]
    pairs: list[tuple[Any, Any]] = [
        (settings, plain),
        (settings.scheduler, plain.scheduler),
        (profile, default),
        (profile.preemption, default.preemption),
        (profile.preemption.limits, default.preemption.limits),
    ]
    same = [
        field.name
        for one, other in pairs
        for field in dataclasses.fields(one)
        if getattr(one, field.name) == getattr(other, field.name)
    ]
    assert same == SAME_AS_BY_DEFAULT
    rule = profile.preemption.protections[-1]
    defaults = {field.name: field.default for field in dataclasses.fields(rule) if field.name != "name"}
    assert [name for name, default in defaults.items() if getattr(rule, name) == default] == []


def test_every_switch_of_a_version_is_read_back():
    turned = Features(**{one.name: not getattr(DEFAULT_FEATURES, one.name) for one in dataclasses.fields(Features)})
    settings = Settings(KubeScheduler(features=turned, minor=29, version_source="image tag v1.29.1", patch=1))
    assert read_back(settings) == settings


def test_other_kept_candidates_are_read_back_too(tmp_path):
    settings = Settings(KubeScheduler((Profile(keep_candidates=None),)))
    assert read_back(settings) == settings


def test_a_recording_says_which_version_made_it(tmp_path):
    rig = Rig(tmp_path)
    rig.recorder.start()
    rig.ask("filter", {"Pod": pod("a"), "NodeNames": ["worker-1"]})
    rig.recorder.stop()
    assert len(open_recording(tmp_path).versions()) == 1
    assert len(CLUSTER["items"]) == 5
