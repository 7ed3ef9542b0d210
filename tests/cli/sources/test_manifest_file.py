"""Manifests come from files, FIFOs and standard input, undecoded, in order and with their places."""

import io
import json
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from extender.cli.sources.manifest_file import read_contents, read_manifests
from extender.errors import ClusterFileError

CHART = """\
# Source: shop/templates/service.yaml
---
# Source: shop/templates/empty.yaml
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: }
---
apiVersion: apps/v1
kind: DeploymentList
items:
- metadata: {name: web}
---
apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: AllowList, metadata: {name: b}}
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: a}
    spec: {hostNetwork: yes}
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="chart.yaml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return written


def test_the_objects_of_a_chart_are_read_in_order_with_their_places(write):
    found = read_manifests([write(CHART), write('{"kind": "Pod", "spec": null}', "pod.json")])
    assert [(one.place, one.kind) for one in found] == [
        ("chart.yaml, document 1", "Service"),
        ("chart.yaml, item 0", "Deployment"),
        ("chart.yaml, item 0", "AllowList"),
        ("chart.yaml, item 0", "Pod"),
        ("pod.json", "Pod"),
    ]
    assert found[1].object == {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    assert found[0].object["metadata"] == {"name": "web", "namespace": None}
    assert found[3].object["spec"] == {"hostNetwork": True}
    assert found[4].object == {"kind": "Pod", "spec": None}


def test_standard_input_and_fifos_are_read_to_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{kind: Pod}")))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    thread = threading.Thread(target=lambda: fifo.write_text(json.dumps({"kind": "Node"})))
    thread.start()
    found = read_manifests(["-", str(fifo)])
    thread.join()
    assert [(one.place, one.kind) for one in found] == [("standard input", "Pod"), (str(fifo), "Node")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# only a comment", "standard input: the file is empty"),
        ("a: 1", "standard input: document 1 has no kind"),
        ("- a", "standard input: document 1: expected object, got array"),
        ("a: [", "standard input: not YAML: "),
    ],
)
def test_what_is_wrong_with_standard_input_is_said_of_it(monkeypatch, text, message):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    with pytest.raises(ClusterFileError) as caught:
        read_manifests(["-"])
    assert str(caught.value).startswith(message)


def test_files_beside_a_stream_are_read_within_the_same_limit(write, monkeypatch):
    from extender.cluster.files import reading

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a" * 100)))
    monkeypatch.setattr(reading, "MAX_BYTES", 150)
    with pytest.raises(ClusterFileError, match=r"^pod.json: the cluster's files are larger than 0 KiB together$"):
        read_contents(["-", write("b" * 100, "pod.json")])
