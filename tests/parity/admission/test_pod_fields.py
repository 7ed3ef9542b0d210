"""Pods with one field that is wrong or unusual, against what real API servers answered.

A line of pod_fields.jsonl.gz is a pod that was sent by a POST with dryRun=All to kube-apiserver 1.34 or 1.37.2, with
the answer without the token volume, or the message.
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
from extender.k8s.kinds import ObjectTables
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features
from tests.parity.admission.comparison import different_facts

FILE = Path(__file__).with_name("pod_fields.jsonl.gz")
ANSWERS = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]

LEFT_OUT = ("containers[0].image: Required", "containers[0].name: Required", ".apiVersion: ")
"""Parts of messages about fields that may be left out."""

NOT_CHECKED = (
    *LEFT_OUT,
    "must not have leading or trailing whitespace",
    "must be 'NotRequired' when",
    "must not be set to 'RestartContainer' for non-sidecar",
    "must be valid format starting with iqn",
    "SizeLimit field must be",
    "ShareProcessNamespace and HostPID",
    "must be a valid IP address",
    "must provide `dnsConfig`",
    "must specify a handler type",
    "may not specify more than 1 handler type",
    "livenessProbe.httpGet.port: Invalid value: 0",
)
"""Parts of messages about what decisions do not read, and validation neither."""


@pytest.mark.parametrize("answer", ANSWERS, ids=[one["id"] for one in ANSWERS])
def test_a_pod_is_admitted_as_an_api_server_does(answer: dict[str, Any]) -> None:
    minor, refused = answer["minor"], answer["refused"]
    cluster = AdmissionCluster(ObjectTables(), Features.of(minor), minor)
    if refused and not any(part in refused for part in NOT_CHECKED):
        with pytest.raises(Refused):
            admit("Pod", answer["sent"], cluster)
        return
    admitted, findings = admit("Pod", answer["sent"], cluster)
    if refused:
        assert bool(findings.left_out) == any(part in refused for part in LEFT_OUT)
        return
    ours, theirs = (msgspec.convert(one, Pod) for one in (admitted, answer["stored"]))
    # A generated name differs, and labels are those that were sent.
    assert not [one for one in different_facts("", "Pod", ours, theirs) if not one.startswith("name")]
