"""What the API server sends is decoded to what plain msgspec makes of it, equal parts shared, and checked once."""

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

import extender
from extender.cluster.watch import decode as decoding
from extender.cluster.watch import interning
from extender.cluster.watch.decode import KEPT_ANNOTATIONS, KEPT_GENERATIONS, kept_conditions
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS, ClusterObjects
from extender.k8s.objects import ObjectMeta, Pod, Volume
from extender.k8s.well_known import POD_ANNOTATIONS
from tests.parity.agreement import CATEGORIES, CORPUS
from tests.profiles import by_profile

Decoder: Any = decoding.Decoder  # what it decodes is of as many types as there are kinds

RECORDINGS = sorted((Path(__file__).parents[2] / "contract" / "recordings").glob("*/cluster/*.json.gz"))
CLAIMED = {"name": "data", "persistentVolumeClaim": {"claimName": "shop"}}
RECORDED = {kind.lower() + ending: kind for kind in KINDS for ending in ("s", "es")}


def full_pod(number=0, *, uid=True, annotations=None, spec=None, status=None, **metadata):
    """As a kubelet leaves it; what is different in each pod of a ReplicaSet is made of `number`."""
    token, started = f"kube-api-access-{number:05}", f"2026-11-21T10:{number % 60:02}:00Z"
    mount = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": token, "readOnly": True}
    needs = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "512Mi"}}
    container = {"name": "app", "image": "registry.example.com/shop:1.4.2", "resources": needs, "volumeMounts": [mount]}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-7d9f", "uid": "r1", "controller": True}
    condition = {"lastProbeTime": None, "lastTransitionTime": started, "status": "True", "type": "Ready"}
    state = {"name": "app", "containerID": f"containerd://{number:064}", "resources": needs, "ready": True}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"shop-7d9f-{number:05}",
            "namespace": "shop",
            **({"uid": f"uid-{number}"} if uid else {}),
            "resourceVersion": str(1000 + number),
            "generation": 1,
            "creationTimestamp": started,
            "labels": {"app": "shop", "pod-template-hash": "7d9f"},
            "annotations": {"example.com/checksum": f"{number:016}"} | (annotations or {}),
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kubelet", "time": started, "fieldsV1": {"f:status": {}}}],
        }
        | metadata,
        "spec": {
            "nodeName": "worker-1",
            "schedulerName": "default-scheduler",
            "priority": 1000,
            "terminationGracePeriodSeconds": 30,
            "priorityClassName": "tier-high",
            "nodeSelector": {"disk": "ssd"},
            "containers": [container],
            "initContainers": [container | {"name": "migrate"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "affinity": {"podAntiAffinity": {}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
            "volumes": [{"name": token, "projected": {}}, CLAIMED],
        }
        | (spec or {}),
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": started,
            "conditions": [condition],
            "containerStatuses": [state],
            "initContainerStatuses": [state | {"name": "migrate"}],
        }
        | (status or {}),
    }


def decoded(one, kind="Pod"):
    return Decoder(kind).decode(json.dumps(one).encode())


def plain(raw, kind):
    """What plain msgspec makes of it, without what `decode` says that it leaves out."""
    whole: Any = msgspec.json.decode(raw, type=KINDS[kind].type)
    kept = {k: v for k, v in (whole.metadata.annotations or {}).items() if k in KEPT_ANNOTATIONS.get(kind, ())}
    replace = msgspec.structs.replace
    if isinstance(whole, Pod):
        read = [volume for volume in whole.spec.volumes or () if volume != Volume(name=volume.name)]
        status = replace(whole.status, conditions=kept_conditions(whole))
        whole = replace(whole, spec=replace(whole.spec, volumes=read or None), status=status)
    generation = whole.metadata.generation if kind in KEPT_GENERATIONS else 0
    about = replace(whole.metadata, annotations=kept or None, generation=generation)
    if kind == "ResourceSlice":
        about = ObjectMeta(about.name, uid=about.uid, resource_version=about.resource_version)
    if kind == "ResourceClaim":
        about = replace(about, labels=None, creation_timestamp=None)
    return replace(whole, metadata=about)


# --- the same objects -----------------------------------------------------------------------------------------------


class Items(msgspec.Struct):
    items: list[msgspec.Raw]


class Scenario(msgspec.Struct):
    cluster: Items
    pod: msgspec.Raw


class Head(msgspec.Struct):
    kind: str


def scenarios(category, count):
    """The first `count` of it."""
    with gzip.open(CORPUS / f"{category}.jsonl.gz") as lines:
        return [msgspec.json.decode(line, type=Scenario) for line in islice(lines, count)]


def by_kind(scenario):
    found: dict[str, list[Any]] = {}
    for raw in scenario.cluster.items:
        found.setdefault(msgspec.json.decode(raw, type=Head).kind, []).append(raw)
    return found


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_objects_of_the_corpus_are_decoded_to_the_same(category):
    decoders = {kind: Decoder(kind) for kind in KINDS}
    for scenario in scenarios(category, by_profile(15, 150, 150)):
        for kind, raws in by_kind(scenario).items():
            for raw in raws:
                assert decoders[kind].decode(raw) == plain(raw, kind)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parts[-3]}-{path.name.split('.')[0]}")
