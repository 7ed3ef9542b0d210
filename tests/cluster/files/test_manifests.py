"""Every form in which a cluster comes is read to the same objects, and what is wrong is named with its place."""

import gzip
import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import extender
from extender.cluster.files import manifests
from extender.cluster.files.manifests import example_cluster, load_cluster, read_cluster
from extender.cluster.files.reading import Contents
from extender.errors import ClusterFileError
from extender.k8s.kinds import ClusterObjects
from tests.profiles import by_profile

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
    "spec": {"nodeName": "n1", "priority": 5, "containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
    "status": {"startTime": "2026-01-31T08:00:00Z"},
}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "shop"}}
ITEMS = [NODE, POD, BUDGET]
LIST = {"apiVersion": "v1", "kind": "List", "items": ITEMS}
EXPECTED = load_cluster(LIST)


def pod(name="web", *, spec=None, status=None, **metadata):
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def cluster(*items):
    return {"kind": "List", "items": list(items)}


# --- forms ----------------------------------------------------------------------------------------------------------

FORMS = {
    "a JSON List": ("c.json", json.dumps(LIST)),
    "an indented JSON List": ("c.json", json.dumps(LIST, indent=4) + "\n"),
    "a YAML List": ("c.yaml", yaml.safe_dump(LIST)),
    "JSON in a .yaml file": ("c.yaml", json.dumps(LIST)),
    "flow-style YAML that begins like JSON": ("c.yaml", yaml.safe_dump(LIST, default_flow_style=True)),
    "a file without a suffix": ("cluster", json.dumps(LIST)),
    "YAML without a suffix": ("cluster", yaml.safe_dump(LIST)),
    "several YAML documents": ("c.yml", yaml.safe_dump_all(ITEMS)),
    "YAML documents with an empty one between": ("c.yml", "---\n---\n".join(yaml.safe_dump(item) for item in ITEMS)),
    "several JSON values one after another": ("c.json", "\n".join(json.dumps(item, indent=1) for item in ITEMS)),
    "several Lists one after another": ("c.json", "".join(json.dumps(cluster(item)) for item in ITEMS)),
    "a byte order mark": ("c.json", "\ufeff" + json.dumps(LIST)),
    "typed lists whose items have no kind": (
        "c.json",
        "".join(
            json.dumps({"kind": f"{item['kind']}List", "apiVersion": item["apiVersion"], "items": [bare]})
            for item in ITEMS
            for bare in [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")}]
        ),
    ),
}


@pytest.mark.parametrize(("name", "text"), FORMS.values(), ids=FORMS)
def test_the_same_objects_come_from(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert load_cluster(tmp_path / name) == EXPECTED


@pytest.mark.parametrize(
    "text", ['{"kind": "Node", "metadata": {"name": "a", "uid": "u",}, # why\n "spec": {"unschedulable": yes}}']
)
def test_a_json_file_that_only_yaml_allows_is_read_as_kubectl_reads_it(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    [found] = load_cluster(tmp_path / "c.json").nodes
    assert (found.metadata.name, found.spec.unschedulable) == ("a", True)


@pytest.mark.parametrize(("name", "text"), FORMS.values(), ids=FORMS)
def test_the_same_objects_come_gzipped_from(tmp_path, name, text):
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert load_cluster(str(tmp_path / f"{name}.gz")) == EXPECTED


def test_utf_16_as_powershell_writes_it_is_read(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(LIST), encoding="utf-16")
    assert load_cluster(tmp_path / "c.json") == EXPECTED


def test_a_directory_is_merged_by_name_and_other_files_are_not_looked_at(tmp_path):
    (tmp_path / "1-nodes.json").write_text(json.dumps(NODE))
    (tmp_path / "2-pods.yml.gz").write_bytes(gzip.compress(yaml.safe_dump(POD).encode()))
    (tmp_path / "3-budgets.yaml").write_text(yaml.safe_dump(BUDGET))
    (tmp_path / "README.txt").write_text("not: [a cluster")
    (tmp_path / ".3-budgets.yaml").write_text("an editor's: [copy")
    assert load_cluster(tmp_path) == EXPECTED


def test_objects_that_were_loaded_already_are_returned_as_they_are():
    assert load_cluster(EXPECTED) is EXPECTED


def test_listing_order_is_kept():
    names = ["b", "c", "a"]
    loaded = load_cluster(cluster(*(pod(name) for name in names)))
    assert [one.metadata.name for one in loaded.pods] == names


def test_an_explicitly_empty_list_is_an_empty_cluster():
    assert load_cluster({"kind": "List", "items": []}) == ClusterObjects()
    assert load_cluster({"kind": "PodList", "items": None}) == ClusterObjects()


def test_kinds_that_no_decision_reads_are_left_out_and_counted():
    secret = {"kind": "Secret", "metadata": {"name": "s"}}
    foreign = {"kind": "Node", "apiVersion": "management.cattle.io/v3", "metadata": {"name": "n1"}}
    report = read_cluster(cluster(NODE, secret, secret, foreign))
    assert len(report.objects.nodes) == 1
    assert report.skipped_kinds == {"Secret": 2, "Node.management.cattle.io": 1}


# --- two kinds of one name ------------------------------------------------------------------------------------------

NATIVE = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "train"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}
FOREIGN = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"minMember": 5},
}


