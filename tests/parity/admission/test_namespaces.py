"""Pods and claims one after the other in namespaces with LimitRanges and quotas, against real API servers' answers.

A line of namespaces.jsonl.gz is a namespace: its objects and those of the cluster (`given`), and what was then sent by
a POST to kube-apiserver 1.34 or 1.37.2, each with the object as stored, or the message. Nothing was deleted, so that
the quotas fill up. All of it is random: resources of containers, init containers and pods, classes of priority and
runtime, tolerations, overhead, affinity across namespaces, deadlines, storage and its class.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Refused
from extender.k8s.kinds import ObjectTables, key_of
from extender.k8s.version.features import Features
from tests.parity.admission.comparison import different_facts
from tests.parity.admission.pairs import decoded

JSON = dict[str, Any]

FILE = Path(__file__).with_name("namespaces.jsonl.gz")
NAMESPACES = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]

OF_PLUGINS = re.compile(r"forbidden: \[?(.*?)(?:, m(?:in|ax)imum .*|, \w+ max limit .*)?\]?$")
"""A message of an admission plugin; the first one of LimitRanger, which reports several."""


@pytest.mark.parametrize("one", NAMESPACES, ids=[f"1.{one['minor']}-{n}" for n, one in enumerate(NAMESPACES)])
def test_a_namespace_fills_up_as_with_an_api_server(one: JSON):
    cluster = AdmissionCluster(ObjectTables(), Features.of(one["minor"]), one["minor"])
    for given in one["given"]:
        put(cluster, given["kind"], admit(given["kind"], given, cluster)[0])
    for answer in one["answers"]:
        kind, name, refused = answer["kind"], answer["sent"]["metadata"]["name"], answer["refused"]
        if refused is not None:
            with pytest.raises(Refused) as raised:
                admit(kind, answer["sent"], cluster)
            if message := OF_PLUGINS.search(refused):
                assert message[1] in str(raised.value), name
            continue
        ours = put(cluster, kind, admit(kind, answer["sent"], cluster)[0])
        assert not different_facts("", kind, ours, decoded(kind, answer["stored"])), name


def put(cluster: AdmissionCluster, kind: str, stored: JSON) -> Any:
    loaded = decoded(kind, stored)
    cluster.objects.of(kind)[key_of(kind, loaded)] = loaded
    return loaded


def test_all_plugins_have_refused_something():
    messages = "\n".join(answer["refused"] or "" for one in NAMESPACES for answer in one["answers"])
    for said in (
        *("exceeded quota", "failed quota", "no PriorityClass", "must not be provided", "RuntimeClass", "conflict: "),
        *("usage per Container", "usage per Pod", "usage per PersistentVolumeClaim", "max limit to request ratio"),
    ):
        assert said in messages