def test_what_a_real_api_server_sent_is_decoded_to_the_same(path):
    decoders = {kind: Decoder(kind) for kind in KINDS}
    found = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=dict[str, list[msgspec.Raw]])
    for plural, raws in found.items():
        kind = RECORDED[plural]
        for raw in raws:
            assert decoders[kind].decode(raw) == plain(raw, kind)


def test_every_kind_can_be_decoded():
    for kind in KINDS:
        raw = b'{"metadata": {"name": "a", "uid": "u", "labels": {"b": "c"}}}'
        assert Decoder(kind).decode(raw) == plain(raw, kind)


def test_a_full_pod_is_decoded_to_the_same():
    raw = json.dumps(full_pod()).encode()
    assert Decoder("Pod").decode(raw) == Decoder("Pod").decode(msgspec.Raw(raw)) == plain(raw, "Pod")


def test_some_scenarios_hold_what_is_left_out():
    assert any(
        Decoder(kind).decode(raw) != msgspec.json.decode(raw, type=KINDS[kind].type)
        for scenario in scenarios("volumes", 25)
        for kind, raws in by_kind(scenario).items()
        for raw in raws
    )


@pytest.mark.parametrize("category", CATEGORIES[:: by_profile(2, 1, 1)])
def test_what_is_left_out_changes_no_verdict_score_or_victim(category):
    decoders = {kind: Decoder(kind) for kind in KINDS}
    for number, scenario in enumerate(scenarios(category, 25)):
        found: dict[str, Any] = {}
        whole: dict[str, Any] = {}
        for kind, raws in by_kind(scenario).items():
            found[KINDS[kind].field] = tuple(map(decoders[kind].decode, raws))
            whole[KINDS[kind].field] = tuple(msgspec.json.decode(raw, type=KINDS[kind].type) for raw in raws)
        if found == whole and number >= by_profile(3, 8, 25):
            continue  # nothing is left out of it: equal objects were decided on often enough
        answers = [
            extender.evaluate(Snapshot.build(ClusterObjects(**objects)), msgspec.json.decode(scenario.pod, type=Pod))
            for objects in (found, whole)
        ]
        assert answers[0].to_dict() == answers[1].to_dict()


# --- what is left out -----------------------------------------------------------------------------------------------


def test_the_mark_of_a_mirror_pod_is_kept_and_no_other_annotation():
    mark = {"kubernetes.io/config.mirror": "4f0a1d22"}
    assert decoded(full_pod(annotations=mark)).metadata.annotations == mark
    assert decoded(full_pod()).metadata.annotations is None


def test_an_empty_mark_is_a_mark():
    assert decoded(full_pod(annotations={"kubernetes.io/config.mirror": ""})).metadata.annotations is not None


@pytest.mark.parametrize("kind", KEPT_ANNOTATIONS)
def test_annotations_that_decisions_read_are_kept_of(kind):
    marks = dict.fromkeys(sorted(KEPT_ANNOTATIONS[kind]), "yes")
    one = {"metadata": {"name": "a", "uid": "u", "annotations": marks | {"example.com/other": "no"}}}
    assert decoded(one, kind).metadata.annotations == marks


def test_annotations_that_are_asked_for_are_kept_too():
    marks = {"example.com/keep": "yes", "kubernetes.io/config.mirror": "4f0a1d22"}
    pod = json.dumps(full_pod(annotations=marks | {"example.com/other": "no"})).encode()
    assert Decoder("Pod", frozenset({"example.com/keep"})).decode(pod).metadata.annotations == marks