def minimums(objects):
    """Return the minimums of Kubernetes' own pod groups, and of those of scheduler-plugins."""
    return [[one.minimum for one in of] for of in (objects.pod_groups, objects.coscheduling_groups)]


def test_pod_groups_are_told_apart_by_their_api_group():
    loaded = load_cluster(cluster(NATIVE, FOREIGN))
    assert minimums(loaded) == [[3], [5]]
    assert {one.metadata.namespace for one in (*loaded.pod_groups, *loaded.coscheduling_groups)} == {"default"}


@pytest.mark.parametrize("api_version", ["scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1"])
def test_pod_groups_in_a_typed_list_are_those_of_the_list(api_version):
    item = {"metadata": {"name": "train", "uid": "u"}, "spec": {"minMember": 5}}
    loaded = load_cluster({"kind": "PodGroupList", "apiVersion": api_version, "items": [item]})
    assert [len(loaded.pod_groups), len(loaded.coscheduling_groups)] == (
        [1, 0] if "x-k8s" not in api_version else [0, 1]
    )


def test_pod_groups_of_other_schedulers_are_left_out_and_counted():
    report = read_cluster(cluster(NATIVE, FOREIGN | {"apiVersion": "scheduling.volcano.sh/v1beta1"}))
    assert minimums(report.objects) == [[3], []]
    assert report.skipped_kinds == {"PodGroup.scheduling.volcano.sh": 1}


def test_annotations_are_kept_as_they_are_whatever_is_configured():
    marks = {"karpenter.sh/do-not-disrupt": "true", "shop/keep": "yes"}
    assert load_cluster(pod(annotations=marks)).pods[0].metadata.annotations == marks


# --- what YAML makes of values --------------------------------------------------------------------------------------


def yaml_pod(tmp_path, text, field="pods"):
    (tmp_path / "c.yaml").write_text(text)
    return getattr(load_cluster(tmp_path / "c.yaml"), field)[0]


def test_an_unquoted_time_in_yaml_stays_the_text_that_it_is(tmp_path):
    found = yaml_pod(tmp_path, "kind: Pod\nmetadata: {name: a, uid: u}\nstatus: {startTime: 2026-01-31T08:00:00Z}")
    assert found.status.start_time == "2026-01-31T08:00:00Z"


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0.1", 0.1), ("2", 2), ("1e3", 1000), ("500m", "500m"), ("'010'", "010"), ("010", 8), ("1.50", 1.5)],
)
def test_an_unquoted_quantity_in_yaml_is_the_number_that_kubectl_reads(tmp_path, text, amount):
    found = yaml_pod(tmp_path, f"kind: Pod\nmetadata: {{name: a, uid: u}}\nspec: {{overhead: {{cpu: {text}}}}}")
    assert found.spec.overhead == {"cpu": amount}


@pytest.mark.parametrize("word", ["yes", "on", "TRUE", "y"])
def test_yaml_1_1_words_are_booleans(tmp_path, word):
    found = yaml_pod(tmp_path, f"kind: Node\nmetadata: {{name: a}}\nspec: {{unschedulable: {word}}}", "nodes")
    assert found.spec.unschedulable is True


