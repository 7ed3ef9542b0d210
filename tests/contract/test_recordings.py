"""Every recorded call of a real kube-scheduler, answered by the service and judged with the scheduler's own eyes.

The cluster cache is that of the recording. What happened between its calls is applied as the recording tells it:

- After `/preempt` the preemptor is nominated to the node that was chosen, and the victims there are terminating.
- When a node is offered to `/filter`, the pods that were terminating on it are gone (nothing else made room).
- After its last `/filter` or `/prioritize` a pod runs on the node that its `/bind` names: the scheduler assumes so.

kube-scheduler only offers nodes that passed its own filters, and candidates from its own dry run, so our verdicts must
agree with what it sent.
"""

import gzip
import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import msgspec
import pytest

from extender.cluster.cache.cache import Change, ClusterCache
from extender.k8s.objects import Condition, Pod
from extender.server.app import create_app
from tests.builders import stored_cluster
from tests.contract.scheduler_eye import NOW, SchedulerEye, Victims, choices
from tests.server.conftest import client_for, configuration

pytestmark = pytest.mark.anyio

RECORDINGS = Path(__file__).parent / "recordings"
MODES = ("nodeCacheCapable-true", "nodeCacheCapable-false")
KINDS = {"nodes": "Node", "pods": "Pod", "poddisruptionbudgets": "PodDisruptionBudget"}
KINDS |= {"namespaces": "Namespace", "priorityclasses": "PriorityClass", "storageclasses": "StorageClass"}
KINDS |= {"persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume"}
WITHOUT_CLUSTER = ("large-fit", "large-fit-all-nodes")


# --- what was recorded --------------------------------------------------------------------------------------------


def read(path: Path) -> bytes:
    """A recorded body; larger ones are gzipped."""
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


@dataclass(frozen=True)
class Call:
    """A recorded call, read and decoded once while it is in use, as bodies may have megabytes; never changed."""

    mode: str
    name: str

    @property
    def verb(self):
        return self.name.split("-")[1]

    @cached_property
    def request(self):
        return read(RECORDINGS / self.mode / f"{self.name}.request.json")

    @cached_property
    def answer(self):
        return read(RECORDINGS / self.mode / f"{self.name}.response.json")

    @cached_property
    def body(self):
        return msgspec.json.decode(self.request)

    @cached_property
    def pod(self):
        return msgspec.convert(self.body["Pod"], Pod)

    @cached_property
    def nodes(self):
        body = self.body
        return body["NodeNames"] or [node["metadata"]["name"] for node in body["Nodes"]["items"]]

    @cached_property
    def offers(self):
        """Node -> (UIDs, violations)."""
        body = self.body
        if body["NodeNameToMetaVictims"] is not None:
            by_node, uid = body["NodeNameToMetaVictims"], lambda pod: pod["UID"]
        else:
            by_node, uid = body["NodeNameToVictims"], lambda pod: pod["metadata"]["uid"]
        return {n: ([uid(pod) for pod in v["Pods"]], v["NumPDBViolations"]) for n, v in by_node.items()}

    @cached_property
    def known_to_terminate(self):
        """Only whole pods tell which victims terminate in kube-scheduler's cache too."""
        victims = [pod["metadata"] for v in (self.body["NodeNameToVictims"] or {}).values() for pod in v["Pods"]]
        return {metadata["uid"] for metadata in victims if "deletionTimestamp" in metadata}


@cache
def index(mode):
    return json.loads((RECORDINGS / mode / "index.json").read_bytes())


def params(entries):
    """One parameter set for each (mode, entry)."""
    return [pytest.param(mode, entry, id=f"{mode}-{entry['scenario']}") for mode, entry in entries]


ENTRIES = [(mode, entry) for mode in MODES for entry in index(mode)]
SCENARIOS = params(ENTRIES)


def test_every_recorded_call_belongs_to_a_scenario():
    for mode in MODES:
        files = {path.name.split(".")[0] for path in (RECORDINGS / mode).glob("*-*.request.json*")}
        assert files == {name for entry in index(mode) for name in entry["calls"]}


# --- the cluster cache --------------------------------------------------------------------------------------------