def test_the_annotations_of_other_tools_are_kept_of_every_pod():
    marks = dict.fromkeys(POD_ANNOTATIONS, "true")
    assert len(marks) == 7
    assert decoded(full_pod(annotations=marks)).metadata.annotations == marks


def test_a_generation_is_kept_of_pods_and_disruption_budgets_only():
    metadata = {"name": "a", "uid": "u", "generation": 7}
    assert decoded(full_pod(generation=7)).metadata.generation == 7
    assert decoded({"metadata": metadata}, "ReplicaSet").metadata.generation == 0
    budget = decoded({"metadata": metadata, "status": {"observedGeneration": 6}}, "PodDisruptionBudget")
    assert (budget.metadata.generation, budget.status.observed_generation) == (7, 6)


def test_volumes_without_a_source_that_is_read_are_left_out():
    assert [volume.name for volume in decoded(full_pod()).spec.volumes] == ["data"]
    token = {"name": "kube-api-access-abcde", "projected": {}}
    assert decoded(full_pod(spec={"volumes": [token]})).spec.volumes is None


# --- sharing --------------------------------------------------------------------------------------------------------

SHARED = {
    "metadata": ("namespace", "labels", "annotations", "owner_references"),
    "spec": (
        "node_name",
        "node_selector",
        "containers",
        "init_containers",
        "tolerations",
        "affinity",
        "volumes",
        "topology_spread_constraints",
        "scheduler_name",
        "priority_class_name",
        "scheduling_group",
    ),
    "status": ("phase", "qos_class", "conditions", "container_statuses", "init_container_statuses"),
}


@pytest.mark.parametrize(("part", "field"), [(part, field) for part, fields in SHARED.items() for field in fields])
def test_pods_of_one_template_share(part, field):
    decoder = Decoder("Pod")
    marks, group = {"karpenter.sh/do-not-disrupt": "true"}, {"schedulingGroup": {"podGroupName": "train"}}
    one, other = (
        decoder.decode(json.dumps(full_pod(number, annotations=marks, spec=group)).encode()) for number in (1, 2)
    )
    assert getattr(getattr(one, part), field) is getattr(getattr(other, part), field)
    assert getattr(getattr(one, part), field)


def test_pods_of_one_template_differ_in_what_is_their_own():
    decoder = Decoder("Pod")
    one, other = (decoder.decode(json.dumps(full_pod(number)).encode()) for number in (1, 2))
    assert (one.metadata.name, one.metadata.uid, one.metadata.resource_version) == ("shop-7d9f-00001", "uid-1", "1001")
    assert (other.metadata.name, other.metadata.uid) == ("shop-7d9f-00002", "uid-2")
    assert one.status.start_time == "2026-11-21T10:01:00Z"
    assert other.status.start_time == other.metadata.creation_timestamp == "2026-11-21T10:02:00Z"


@pytest.mark.parametrize(
    "own",
    [
        {"spec": {"nodeName": "worker-2"}},
        {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]}},
        {"spec": {"affinity": {"podAffinity": {}}}},
        {"labels": {"app": "shop", "apps.kubernetes.io/pod-index": "1"}},
        {"status": {"nominatedNodeName": "worker-2"}},
        {"spec": {"schedulingGroup": {"podGroupName": "train"}}},
        {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}},
    ],
    ids=["node", "claim", "affinity", "labels", "nomination", "group", "annotations"],
)
def test_containers_are_shared_although_the_pods_differ_in_their(own):
    decoder = Decoder("Pod")
    one, other = (decoder.decode(json.dumps(pod).encode()) for pod in (full_pod(1), full_pod(2, **own)))
    assert one != other
    assert one.spec.containers is other.spec.containers
    assert one.status.container_statuses is other.status.container_statuses


def test_pods_of_one_template_are_ready_or_not_each_for_itself():
    decoder = Decoder("Pod")
    unready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T10:00:00Z"}]}
    one, two, three = (
        decoder.decode(json.dumps(pod).encode())
        for pod in (full_pod(1), full_pod(2, status=unready), full_pod(3, status=unready))
    )
    assert [one.is_ready, two.is_ready, three.is_ready] == [True, False, False]
    assert two.status.conditions is three.status.conditions
    assert one.spec.containers is two.spec.containers


def test_a_kubelet_that_says_the_same_at_another_time_says_nothing_new():
    decoder = Decoder("Pod")
    later = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z", "observedGeneration": 2}
    one, other = (
        decoder.decode(json.dumps(pod).encode()) for pod in (full_pod(1), full_pod(2, status={"conditions": [later]}))
    )
    assert one.status.conditions is other.status.conditions