def test_a_plain_y_or_n_is_text_in_an_object_that_an_api_server_stored(tmp_path):
    found = yaml_pod(tmp_path, "kind: Pod\nmetadata: {name: y, uid: n, labels: {axis: Y}}\nspec: {nodeName: N}")
    assert (found.metadata.name, found.metadata.uid, found.metadata.labels) == ("y", "n", {"axis": "Y"})
    assert type(found.metadata.name) is str


@pytest.mark.parametrize("value", ["no", "on", "y", "1e3", "010", "1.10"])
def test_a_label_that_is_no_text_is_refused_as_by_an_api_server(tmp_path, value):
    with pytest.raises(
        ClusterFileError, match=r"c.yaml: Pod a is invalid: metadata.labels\[it\]: expected a string, got"
    ):
        yaml_pod(tmp_path, f"kind: Pod\nmetadata: {{name: a, labels: {{it: {value}}}}}")


def test_times_and_numbers_to_base_60_are_text(tmp_path):
    found = yaml_pod(tmp_path, "kind: Pod\nmetadata: {name: a, uid: u, labels: {at: 12:30, day: 2026-01-31, 1: one}}")
    assert found.metadata.labels == {"at": "12:30", "day": "2026-01-31", "1": "one"}


# --- defaults -------------------------------------------------------------------------------------------------------


def test_hand_written_pods_get_a_namespace_and_a_uid():
    [found] = load_cluster({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}).pods
    assert (found.metadata.namespace, found.metadata.uid) == ("default", "default/a")


def test_a_budget_without_a_namespace_is_in_default():
    bare = {"kind": "PodDisruptionBudget", "metadata": {"name": "a"}}
    assert load_cluster(bare).budgets[0].metadata.namespace == "default"


def test_a_node_gets_neither():
    [found] = load_cluster({"kind": "Node", "metadata": {"name": "n"}}).nodes
    assert (found.metadata.namespace, found.metadata.uid) == ("", "")


# --- what is refused ------------------------------------------------------------------------------------------------