@cache
def nodes_of_the_large_scenarios():
    """They have no cluster file; but where whole nodes were sent, all of them were."""
    large = [entry for entry in index(MODES[1]) if entry["scenario"] in WITHOUT_CLUSTER]
    calls = [Call(MODES[1], name) for entry in large for name in entry["calls"]]
    sent = [node for call in calls if call.verb == "filter" for node in call.body["Nodes"]["items"]]
    return list({node["metadata"]["name"]: node for node in sent}.values())


def cluster_of(mode, entry):
    return _cluster_in(None if entry["scenario"] in WITHOUT_CLUSTER else RECORDINGS / mode / entry["cluster"])


@cache
def _cluster_in(file):
    if file is None:
        found = {"nodes": nodes_of_the_large_scenarios()}
    else:
        found = json.loads(gzip.decompress(file.read_bytes()))
    items = [{**one, "kind": kind} for key, kind in KINDS.items() for one in found.get(key, ())]
    return stored_cluster({"kind": "List", "items": items})


class Replay:
    """The store as the recording goes on, and what kube-scheduler did."""

    def __init__(self, mode, entry):
        self.entry = entry
        self.calls = [Call(mode, name) for name in sorted(entry["calls"])]
        self.version = 10**9  # of the next change, beyond all recorded ones
        self.cache = ClusterCache()
        self.cache.replace(cluster_of(mode, entry))
        self.bound = {call.body["PodUID"]: call.body["Node"] for call in self.calls if call.verb == "bind"}
        self.evicted = {pod["uid"] for pod in entry["evicted"]}
        self._apps = {}

    @property
    def eye(self):
        pods = self.cache.snapshot().pods
        nodes = self.cache.snapshot().node_names
        by_node = {node: {p.metadata.uid: p for p in pods if p.spec.node_name == node} for node in nodes}
        return SchedulerEye(by_node)

    def app(self, ignored, **preemption):
        """One service for all calls of the recording, as it was."""
        configured = json.dumps([ignored, preemption])
        if configured not in self._apps:
            config = configuration(preemption=preemption, scheduler=scheduler_ignoring(ignored))
            self._apps[configured] = create_app(self.cache, config)
        return self._apps[configured]

    def before(self, call):
        if call.verb == "filter":
            self._gone_from(set(call.nodes))

    def after(self, call):
        later = [other for other in self.calls if other.name > call.name and other.verb != "bind"]
        next_of_pod = next((other for other in later if other.pod.metadata.uid == call.pod.metadata.uid), None)
        if call.verb == "preempt":
            self._preempted(call, self.chosen(call))
        elif next_of_pod is None:
            node = self.bound[call.pod.metadata.uid]
            self._apply(on(call.pod, node_name=node))

    def chosen(self, call):
        """The node that kube-scheduler took: all its victims, as offered, were evicted."""
        taken = [node for node, (uids, _) in call.offers.items() if self.evicted.issuperset(uids)]
        later = (other for other in self.calls if other.name > call.name and other.verb != "bind")
        same = [other.pod for other in later if other.pod.metadata.uid == call.pod.metadata.uid]
        if len(taken) > 1:  # another preemptor's victims are among them: where was this one nominated to?
            taken = [node for node in taken if node == same[0].status.nominated_node_name]
        (node,) = taken
        return node

    def _preempted(self, call, node):
        status = msgspec.structs.replace(call.pod.status, nominated_node_name=node)
        self._apply(msgspec.structs.replace(call.pod, status=status))
        uids, _ = call.offers[node]
        for pod in list(self.cache.snapshot().pods):
            if pod.metadata.uid in uids:
                self._apply(terminating(pod))

    def _gone_from(self, nodes):
        for pod in list(self.cache.snapshot().pods):
            if pod.spec.node_name in nodes and pod.metadata.deletion_timestamp:
                self._apply(pod, deleted=True)

    def _apply(self, pod, deleted=False):
        self.version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.version))
        self.cache.apply(Change("Pod", msgspec.structs.replace(pod, metadata=metadata), deleted))


def on(pod, node_name):
    spec = msgspec.structs.replace(pod.spec, node_name=node_name)
    status = msgspec.structs.replace(pod.status, nominated_node_name="")
    return msgspec.structs.replace(pod, spec=spec, status=status)