def test_no_conditions_and_an_empty_list_are_not_mixed_up():
    decoder = Decoder("Pod")
    kept: list[list[str] | None] = [[], None, [], None]
    found = [
        decoder.decode(json.dumps(full_pod(number, status={"conditions": conditions})).encode()).status.conditions
        for number, conditions in enumerate(kept)
    ]
    assert found == kept


@pytest.mark.parametrize("annotations", [None, {"example.com/note": "x"}], ids=["no annotations", "annotations"])
def test_the_message_of_a_failed_pod_is_kept_whatever_its_annotations(annotations):
    failed = full_pod(status={"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"})
    failed["metadata"]["annotations"] = annotations
    status = decoded(failed).status
    assert (status.reason, status.message) == ("OutOfcpu", "Pod was rejected")


def test_only_a_failed_pod_keeps_its_message():
    assert decoded(full_pod(status={"phase": "Running", "message": "x" * 1000})).status.message == ""


def test_failed_pods_share_all_but_their_messages():
    decoder, main = Decoder("Pod"), [{"name": "main", "allocatedResources": {"cpu": "1"}}]
    one, other = (
        decoder.decode(json.dumps(full_pod(number, status=status | {"message": f"of pod {number}"})).encode()).status
        for number in (1, 2)
        for status in [{"phase": "Failed", "reason": "Evicted", "containerStatuses": main}]
    )
    assert one.container_statuses is other.container_statuses
    assert (one.message, other.message) == ("of pod 1", "of pod 2")


def test_what_is_written_alike_but_means_something_else_is_not_mixed_up():
    decoder = Decoder("Pod")
    alike = [{"name": "a"}]
    pod = decoder.decode(
        json.dumps(
            full_pod(
                ownerReferences=alike,
                spec={"containers": alike, "resourceClaims": alike, "schedulingGates": alike, "volumes": alike},
                status={"containerStatuses": alike, "initContainerStatuses": alike},
            )
        ).encode()
    )
    held = (pod.metadata.owner_references, pod.spec.containers, pod.spec.resource_claims, pod.status.container_statuses)
    names = ["OwnerReference", "Container", "PodResourceClaim", "ContainerStatus"]
    assert [type(part[0]).__name__ for part in held] == names


def node(number):
    images = [{"names": [f"registry.example.com/app@sha256:{image:064}"], "sizeBytes": image} for image in range(40)]
    return {
        "metadata": {"name": f"worker-{number}", "labels": {"kubernetes.io/hostname": f"worker-{number}"}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}, "images": images[number:]},
    }


def test_nodes_share_their_images_although_no_two_hold_the_same_set():
    decoder = Decoder("Node")
    one, other = (decoder.decode(json.dumps(node(number)).encode()) for number in (0, 1))
    assert len(one.status.images) == 40
    assert all(a is b for a, b in zip(one.status.images[1:], other.status.images, strict=True))
    assert one.status.allocatable is other.status.allocatable


@pytest.mark.slow
def test_a_template_is_still_shared_after_thousands_of_others():
    decoder = Decoder("Pod")
    first = decoder.decode(json.dumps(full_pod(0)).encode())
    for number in range(1, 4000):
        other = full_pod(number, labels={"job": f"report-{number}"})
        other["spec"]["containers"][0]["image"] = f"registry.example.com/report:{number}"
        decoder.decode(json.dumps(other).encode())
        if number % 500 == 0:
            again = decoder.decode(json.dumps(full_pod(number)).encode())
            assert again.spec.containers is first.spec.containers
            assert again.metadata.labels is first.metadata.labels


def test_what_is_remembered_is_bounded_however_different_the_pods_are(monkeypatch):
    monkeypatch.setattr(interning, "MAX_INTERNED_VALUES", 10)
    decoder = Decoder("Pod")
    for number in range(200):
        name = f"job-{number}"
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": name}]}}
        own = {"nodeName": name, "overhead": {name: "1"}, "affinity": affinity}
        decoder.decode(json.dumps(full_pod(number, labels={"job": name}, spec=own, status={"phase": name})).encode())
    tables = decoder._pools.values()
    assert len(tables) > 1
    assert all(len(table._recent) <= 10 and len(table._previous) <= 10 for table in tables)