CONTAINERS = [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1x"}}}]
REFUSED = {
    "a value of the wrong type": (
        cluster(NODE, pod(spec={"priority": "high"})),
        "cluster: Pod shop/web: expected int | null, got str at $.spec.priority",
    ),
    "a priority that is not an int32": (
        cluster(pod(spec={"priority": 2**31})),
        "Pod shop/web: expected int <= 2147483647 at $.spec.priority",
    ),
    "null for a part of an object": (
        cluster({**pod(), "spec": None}),
        "Pod shop/web: expected object, got null at $.spec",
    ),
    "an object without metadata": (
        cluster(NODE, {"kind": "Pod"}),
        "cluster: item 1: Pod is invalid: metadata.name: Required value: name or generateName is required",
    ),
    "an object without a name": (
        cluster(NODE, {"kind": "Node", "metadata": {}}),
        "cluster: item 1: Node is invalid: metadata.name: Required value: name or generateName is required",
    ),
    "a document without a kind": ({"items": []}, "cluster: the document has no kind"),
    "an item without a kind": (cluster(NODE, {"metadata": {"name": "x"}}), "cluster: item 1 has no kind"),
    "a kind that is not text": (cluster({"kind": 5}), "cluster: item 0: expected str, got int at $.kind"),
    "items that are no list": (
        {"kind": "List", "items": {}},
        "cluster: List: expected array | null, got object at $.items",
    ),
    "an item that is not an object": (cluster("n1"), "cluster: item 0: expected object, got str"),
    "a pod group of an unknown API": (
        cluster({**NATIVE, "apiVersion": ""}),
        "cluster: PodGroup train: apiVersion is missing: scheduling.k8s.io/v1beta1 or scheduling.x-k8s.io/v1alpha1",
    ),
    "two pod groups of one name and API": (
        cluster(NATIVE, FOREIGN, FOREIGN),
        "cluster: PodGroup.scheduling.x-k8s.io default/train: is a duplicate, first defined in cluster",
    ),
    "two objects of one name": (cluster(NODE, NODE), "cluster: Node n1: is a duplicate, first defined in cluster"),
    "two pods of one name": (cluster(pod(), pod(uid="2")), "cluster: Pod shop/web: is a duplicate"),
    "two pods of one uid": (
        cluster(pod("a", uid="same"), pod("b", uid="same")),
        "cluster: Pod shop/b: has the same uid as Pod shop/a",
    ),
    "a time without a zone": (
        cluster(pod(status={"startTime": "2026-01-31T08:00:00"})),
        "expected a time such as 2026-01-31T08:00:00Z, got '2026-01-31T08:00:00' at $.status.startTime",
    ),
    "a time that is none": (cluster(pod(status={"startTime": "yesterday"})), "got 'yesterday' at $.status.startTime"),
    "a quantity of a node": (
        cluster({**NODE, "status": {"allocatable": {"memory": "8GB"}}}),
        "cluster: Node n1 is invalid: status.allocatable[memory]: '8GB' is not a quantity: it must be a number",
    ),
    "a quantity of a container": (
        cluster(pod(spec={"containers": CONTAINERS})),
        "at $.spec.containers[1].resources.requests.cpu",
    ),
    "a quantity of an init container": (
        cluster(pod(spec={"initContainers": CONTAINERS})),
        "at $.spec.initContainers[1].resources.requests.cpu",
    ),
    "a pod-level quantity": (
        cluster(pod(spec={"resources": {"requests": {"cpu": "one"}}})),
        "at $.spec.resources.requests.cpu",
    ),
    "an overhead": (cluster(pod(spec={"overhead": {"cpu": ""}})), "at $.spec.overhead.cpu"),
    "a quantity that is being resized": (
        cluster(pod(status={"containerStatuses": [{"allocatedResources": {"cpu": "?"}}]})),
        "at $.status.containerStatuses[0].allocatedResources.cpu",
    ),
}


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED)
def test_a_cluster_is_refused_for(source, message):
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED)
def test_the_complaint_is_the_same_for_json_up_to_the_name_of_the_file(tmp_path, source, message):
    (tmp_path / "c.json").write_text(json.dumps(source))
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(tmp_path / "c.json")
    expected = message.replace("cluster:", "c.json:").replace("first defined in cluster", "first defined in c.json")
    assert expected.replace("the document", "document 1") in str(caught.value)


FIELDS = st.sampled_from(
    re.findall(
        r"\w+",
        "kind apiVersion items metadata name namespace uid labels spec status priority containers resources requests "
        "cpu overhead nodeName taints allocatable startTime selector matchLabels disruptionsAllowed value",
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["2", "500m", "Pod"])
)
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5))
KINDS = st.sampled_from(
    ["Node", "Pod", "PodDisruptionBudget", "Namespace", "PriorityClass", "List", "NodeList", "Secret"]
)


@settings(max_examples=by_profile(40, 100, 5_000), deadline=None)
@given(st.lists(st.dictionaries(FIELDS, ANYTHING, max_size=5), max_size=3), KINDS)
def test_whatever_stands_in_a_cluster_it_is_read_or_refused_by_name(contents, kind):
    try:
        load_cluster(cluster(*({"metadata": {"name": "x"}, **content, "kind": kind} for content in contents)))
    except ClusterFileError as error:
        assert str(error).startswith("cluster: "), "the error does not name the file"  # noqa: PT017, both outcomes are right


BROKEN_FILES = {
    "an empty file": ("c.json", b"", "c.json: the file is empty"),
    "an empty YAML file": ("c.yaml", b"# nothing\n---\n", "c.yaml: the file is empty"),
    "JSON that ends too early": ("c.json", b'{"kind": "List", "items": [', "c.json: not JSON: "),
    "JSON with something behind it": (
        "c.json",
        b'{"kind": "Secret"} oops',
        "c.json: not JSON: invalid character at line 1",
    ),
    "YAML that is none": ("c.yaml", b"kind: List\nitems: [a, b\n", "c.yaml: not YAML: "),
    "text that is not UTF-8": (
        "c.json",
        b'{"kind": "Pod", "metadata": {"name": "\xff"}}',
        "c.json: Pod (document 1): 'utf-8'",
    ),
    "a truncated gzip file": ("c.json.gz", gzip.compress(json.dumps(LIST).encode())[:-9], "c.json.gz: "),
    "JSON nested without end": ("c.json", b'{"kind": "Pod", "metadata": ' + b"[" * 100_000, "c.json: "),
    "YAML nested without end": ("c.yaml", b"a: " + b"[" * 5_000, "c.yaml: "),
    "an alias of itself": (
        "c.yaml",
        b"kind: Pod\nmetadata: {name: a}\nspec: {volumes: [{csi: &self {again: *self}}]}\n",
        "c.yaml: not YAML: found unconstructable recursive node",
    ),
}


