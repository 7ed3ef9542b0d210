"""A dump of a 1.37.2 API server with every kind that decisions read.

tests/e2e/control_plane/test_every_kind.py makes it and keeps it current. Its objects have
the fields that 1.37 added, also those of gates that are off by default.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cluster.files.dump import encode_list, write_file
from extender.cluster.files.manifests import load_cluster, read_cluster
from extender.cluster.watch.decode import Decoder
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS, kind_without_group
from extender.k8s.version.features import Features
from extender.wire.decode import decode_filter
from extender.wire.encode import encode_filter

FILE = Path(__file__).parent / "kubernetes-1.37.json"
ITEMS = json.loads(FILE.read_text())["items"]
OTHERS = {"CompositePodGroup": 1, "Deployment": 1, "Job": 1, "Workload": 1}


def items_of(kind):
    of_kind = KINDS[kind]
    return [
        one
        for one in ITEMS
        if one["kind"] == kind_without_group(kind) and one["apiVersion"].rpartition("/")[0] == of_kind.group
    ]


def test_every_kind_is_read_and_the_others_are_skipped():
    found = read_cluster(FILE)
    for name, kind in KINDS.items():
        assert len(getattr(found.objects, kind.field)) == len(items_of(name)) > 0, name
    assert found.skipped_kinds == OTHERS


def test_a_dump_of_it_loses_nothing_that_is_read(tmp_path):
    found = load_cluster(FILE)
    write_file(encode_list(found), tmp_path / "again.json")
    again = load_cluster(tmp_path / "again.json")
    write_file(encode_list(again), tmp_path / "once-more.json")
    assert (tmp_path / "once-more.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    assert read_cluster(tmp_path / "again.json").skipped_kinds == {}
    for kind in KINDS.values():
        assert without_annotations(getattr(again, kind.field)) == without_annotations(getattr(found, kind.field))


def without_annotations(objects):
    """The objects without what is read for some kinds only."""
    replace = msgspec.structs.replace
    return [
        replace(one, metadata=replace(one.metadata, annotations=None, generation=0, creation_timestamp=None))
        for one in objects
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_reads_what_a_file_reads(kind):
    found = getattr(load_cluster(FILE), KINDS[kind].field)
    read = [Decoder(kind).decode(msgspec.Raw(json.dumps(one).encode())) for one in items_of(kind)]
    assert [one.metadata.uid for one in read] == [one.metadata.uid for one in found]
    if kind != "Pod":  # its volumes are pruned
        assert without_annotations(read) == without_annotations(found)


def named(objects: Iterable[Any]) -> dict[str, Any]:
    return {one.metadata.name: one for one in objects}


def test_what_decides_is_read():
    found = load_cluster(FILE)
    nodes, pods = named(found.nodes), named(found.pods)
    assert nodes["n1"].status.declared_features == ["GuaranteedQoSPodCPUResize", "UserNamespacesHostNetwork"]
    resized = pods["resized"].status
    assert resized.resources.requests == resized.allocated_resources == {"cpu": "2", "memory": "2Gi"}
    assert resized.container_statuses[0].allocated_resources == {"cpu": "1500m", "memory": "1Gi"}
    assert pods["member"].spec.scheduling_group.pod_group_name == "train"
    assert pods["rich"].spec.tolerations[0].operator == "Gt"
    assert (named(found.pod_groups)["train"].minimum, found.pod_groups[0].may_go_together_only) == (2, True)
    assert named(found.device_taint_rules)["n1-is-repaired"].spec.device_selector.pool == "n1"


def test_why_names_the_taints_of_a_rule_and_of_a_slice():
    done = CliRunner().invoke(
        cli.app, ["why", "default/pending", "--cluster", str(FILE), "--scheduler-version", "1.37", "-o", "json"]
    )
    ignored = "extender: ignored, not used by any decision: 1 CompositePodGroup, 1 Deployment, 1 Job, 1 Workload\n"
    assert (done.exit_code, done.stderr) == (1, ignored)
    said = json.loads(done.stdout)
    assert said["message"].startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    assert said["notEvaluated"] == []


def test_it_decides_in_every_version():
    for minor in range(29, 39):
        assert len(Snapshot.build(load_cluster(FILE), Features.of(minor)).nodes) == 2


def test_whole_nodes_are_passed_on_unchanged():
    """With `nodeCacheCapable: false`: fields that are not read here belong to kube-scheduler and other extenders."""
    nodes, pod = items_of("Node"), items_of("Pod")[0]
    body = json.dumps({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}).encode()
    request = decode_filter(body, 1 << 20)
    answer = json.loads(encode_filter(request, range(len(nodes)), {}, {}))
    assert answer["Nodes"]["items"] == nodes
