"""A secret in environment, arguments, commands and annotations is in nothing that leaves the service."""

import copy
import gzip
import json
import logging
from importlib import resources

import pytest

from extender.cli import logs
from extender.cluster.cache.cache import ClusterCache
from extender.server.app import create_app
from extender.utilities.yaml_reader import read_documents
from tests.builders import stored_cluster
from tests.server.conftest import admin_client, client_for, configuration

pytestmark = pytest.mark.anyio
SECRET = "canary-3f9a1c"
JSON = {"Content-Type": "application/json"}


def with_secrets(one):
    """The object, with the secret wherever people put theirs."""
    one = copy.deepcopy(one)
    one["metadata"].setdefault("annotations", {}).update(
        {
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": SECRET}),
            "example.com/token": SECRET,
            "vault.hashicorp.com/agent-inject-secret": SECRET,
        }
    )
    one["metadata"]["managedFields"] = [{"manager": SECRET}]
    for container in one.get("spec", {}).get("containers", ()):
        probe = {"httpGet": {"path": "/", "port": 1, "httpHeaders": [{"name": "Authorization", "value": SECRET}]}}
        container |= {
            "env": [{"name": "PASSWORD", "value": SECRET}],
            "args": [f"--token={SECRET}"],
            "command": ["run", SECRET],
            "livenessProbe": probe,
            "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
        }
    if "containers" in one.get("spec", {}):
        one["spec"].setdefault("volumes", []).append(
            {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}}
        )
    return one


def example():
    """The example cluster, every object with secrets."""
    text = (resources.files("extender.cluster.files") / "example.yaml").read_text(encoding="utf-8")
    found = [document for document in read_documents(text.encode()) if document]
    items = [item for document in found for item in document.get("items", [document])]
    return {"kind": "List", "items": [with_secrets(item) for item in items]}


POD = with_secrets(
    {
        "metadata": {"name": "cart-9", "namespace": "shop", "uid": "cart-9"},
        "spec": {
            "priority": 100000,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}],
        },
    }
)
OFFERS = {"worker-b1": {"Pods": [{"UID": "51a58faf-51dd-4f2e-bab8-091e79e90057"}], "NumPDBViolations": 0}}


@pytest.mark.parametrize("preset", ["upstream", "careful", "strict"])
async def test_a_secret_is_in_no_decision_log_audit_line_recording_or_answer(preset, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    cluster = example()
    assert SECRET in json.dumps(cluster)
    cache = ClusterCache()
    cache.replace(stored_cluster(cluster))
    names = list(cache.snapshot().node_names)
    sections = {"preemption": {"preset": preset}, "recording": {"directory": str(tmp_path / "recording")}}
    sections["audit"] = {"path": str(tmp_path / "audit.log")}
    app = create_app(cache, configuration(**sections))
    server_context = app.server_context
    assert server_context.recorder is not None
    assert server_context.audit is not None
    server_context.recorder.start()
    server_context.audit.start()
    people = admin_client(server_context)
    shown = []
    async with client_for(app) as scheduler, people:
        whole = {"metadata": {}, "items": [item for item in cluster["items"] if item["kind"] == "Node"]}
        victims = {"worker-b1": {"Pods": [find(cluster, "51a58faf-51dd-4f2e-bab8-091e79e90057")]}}
        for path, body in (
            ("/filter", {"Pod": POD, "NodeNames": names}),
            ("/prioritize", {"Pod": POD, "NodeNames": names}),
            ("/preempt", {"Pod": POD, "NodeNameToMetaVictims": OFFERS}),
            ("/preempt", {"Pod": POD, "NodeNameToVictims": victims}),
            ("/filter", {"Pod": POD, "NodeNames": ["unknown"]}),
            ("/preempt", {"Pod": POD, "NodeNameToMetaVictims": {"worker-b1": {"Pods": [{"UID": "x"}]}}}),
            ("/preempt", {"Pod": POD | {"spec": {"priority": SECRET}}, "NodeNameToMetaVictims": OFFERS}),
        ):
            answer = await scheduler.post(path, content=json.dumps(body))
            shown.append(f"{answer.headers} {answer.text}")
        # Whole nodes go back byte for byte, as they came from the scheduler.
        whole_nodes = json.dumps({"Pod": POD | {"spec": {}}, "Nodes": whole})
        assert (await scheduler.post("/filter", content=whole_nodes)).status_code == 200
        for path in ("/decisions", "/status", "/recording", "/cluster"):
            shown.append((await people.get(path)).text)
        listed = (await people.get("/decisions")).json()["decisions"]
        assert {one["verb"] for one in listed} == {"filter", "prioritize", "preempt"}
        for one in listed:
            shown.append((await people.get(f"/decisions/{one['id']}")).text)
            shown.append((await people.get(f"/decisions/{one['id']}/pod")).text)
        for question in (
            {"pod": POD},
            {"pod": POD, "compare": ["upstream", "strict"]},
            {"pod": POD | {"spec": {"priority": SECRET}}},
        ):
            answer = await people.post("/simulate", content=json.dumps(question), headers=JSON)
            shown.append(answer.text)
    server_context.recorder.stop()
    server_context.audit.stop()
    assert server_context.audit.written == 5  # with the start and the stop
    assert server_context.recorder.status()["calls"] >= 7
    assert [text for text in shown if SECRET in text] == []
    assert SECRET not in caplog.text
    as_json = logs.JSONFormatter()
    assert [record for record in caplog.records if SECRET in as_json.format(record)] == []
    for path in tmp_path.rglob("*"):
        assert SECRET not in str(path)
        if path.is_file():
            raw = path.read_bytes()
            assert SECRET.encode() not in (gzip.decompress(raw) if path.suffix == ".gz" else raw), path


def find(cluster, uid):
    return next(item for item in cluster["items"] if item["metadata"].get("uid") == uid)