@pytest.mark.parametrize(("name", "data", "message"), BROKEN_FILES.values(), ids=BROKEN_FILES)
def test_a_file_is_refused_if_it_is(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(tmp_path / name)
    assert str(caught.value).startswith(message)


def test_the_same_object_in_two_files_is_refused_and_both_are_named(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(NODE))
    (tmp_path / "b.json").write_text(json.dumps(NODE))
    with pytest.raises(ClusterFileError, match=r"^b.json: Node n1: is a duplicate, first defined in a.json$"):
        load_cluster(tmp_path)


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ClusterFileError, match=r"none\.json: No such file"):
        load_cluster(tmp_path / "none.json")


def test_a_directory_without_cluster_files_is_refused(tmp_path):
    with pytest.raises(ClusterFileError, match="no file in this directory"):
        load_cluster(tmp_path)


# --- the example ----------------------------------------------------------------------------------------------------


def test_the_example_has_the_promised_size_and_a_proper_uid_for_every_pod():
    objects = example_cluster()
    kinds = (objects.nodes, objects.pods, objects.budgets, objects.namespaces, objects.priority_classes)
    assert [len(kind) for kind in kinds] == [12, 45, 4, 4, 5]
    assert all(len(one.metadata.uid) == 36 for one in objects.pods)


def test_the_example_keeps_its_word_about_who_leaves():
    """The table at the head of example.yaml."""
    objects = example_cluster()
    names = {one.metadata.uid: one.metadata.name.split("-")[0] for one in objects.pods}
    incoming = {
        "metadata": {"name": "new", "namespace": "shop", "uid": "new"},
        "spec": {"priority": 100000, "containers": [{"resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}]},
    }
    answer = extender.evaluate(objects, incoming).to_dict()
    found = {
        node: ([names[uid] for uid in candidate["victims"]], candidate["numPDBViolations"])
        for node, candidate in answer["candidates"].items()
    }
    assert found == {
        "worker-a1": (["web", "web"], 1),
        "worker-a2": (["etl", "etl"], 0),
        "worker-b1": (["etl"], 0),
        "worker-b2": (["checkout"], 1),
        "worker-c2": (["search"], 0),
        "spot-a1": (["trainer"], 0),
        "spot-b1": (["etl"], 0),
    }
    assert list(answer["nonCandidates"]) == ["worker-c1"]
    assert answer["selected"] == "worker-b1"
    assert answer["feasible"] == 0


def test_the_example_keeps_its_word_about_devices():
    """The second table at the head of example.yaml."""
    incoming = {
        "metadata": {"name": "new", "namespace": "ml", "uid": "new"},
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "resourceClaims": [{"name": "accelerator", "resourceClaimName": "large-accelerator"}],
        },
    }
    answer = extender.evaluate(example_cluster(), incoming).to_dict()
    assert [node for node, one in answer["filter"].items() if one["code"] == "Success"] == ["gpu-a1"]
    assert answer["filter"]["gpu-b1"]["code"] == "UnschedulableAndUnresolvable"
    assert answer["filter"]["gpu-b1"]["reasons"] == ["cannot allocate all claims"]
    assert not answer.get("notEvaluated")


def test_progress_is_reported_every_thousand_objects(monkeypatch):
    monkeypatch.setattr(manifests, "OBJECTS_PER_CALL", 2)
    items = [{"kind": "Namespace", "metadata": {"name": f"n{place}", "uid": f"n{place}"}} for place in range(5)]
    contents, seen = Contents(files={"cluster.json": json.dumps({"kind": "List", "items": items}).encode()}), []
    manifests.parse_files(contents, on_progress=lambda *given: seen.append(given))
    assert seen == [("objects", 2, None), ("objects", 4, None)]