def test_H4_what_is_remembered_is_bounded_in_bytes_however_long_it_is(monkeypatch):
    monkeypatch.setattr(interning, "MAX_INTERNED_BYTES", 10_000)
    pool = interning.InternPool()
    for number in range(100):
        pool.text(f"{number}-" + "x" * 3000)
    assert 3 <= len(pool._recent) + len(pool._previous) <= 6
    assert sum(map(len, pool._recent)) == pool._recent_bytes <= 10_000


# --- what is refused ------------------------------------------------------------------------------------------------

WRONG = {
    "a name that is missing": (full_pod(name=""), "metadata.name is missing"),
    "a uid that is missing": (full_pod(uid=False), "metadata.uid is missing"),
    "metadata that is null": (full_pod() | {"metadata": None}, "expected object, got null at $.metadata"),
    "a spec that is a list": (full_pod() | {"spec": []}, "expected object, got array at $.spec"),
    "a priority that is text": (
        full_pod(spec={"priority": "high"}),
        "expected int | null, got str at $.spec.priority",
    ),
    "a label that is a number": (full_pod(labels={"a": 1}), "expected str, got int at $.metadata.labels[...]"),
    "an image that is a number": (
        full_pod(spec={"containers": [{"image": 1}]}),
        "expected str, got int at $.spec.containers[0].image",
    ),
    "a toleration that is text": (
        full_pod(spec={"tolerations": ["all"]}),
        "expected object, got str at $.spec.tolerations[0]",
    ),
    "a start time that is not a time": (
        full_pod(status={"startTime": "today"}),
        "expected a time such as 2026-01-31T08:00:00Z, got 'today' at $.status.startTime",
    ),
}


@pytest.mark.parametrize(("pod", "sentence"), WRONG.values(), ids=WRONG)
def test_the_sentence_names_the_field_of(pod, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole sentence is compared
        decoded(pod)
    assert str(caught.value) == sentence


ODD = {"requests": {"cpu": "1x"}}
AMOUNTS = {
    "spec.containers[0].resources.requests.cpu": {"spec": {"containers": [{"name": "app", "resources": ODD}]}},
    "spec.initContainers[0].resources.requests.cpu": {"spec": {"initContainers": [{"resources": ODD}]}},
    "spec.resources.requests.cpu": {"spec": {"resources": ODD}},
    "spec.overhead.cpu": {"spec": {"overhead": {"cpu": "1x"}}},
    "status.containerStatuses[0].resources.requests.cpu": {"status": {"containerStatuses": [{"resources": ODD}]}},
    "status.containerStatuses[0].allocatedResources.cpu": {
        "status": {"containerStatuses": [{"allocatedResources": {"cpu": "1x"}}]}
    },
    "status.initContainerStatuses[0].resources.requests.cpu": {
        "status": {"initContainerStatuses": [{"resources": ODD}]}
    },
    "status.resources.requests.cpu": {"status": {"resources": ODD}},
    "status.allocatedResources.cpu": {"status": {"allocatedResources": {"cpu": "1x"}}},
}


@pytest.mark.parametrize(("path", "odd"), AMOUNTS.items(), ids=AMOUNTS)
def test_an_amount_that_does_not_parse_is_refused_every_time_it_comes_in(path, odd):
    decoder = Decoder("Pod")
    decoder.decode(json.dumps(full_pod(1)).encode())
    for number in (2, 3):
        with pytest.raises(ValueError, match="is not a quantity") as caught:
            decoder.decode(json.dumps(full_pod(number, **odd)).encode())
        assert str(caught.value).endswith(f" at $.{path}")


def test_what_stood_as_a_label_is_no_quantity_yet():
    decoder = Decoder("Pod")
    decoder.decode(json.dumps(full_pod(1, labels={"cpu": "1x"}, spec={"nodeSelector": {"cpu": "1x"}})).encode())
    with pytest.raises(ValueError, match=r"\$\.spec\.overhead\.cpu"):
        decoder.decode(json.dumps(full_pod(2, spec={"overhead": {"cpu": "1x"}})).encode())


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        ("Node", {"status": {"allocatable": {"cpu": "1x"}}}, "$.status.allocatable.cpu"),
        ("PersistentVolume", {"spec": {"capacity": {"storage": "1x"}}}, "$.spec.capacity.storage"),
        ("CSIStorageCapacity", {"capacity": "1x"}, "$.capacity"),
    ],
)
def test_amounts_of_other_kinds_are_checked_too(kind, fields, path):
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        decoded({"metadata": {"name": "a"}} | fields, kind)
    assert str(caught.value).endswith(f" at {path}")


