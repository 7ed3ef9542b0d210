"""What admission makes of a manifest, and what a dry run answers, is what a real API server stores."""

import json
import time
from typing import Any

import pytest

from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Refused
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.dry_run import ServerAdmission
from extender.k8s.kinds import KINDS
from tests.e2e.control_plane.lab.api import ApiError
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.process import wait_until
from tests.parity.admission import record
from tests.parity.admission.comparison import Pair, different_facts
from tests.parity.admission.pairs import NEWEST, SENT_ALONE, WORKLOADS, decoded, differences, pairs, snapshot_of
from tests.upstream.generate.manifests import random_manifest, random_world

JSON = dict[str, Any]

SEED = "1"
MANIFESTS = 200
SECONDS = 30.0

KNOWN = {73: "the scopes of a ResourceQuota are not compared with its resources"}
"""Number of a manifest that admission treats otherwise -> why."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """With default admission and all controllers."""
    with ControlPlane(tmp_path_factory.mktemp("plane"), controllers=("*",), plugins_off="", kubelet=False) as started:
        yield started


@pytest.fixture(scope="module")
def admission(plane):
    return ServerAdmission(ApiServer.connect(str(plane.kubeconfig())), time.monotonic() + 600)


@pytest.fixture(scope="module")
def created(plane) -> list[Pair]:
    """Each random manifest with what the API server and controllers make of it, as a pair."""
    api, world = plane.api, random_world(SEED)
    for one in world:
        record.wait_for(api, record.create(api, one))
    time.sleep(record.CACHE_SECONDS)
    found: list[Pair] = []
    workloads: list[tuple[Pair, JSON]] = []
    # As parsed JSON: texts that are the very objects of our defaults compare otherwise (msgspec's omit_defaults).
    drawn = [(number, *json.loads(json.dumps(random_manifest(SEED, number)))) for number in range(MANIFESTS)]
    # Workloads last: a DaemonSet gets a pod for each node that is there for a moment.
    for number, kind, sent in sorted(drawn, key=lambda one: one[1] in WORKLOADS):
        pair: Pair = {"id": number, "kind": kind, "given": world, "sent": sent, "stored": None, "refused": None}
        pair["also"] = []
        try:
            stored = record.create(api, sent)
            pair["stored"] = record.stripped(stored)
            if kind in WORKLOADS:
                workloads.append((pair, stored))
            else:
                record.delete_all(api, [stored], wait=0)
        except ApiError as error:
            pair["refused"] = error.body
        found.append(pair)
    new = settled(plane.api, [stored for _, stored in workloads])
    for pair, stored in workloads:
        also = record.created_for(stored, new)
        pair["podsRefused"] = record.are_refused(stored, also)
        pair["also"] = [record.stripped(one) for one in also]
        record.delete_all(api, [stored, *also], wait=0)
    return found


def settled(api, workloads):
    """What controllers created, once each workload has pods or an Event why not, and nothing comes any more."""
    before: set[str] = set()

    def found():
        nonlocal before
        time.sleep(record.SETTLE_SECONDS)
        new = record.everything(api)
        uids, last = {one["metadata"]["uid"] for one in new}, before
        before = uids
        failed = api.list("v1/Event", fieldSelector="reason=FailedCreate")
        refused = {one["involvedObject"]["uid"] for one in failed}

        def is_settled(stored):
            also = record.created_for(stored, new)
            return not record.are_refused(stored, also) or not refused.isdisjoint(
                one["metadata"]["uid"] for one in (stored, *also)
            )

        return new if uids == last and all(map(is_settled, workloads)) else None

    return wait_until(found, 120, "pods of the workloads, or an Event why they were refused")


def test_a_dry_run_and_the_recorded_pairs_agree(plane, admission):
    """Those that need no other objects: a dry run leaves none behind. First: there are no default classes yet."""
    found = {}
    for pair in pairs():
        if not pair["given"] and pair["kind"] in (*KINDS, *WORKLOADS):
            found[pair["id"]] = differs_by_dry_run(admission, pair)
    assert not {pair: each for pair, each in found.items() if each}
    assert len(found) > 200


def test_manifests_of_both_kinds_are_drawn(created):
    refused = sum(pair["refused"] is not None for pair in created)
    assert MANIFESTS / 5 < refused < MANIFESTS * 3 / 4


def test_admission_makes_of_random_manifests_what_the_api_server_does(created):
    found = {pair["id"]: differences_of_admission(pair) for pair in created}
    unexpected = {number: each for number, each in found.items() if each and number not in KNOWN}
    assert not unexpected, "\n".join(f"{number}: {each}" for number, each in unexpected.items())
    assert not [number for number in KNOWN if not found[number]], "agrees: take it out of KNOWN"


def differences_of_admission(pair: Pair) -> list[str]:
    """As `differences`; a field that scheduling does not read may be left out."""
    found, kind = differences(pair), pair["kind"]
    if not found or not (pair["refused"] or kind == "CronJob"):
        return found
    snapshot = snapshot_of(pair["given"], NEWEST)
    cluster = AdmissionCluster(snapshot.objects, snapshot.features, NEWEST)
    try:
        _, findings = admit(kind, pair["sent"], cluster, is_state=kind not in SENT_ALONE)
    except Refused as error:
        return [str(error)]
    # A CronJob creates no pods before its time, while we show those of its Job.
    return [] if findings.left_out or (kind == "CronJob" and pair["stored"]) else found


def test_a_dry_run_answers_what_the_api_server_stores(created, admission):
    found = {pair["id"]: differs_by_dry_run(admission, pair) for pair in created}
    assert not {number: each for number, each in found.items() if each}


def test_a_dry_run_writes_nothing(plane, admission):
    before = plane.api.list("Pod")
    kind, sent = "Pod", {"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    found, _ = admission.admit(kind, sent, "default")
    assert found["spec"]["tolerations"]
    assert plane.api.list("Pod") == before


def test_a_pod_that_exists_is_asked_about_under_another_name(plane, admission):
    sent = {"metadata": {"name": "twice"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    plane.api.create({"apiVersion": "v1", "kind": "Pod", **sent})
    found, findings = admission.admit("Pod", sent, "default")
    assert found["metadata"]["name"] == "twice"
    assert [warning.partition(":")[0] for warning in findings.warnings] == ["Pod default/twice exists"]
    plane.api.delete("Pod", "twice", grace=0)


def test_unknown_fields_are_pruned_or_refused(plane, admission):
    sent = {"metadata": {"name": "odd"}, "spec": {"containers": [{"name": "c", "image": "i"}], "hostnetwork": True}}
    assert admission.admit("Pod", sent, "default")[1].pruned == ["spec.hostnetwork"]
    strict = ServerAdmission(admission.api, admission.deadline, strict=True)
    with pytest.raises(Refused, match=r'unknown field "spec\.hostnetwork"'):
        strict.admit("Pod", sent, "default")


def differs_by_dry_run(admission: ServerAdmission, pair: Pair) -> list[str]:
    kind = pair["kind"]
    try:
        found, _ = admission.admit(kind, pair["sent"], "default")
    except Refused as error:
        return [] if pair["refused"] else [f"refused: {error}"]
    if pair["refused"]:
        return [f"stored, should be refused: {pair['refused']}"]
    if kind not in KINDS:
        return []
    return different_facts("", kind, decoded(kind, record.stripped(found)), decoded(kind, pair["stored"]))
