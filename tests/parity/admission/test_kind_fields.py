"""Objects other than pods with one field that is wrong or unusual, against what real API servers answered.

A line of kind_fields.jsonl.gz is an object that was sent by a POST with dryRun=All to kube-apiserver 1.34, 1.36 or
1.37.2 without any other objects, with the answer without volatile metadata, or the begin of the message.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Refused
from extender.k8s.kinds import KINDS, ObjectTables
from extender.k8s.version.features import Features
from tests.parity.admission.comparison import different_facts

FILE = Path(__file__).with_name("kind_fields.jsonl.gz")
ANSWERS = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]

OF_WORKLOADS = ("replicas", "podManagementPolicy", "parallelism", "completions", "completionMode", "suspend")

LEFT_OUT = (
    "nodeID: Required",
    "handler: Required",
    'handler: Invalid value: ""',  # as 1.34 words it
    "spec.schedule: Required",
    ".path: Required",
    "iscsi.targetPortal: Required",
    "iscsi.iqn: Required",
)
"""Parts of messages about fields that may be left out."""

NOT_CHECKED = (
    *LEFT_OUT,
    "spec.nfs.path",
    "spec.iscsi",
    "spec.ports",
    "spec.azureDisk.diskURI",
    "spec.dataSource",
    "opaque.parameters",
    "must be greater than minReadySeconds",
    "requestPolicy.validRange.min",
    "allowedTopologies[1].matchLabelExpressions: Duplicate",
    "allowedTopologies[0].matchLabelExpressions: Duplicate",
)
"""Parts of messages about what decisions do not read, and validation neither."""


def facts(kind: str, one: dict[str, Any]) -> dict[str, Any]:
    return {field: one["spec"].get(field) for field in OF_WORKLOADS}


@pytest.mark.parametrize("answer", ANSWERS, ids=[one["id"] for one in ANSWERS])
def test_an_object_is_admitted_as_an_api_server_does(answer: dict[str, Any]) -> None:
    minor, refused, kind = answer["minor"], answer["refused"], answer["sent"]["kind"]
    cluster = AdmissionCluster(ObjectTables(), Features.of(minor), minor)
    try:
        admitted, findings = admit(kind, answer["sent"], cluster)
    except Refused:
        if not refused:
            raise
        return
    if refused:
        assert any(part in refused for part in NOT_CHECKED), refused
        assert findings.left_out or not any(part in refused for part in LEFT_OUT)
        return
    if kind in KINDS:
        ours, theirs = (msgspec.convert(one, KINDS[kind].type) for one in (admitted, answer["stored"]))
        differences = different_facts("", kind, ours, theirs)
        # An amount of a ResourceQuota may be spelled in another way.
        assert [one for one in differences if not one.startswith("spec.hard")] == []
    if kind in ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"):
        assert facts(kind, admitted) == facts(kind, answer["stored"])