def test_a_name_of_another_kind_is_checked_too():
    with pytest.raises(ValueError, match=r"^metadata\.name is missing$"):
        decoded({"metadata": {}}, "Node")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"metadata": {"name": "\xff"}}'])
def test_what_is_no_object_is_a_value_error(raw):
    with pytest.raises(ValueError):  # noqa: PT011 any sentence will do
        Decoder("Pod").decode(raw)


@pytest.mark.parametrize("field", ["managedFields", "labels"])
def test_what_is_nested_too_deeply_is_a_value_error(field):
    raw = b'{"metadata": {"name": "a", "uid": "u", "%s": %s}}' % (field.encode(), b"[" * 999_999 + b"]" * 999_999)
    with pytest.raises(ValueError, match=r"nested too deeply|expected object \| null, got array"):
        Decoder("Pod").decode(raw)


@pytest.mark.parametrize("amount", ["9" * 25, "1e300", "0.5", "-1", "null", '"0"'])
def test_amounts_that_are_numbers_are_decoded_as_they_are_elsewhere(amount):
    pod = json.dumps(full_pod()).replace('"250m"', amount).encode()
    assert Decoder("Pod").decode(pod) == plain(pod, "Pod")


def test_a_decoder_goes_on_after_what_it_has_refused():
    decoder = Decoder("Pod")
    with pytest.raises(ValueError, match="missing"):
        decoder.decode(b'{"metadata": {}}')
    raw = json.dumps(full_pod()).encode()
    assert decoder.decode(raw) == plain(raw, "Pod")


# --- events, in one pass --------------------------------------------------------------------------------------------


def line(one, type_="MODIFIED"):
    return json.dumps({"type": type_, "object": one}, separators=(",", ":")).encode()


def after(one, changed, decoder=None):
    """(the pod before, the pod that an event makes of it)."""
    decoder = decoder or Decoder("Pod")
    before = decoder.decode(json.dumps(one).encode())
    _, found = decoder.decode_event(line(changed), {("shop", before.metadata.name): before}.get)
    return before, found


MARK = {"kubernetes.io/config.mirror": "4f0a1d22"}
LATER: dict[str, Any] = {"resourceVersion": "2000"}
OTHER_SPEC: dict[str, Any] = LATER | {"generation": 2}