def terminating(pod):
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-11-21T12:00:00Z")
    why = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
    status = msgspec.structs.replace(pod.status, conditions=[*(pod.status.conditions or ()), why])
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


# --- what we answer -----------------------------------------------------------------------------------------------


def ignored_resources(entry):
    """What kube-scheduler itself leaves to extenders; then the recording extender let every node pass."""
    managed = entry["config"].get("managedResources", ())
    return [resource["name"] for resource in managed if resource["ignoredByScheduler"]]


def scheduler_ignoring(resources):
    """The section `scheduler` of an extender whose kube-scheduler ignores these resources."""
    args = {"name": "NodeResourcesFit", "args": {"ignoredResources": resources}}
    return {"profiles": [{"pluginConfig": [args]}]}


async def answered(replay, call, ignored=None, **preemption):
    ignored = ignored_resources(replay.entry) if ignored is None else ignored
    async with client_for(replay.app(ignored, **preemption)) as client:
        response = await client.post(f"/{call.verb}", content=call.request)
    return response.status_code, response.content


async def check_filter(replay, call):
    filtered = replay.eye.filter(call.request, *await answered(replay, call))
    assert (filtered.failed, filtered.unresolvable) == ({}, {})
    assert filtered.nodes == call.nodes
    if call.body["Nodes"] is not None:
        assert filtered.whole == call.body["Nodes"]["items"]


async def check_prioritize(replay, call):
    scores = replay.eye.prioritize(*await answered(replay, call))
    assert list(scores) == call.nodes
    assert all(0 <= score <= 10 for score in scores.values())


async def check_preempt(replay, call):
    eye, offers, chosen = replay.eye, call.offers, replay.chosen(call)
    everything = eye.preempt(*await answered(replay, call, keepCandidates="All"))
    ours = {n: ([pod.metadata.uid for pod in v.pods], v.violations) for n, v in everything.items()}
    going = replay.cache.recent_deletions.on_nodes(set(offers)).keys() - call.known_to_terminate
    assert ours == {
        n: ([uid for uid in uids if uid not in going] or uids, count) for n, (uids, count) in offers.items()
    }
    assert set(ours[chosen][0]) <= replay.evicted
    one = eye.preempt(*await answered(replay, call))
    offered = {n: Victims([eye.pods[n][uid] for uid in uids], count) for n, (uids, count) in offers.items()}
    assert len(one) == 1
    assert set(one) <= choices(offered, NOW)
    assert chosen in choices(offered, NOW)


CHECKS = {"filter": check_filter, "prioritize": check_prioritize, "preempt": check_preempt}


@pytest.mark.parametrize(("mode", "entry"), SCENARIOS)
async def test_the_scheduler_accepts_every_answer(mode, entry):
    replay = Replay(mode, entry)
    for call in replay.calls:
        if call.verb == "bind":
            continue
        replay.before(call)
        await CHECKS[call.verb](replay, call)
        replay.after(call)


@pytest.mark.parametrize("mode", MODES)
async def test_a_resource_that_the_scheduler_ignores_is_ours_to_check(mode):
    (entry,) = (entry for entry in index(mode) if entry["scenario"] == "managed-resource-ignored")
    replay = Replay(mode, entry)
    call = replay.calls[0]
    lacking = {
        node.metadata.name
        for node in replay.cache.snapshot().nodes
        if "example.com/accelerator" not in (node.status.allocatable or {})
    }
    filtered = replay.eye.filter(call.request, *await answered(replay, call, ignored=[]))
    assert lacking
    assert filtered.unresolvable == dict.fromkeys(lacking, "Insufficient example.com/accelerator")


@pytest.mark.parametrize(("mode", "entry"), SCENARIOS)
def test_the_recorded_answers_explain_what_the_scheduler_did(mode, entry):
    """Is the eye right? What was answered then, and what came of it, are known."""
    replay = Replay(mode, entry)
    for call in replay.calls:
        if call.verb == "bind":
            continue
        replay.before(call)
        if call.verb == "filter":
            assert replay.eye.filter(call.request, 200, call.answer).nodes == call.nodes
        elif call.verb == "prioritize":
            assert set(replay.eye.prioritize(200, call.answer)) == set(call.nodes)
        else:
            assert replay.chosen(call) in choices(replay.eye.preempt(200, call.answer), NOW)
        replay.after(call)
