"""A folder is read whole, with its sub-folders, or the report says what was not read."""

import json

import pytest

from extender.cluster.files import reading
from extender.cluster.files.manifests import load_cluster, parse_files, read_cluster, read_files
from extender.errors import ClusterFileError


def stored(kind, name, version="1", namespace=None, **fields):
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "resourceVersion": version}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
        **fields,
    }


def write(path, *objects, kind="List"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"apiVersion": "v1", "kind": kind, "items": objects}))


NODE = stored("Node", "n1")


def pod(name, namespace="shop", version="1", **spec):
    return stored("Pod", name, version, namespace, spec=spec)


def names(objects):
    return [one.metadata.name for one in objects]


def test_what_cluster_info_dump_writes_is_read_whole(tmp_path):
    write(tmp_path / "nodes.json", NODE, kind="NodeList")
    for namespace in ("default", "kube-system"):
        write(tmp_path / namespace / "pods.json", pod(f"{namespace}-0", namespace), kind="PodList")
        write(tmp_path / namespace / "events.json", {"metadata": {"name": "e"}}, kind="EventList")
        (tmp_path / namespace / f"{namespace}-0").mkdir()
        (tmp_path / namespace / f"{namespace}-0" / "logs.txt").write_text("{ no manifest")
    report = read_cluster(tmp_path)
    assert names(report.objects.nodes) == ["n1"]
    assert names(report.objects.pods) == ["default-0", "kube-system-0"]
    assert report.notes() == ["ignored, not used by any decision: 2 Event", "files that are no manifests: 2 .txt"]


def test_the_objects_of_a_must_gather_count_once_and_the_newest_of_several_is_taken(tmp_path):
    root = tmp_path / "quay-io-must-gather"
    write(root / "cluster-scoped-resources" / "core" / "nodes" / "n1.yaml", NODE)
    old, new = pod("a", version="9"), pod("a", version="10", nodeName="n1")
    shop = root / "namespaces" / "shop"
    write(shop / "core" / "pods.yaml", old, pod("b"), kind="PodList")
    write(shop / "pods" / "a" / "a.yaml", new)
    write(shop / "pods" / "b" / "b.yaml", pod("b"))
    report = read_cluster(tmp_path)
    assert names(report.objects.nodes) == ["n1"]
    assert [(one.metadata.name, one.spec.node_name) for one in report.objects.pods] == [("a", "n1"), ("b", "")]
    assert report.notes() == ["in several versions, of which the newest counts: Pod shop/a"]


def test_the_newest_version_counts_in_whatever_order_it_is_read(tmp_path):
    write(tmp_path / "1.json", pod("a", version="10", nodeName="n1"))
    write(tmp_path / "2.json", pod("a", version="9"))
    assert [one.spec.node_name for one in load_cluster(tmp_path).pods] == ["n1"]


def test_when_files_were_written_is_asked_only_to_read_them(tmp_path):
    """A folder is looked for changes every other second."""
    write(tmp_path / "1.json", NODE)
    found = reading.find_files([tmp_path])
    assert found.sources == []
    (source,) = found.read().sources
    assert (source.path, bool(source.modified)) == (str(tmp_path), True)


@pytest.mark.parametrize("uid", ["another", ""])
def test_another_object_of_the_same_name_is_refused(tmp_path, uid):
    write(tmp_path / "1.json", NODE)
    other = stored("Node", "n1")
    other["metadata"]["uid"] = uid
    write(tmp_path / "2.json", other)
    with pytest.raises(ClusterFileError, match=r"^2.json: Node n1: is a duplicate, first defined in 1.json$"):
        load_cluster(tmp_path)


@pytest.mark.parametrize("content", ["", "# nothing\n", "[1, 2]", "5", '{"health": "true"}', "a: 1", '{"kind": 5}'])
def test_a_file_of_a_sub_folder_without_objects_is_named(tmp_path, content):
    write(tmp_path / "nodes.json", NODE)
    (tmp_path / "etcd_info").mkdir()
    (tmp_path / "etcd_info" / "health.yaml").write_text(content)
    report = read_cluster(tmp_path)
    assert report.notes() == ["files without objects: etcd_info/health.yaml"]
    (tmp_path / "health.yaml").write_text(content)
    with pytest.raises(ClusterFileError, match=r"^health\.yaml: "):
        read_cluster(tmp_path)


@pytest.mark.parametrize("content", ['{"kind": "PodList", "items": [', "kind: Pod\n---\na: 1", '{"kind": "Pod"'])
def test_a_file_of_a_sub_folder_that_is_damaged_is_refused(tmp_path, content):
    write(tmp_path / "nodes.json", NODE)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pods.yaml").write_text(content)
    with pytest.raises(ClusterFileError, match=r"^shop/pods\.yaml: "):
        read_cluster(tmp_path)


def test_links_in_a_circle_are_followed_once(tmp_path):
    write(tmp_path / "shop" / "pods.json", pod("a"))
    (tmp_path / "shop" / "again").symlink_to(tmp_path)
    (tmp_path / "twice").symlink_to(tmp_path / "shop")
    assert names(load_cluster(tmp_path).pods) == ["a"]


def test_files_that_the_kubelet_mounts_are_read_once(tmp_path):
    write(tmp_path / "..2026_11_28" / "nodes.json", NODE)
    (tmp_path / "..data").symlink_to("..2026_11_28")
    (tmp_path / "nodes.json").symlink_to("..data/nodes.json")
    assert names(load_cluster(tmp_path).nodes) == ["n1"]


def test_several_files_and_folders_are_one_cluster(tmp_path):
    write(tmp_path / "a" / "objects.json", NODE)
    write(tmp_path / "b" / "objects.json", pod("a"))
    write(tmp_path / "objects.json", pod("b"))
    contents = read_files([tmp_path / "objects.json", tmp_path / "a", tmp_path / "b"])
    assert [*contents.files] == ["objects.json", *(str(tmp_path / name / "objects.json") for name in "ab")]
    report = parse_files(contents)
    assert (names(report.objects.nodes), names(report.objects.pods)) == (["n1"], ["b", "a"])


@pytest.mark.parametrize(
    ("limit", "message"),
    [("MAX_ENTRIES", "has more than 1 files"), ("MAX_FOLDER_DEPTH", "has more than 1 levels of sub-folders")],
)
def test_H7_folders_are_limited(tmp_path, monkeypatch, limit, message):
    write(tmp_path / "a" / "b" / "nodes.json", NODE)
    monkeypatch.setattr(reading, limit, 1)
    with pytest.raises(ClusterFileError, match=message):
        load_cluster(tmp_path)


def test_H7_suffixes_are_counted_within_limits(tmp_path, monkeypatch):
    write(tmp_path / "nodes.json", NODE)
    for name in ("a.txt", "b.txt", "c.log", "d.html", "e"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(reading, "MAX_SUFFIXES", 2)
    assert read_cluster(tmp_path).passed_over == {".txt": 2, ".log": 1, "with further suffixes": 2}