CHANGED = {
    "nothing": LATER,
    "labels": LATER | {"labels": {"app": "other"}},
    "no labels": LATER | {"labels": None},
    "a mark": LATER | {"annotations": MARK},
    "owners": LATER | {"ownerReferences": None},
    "leaving": LATER | {"deletionTimestamp": "2026-11-21T11:00:00Z"},
    "the node": OTHER_SPEC | {"spec": {"nodeName": "worker-2"}},
    "the containers": OTHER_SPEC | {"spec": {"containers": [{"name": "app", "image": "registry.example.com/shop:2"}]}},
    "a volume": OTHER_SPEC | {"spec": {"volumes": [CLAIMED | {"name": "more"}]}},
    "the phase": LATER | {"status": {"phase": "Succeeded"}},
    "its readiness": LATER | {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "its start": LATER | {"status": {"startTime": "2026-11-21T12:00:00Z"}},
    "its creation": LATER | {"creationTimestamp": "2026-11-21T12:00:00Z"},
    "its uid": LATER | {"uid": False, "name": "shop-7d9f-00000", "annotations": None},
}


@pytest.mark.parametrize("what", CHANGED)
def test_an_event_is_decoded_to_what_the_object_alone_is_whatever_changed(what):
    changed = full_pod(**CHANGED[what])
    if what == "its uid":
        changed["metadata"]["uid"] = "another"
    before, found = after(full_pod(), changed)
    assert found == Decoder("Pod").decode(json.dumps(changed).encode()) != before
    assert type(found) is Pod


@pytest.mark.parametrize("what", ["nothing", "labels", "a mark", "owners", "leaving"])
def test_what_an_event_does_not_change_stays_the_very_same(what):
    before, found = after(full_pod(), full_pod(**CHANGED[what]))
    assert found.spec is before.spec
    assert found.status is before.status
    assert found.metadata.name is before.metadata.name
    assert found.metadata.labels is before.metadata.labels or what == "labels"


def unread(generation):
    """Return a pod whose spec fails a decoder that reads it."""
    return full_pod(generation=generation, spec={"priority": "high"}, **LATER)


def test_the_spec_of_the_same_generation_is_not_read():
    before, found = after(full_pod(), unread(1))
    assert found.spec is before.spec
    assert found.metadata.resource_version == "2000"


@pytest.mark.parametrize(
    ("one", "changed"),
    [
        (full_pod(), unread(2)),
        (full_pod(generation=0), unread(0)),
        (full_pod(spec={"nodeName": ""}), unread(1)),
        (full_pod(), full_pod(spec={"priority": "high", "nodeName": "worker-2"}, **LATER)),
        (full_pod(), full_pod(spec={"priority": "high", "nodeName": 'say "nodeName":"worker-1"'}, **LATER)),
        (full_pod(uid=False) | {"metadata": full_pod()["metadata"] | {"uid": "another"}}, unread(1)),
    ],
    ids=[
        "another generation",
        "no generation",
        "not bound before",
        "bound elsewhere",
        "a text that looks like the node",
        "another pod",
    ],
)
def test_the_spec_is_read_wherever_it_may_be_another(one, changed):
    decoder = Decoder("Pod")
    before = decoder.decode(json.dumps(one).encode())
    held = {("shop", before.metadata.name): before}.get
    assert decoder.decode_event(line(changed), held) is None
    assert decoder.decode_event(line(full_pod(generation=changed["metadata"]["generation"])), held) is not None


def test_an_event_that_binds_a_pod_counts_no_generation():
    before, found = after(full_pod(spec={"nodeName": ""}), full_pod(**LATER))
    assert (before.spec.node_name, found.spec.node_name) == ("", "worker-1")


def test_a_token_of_another_name_is_no_change():
    changed = full_pod(**OTHER_SPEC)
    changed["spec"]["volumes"][0]["name"] = "kube-api-access-other"
    before, found = after(full_pod(), changed)
    assert found.spec is before.spec


def test_an_event_of_a_pod_that_is_not_held_is_decoded_too():
    raw = json.dumps(full_pod()).encode()
    assert Decoder("Pod").decode_event(line(full_pod(), "ADDED"), {}.get) == ("ADDED", plain(raw, "Pod"))


def test_an_event_of_every_kind_is_decoded_to_the_same():
    for kind, about in KINDS.items():
        one = {"kind": kind.partition(".")[0], "metadata": {"name": "a", "uid": "u", "labels": {"b": "c"}}}
        found = Decoder(kind).decode_event(line(one), {}.get)
        assert found == ("MODIFIED", plain(json.dumps(one), kind))
        assert type(found[1]) is about.type


@pytest.mark.parametrize("category", CATEGORIES)
def test_events_of_the_corpus_are_decoded_to_the_same(category):
    decoders = {kind: Decoder(kind) for kind in KINDS}
    for scenario in scenarios(category, by_profile(20, 50, 150)):
        for kind, raws in by_kind(scenario).items():
            for raw in raws:
                sent = b'{"type": "ADDED", "object": ' + bytes(raw) + b"}"
                assert decoders[kind].decode_event(sent, {}.get) == ("ADDED", plain(raw, kind))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        line(None),
        line({"kind": "Status", "code": 410}, "ERROR"),
        line({"kind": "Pod", "metadata": {"resourceVersion": "7"}}, "BOOKMARK"),
        line(full_pod() | {"kind": "Node"}),
        line(full_pod() | {"metadata": None}),
        line(full_pod(uid=False)),
        line(full_pod(generation=2, spec={"priority": "high"})),
        line(full_pod(generation=2, spec={"overhead": {"cpu": "much"}})),
        line(full_pod(status={"startTime": "yesterday"})),
        b'{"type": "ADDED", "object": ' + b"[" * 999_999 + b"]" * 999_999 + b"}",
    ],
    ids=[
        "empty",
        "cut",
        "null",
        "an error",
        "a bookmark",
        "wrong kind",
        "no metadata",
        "no uid",
        "no number",
        "no quantity",
        "no time",
        "too deep",
    ],
)
def test_C13_what_is_no_event_of_a_readable_object_is_left_to_be_looked_at_part_by_part(sent):
    decoder = Decoder("Pod")
    before = decoder.decode(json.dumps(full_pod()).encode())
    assert decoder.decode_event(sent, {("shop", before.metadata.name): before}.get) is None
