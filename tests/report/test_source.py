"""Where the cluster of an answer comes from, and whether it suggests another version of kube-scheduler."""

import pytest

from extender.core.profile import KubeScheduler
from extender.k8s.objects import Node, NodeStatus, NodeSystemInfo, ObjectMeta
from extender.k8s.version.found import FoundVersion
from extender.report.scheduler_report import with_version_hint
from extender.report.schema import OBJECTS, SourceReport
from extender.report.wording import describe_source
from extender.utilities.source_file import SourceFile

EXAMPLE = SourceReport(kind="example")
ASSUMED = KubeScheduler()
CONFIGURED = KubeScheduler(minor=36, version_source="configured")


def nodes(*kubelets):
    """Nodes with these kubelets; None for a node that does not say."""
    return [
        Node(ObjectMeta(f"n{place}"), status=NodeStatus(node_info=None if one is None else NodeSystemInfo(one)))
        for place, one in enumerate(kubelets)
    ]


def hint(scheduler, *kubelets, found=None):
    return with_version_hint(EXAMPLE, scheduler, nodes(*kubelets), found).version_hint


def test_a_version_that_nothing_names_is_said_to_be_not_known():
    assert ASSUMED.version_source == "assumed: its version is not known"
    assert ASSUMED.is_version_assumed
    assert not CONFIGURED.is_version_assumed


def test_kubelets_of_another_minor_are_named_where_the_version_is_assumed():
    assert hint(ASSUMED, "v1.33.2", "v1.32.0", "v1.33.4+k3s1") == (
        "kubelets are 1.32 on 1 node, 1.33 on 2 nodes, so kube-scheduler may be 1.33 rather than 1.37: set it with "
        "--scheduler-version or scheduler.version"
    )


@pytest.mark.parametrize(
    ("scheduler", "kubelets"),
    [
        pytest.param(ASSUMED, (), id="no nodes"),
        pytest.param(ASSUMED, (None, "", "custom"), id="kubelets without a version"),
        pytest.param(ASSUMED, ("v1.36.1", "v1.37.0"), id="the newest kubelet has the assumed minor"),
        pytest.param(CONFIGURED, ("v1.33.2",), id="kubelets may be older than a known kube-scheduler"),
    ],
)
def test_no_hint_without_a_contradiction(scheduler, kubelets):
    assert hint(scheduler, *kubelets) == ""


def test_a_kubelet_is_never_newer_than_kube_scheduler():
    assert "so kube-scheduler may be 1.37 rather than 1.36" in hint(CONFIGURED, "v1.36.0", "v1.37.0")


def test_a_version_that_the_cluster_names_contradicts_another_one_that_is_set():
    found = FoundVersion.of("v1.33.2", "image tag v1.33.2 of pod kube-system/kube-scheduler-cp")
    assert hint(CONFIGURED, "v1.33.2", found=found) == (
        "1.36 is set, but the cluster suggests kube-scheduler 1.33.2: image tag v1.33.2 of pod "
        "kube-system/kube-scheduler-cp"
    )
    assert hint(KubeScheduler(minor=33, version_source=found.source), found=found) == ""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SourceReport(kind="live", context="prod", server="https://api:6443"), "context prod (https://api:6443)"),
        (SourceReport(kind="live", server="https://10.0.0.1"), "the cluster of this pod (https://10.0.0.1)"),
        (
            SourceReport(
                kind="file",
                files=[SourceFile(path="a.yaml", modified="2026-03-01T09:00:00Z"), SourceFile(path="standard input")],
            ),
            "a.yaml, written 2026-03-01T09:00:00Z, standard input",
        ),
        (OBJECTS, "objects given in Python"),
        (EXAMPLE, "the example cluster that ships with the package"),
    ],
)
def test_a_source_in_words(source, words):
    assert describe_source(source) == words
