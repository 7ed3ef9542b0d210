"""Plugin behaviour that the parity corpus does not cover: migrated in-tree volumes, arguments."""

from pathlib import Path

import msgspec
import pytest

import extender
from extender.config.scheduler.plugins import IN_TREE
from extender.core.framework.plugins import FILTERS, NODES_NOT_EVALUATED, PREFILTERS, SCORES
from extender.core.profile import FILTER_PLUGINS, SCORE_WEIGHTS, KubeScheduler, Profile
from extender.k8s.objects import TopologySpreadConstraint
from extender.k8s.storage.csi_migration import migrated_volume
from extender.k8s.storage.objects import PersistentVolumeSpec
from tests.builders import cluster, incoming, namespace, node, pod, thing

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def evaluated(cluster, pod, profile=None):
    return extender.evaluate(cluster, pod, scheduler=KubeScheduler((profile or Profile(),))).to_dict()


def codes(evaluation):
    return {name: verdict["code"] for name, verdict in evaluation["filter"].items()}


# --- the tables -----------------------------------------------------------------------------------------------------


def test_the_registry_and_the_default_profile_name_the_same_plugins():
    assert PREFILTERS.keys() <= set(FILTER_PLUGINS) <= FILTERS.keys()
    assert NODES_NOT_EVALUATED.keys() <= FILTERS.keys() | {"DeferredPodScheduling"}
    assert SCORES.keys() == SCORE_WEIGHTS.keys()


def test_every_in_tree_plugin_is_documented():
    """The page is about kube-scheduler's own plugins; that each filter has its reasons, tests/docs sees to."""
    page = (Path(__file__).parents[4] / "docs" / "plugins.md").read_text(encoding="utf-8")
    filters, _, scores = page.partition("## Scores")
    rows = [line.split("|")[1].strip() for line in filters.splitlines() if line.startswith("| ")][1:]
    assert {name for row in rows for name in row.split(", ")} == FILTERS.keys() & IN_TREE.keys()
    cells = [line.split("|") for line in scores.splitlines() if line.startswith("| ")]
    weights = {cell[1].strip(): cell[2].strip() for cell in cells}
    del weights["plugin"]
    assert weights == {name: str(weight) for name, weight in SCORE_WEIGHTS.items()}


# --- volumes of plugins that CSI drivers took over ------------------------------------------------------------------


def volume(name, source, **spec):
    return thing("PersistentVolume", name, spec={"claimRef": {"name": name, "namespace": "default"}} | source | spec)


def claim(name, volume=None, **spec):
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    given = {"accessModes": ["ReadWriteOnce"], "volumeName": volume or ""} | spec
    return thing("PersistentVolumeClaim", name, namespace="default", metadata=bound, spec=given)


def using(name):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def csi_node(name, migrated="", **counts):
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name, "allocatable": {"count": count}}
        for driver, count in counts.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return thing("CSINode", name, metadata={"annotations": annotations}, spec={"drivers": drivers})


EBS = {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}}


@pytest.mark.parametrize(
    ("driver", "source"),
    [
        ("ebs_csi_aws_com", EBS),
        ("pd_csi_storage_gke_io", {"gcePersistentDisk": {"pdName": "disk"}}),
        ("disk_csi_azure_com", {"azureDisk": {"diskName": "disk", "diskURI": "/disks/disk"}}),
        ("cinder_csi_openstack_org", {"cinder": {"volumeID": "123"}}),
        ("pxd_portworx_com", {"portworxVolume": {"volumeID": "123"}}),
    ],
)
def test_a_volume_of_a_migrated_plugin_counts_for_its_csi_driver(driver, source):
    objects = cluster(
        {node("full"): [pod("a", **using("old"))], node("free"): []},
        others=[
            volume("old", source),
            claim("old", "old"),
            volume("new", {"csi": {"driver": driver.replace("_", "."), "volumeHandle": "other"}}),
            claim("new", "new"),
            csi_node("full", **{driver: 1}),
            csi_node("free", **{driver: 1}),
        ],
    )
    assert codes(evaluated(objects, incoming(**using("new")))) == {"full": "Unschedulable", "free": "Success"}


def test_an_inline_disk_and_its_persistent_volume_are_one():
    """The second pod mounts what the first has attached already; VolumeRestrictions would forbid it, so it is off."""
    inline = [{"name": "data", "awsElasticBlockStore": {"volumeID": "vol-1"}}]
    objects = cluster(
        {node("n1"): [pod("a", volumes=inline)]},
        others=[volume("old", EBS), claim("old", "old"), csi_node("n1", ebs_csi_aws_com=1)],
    )
    profile = Profile(filter_plugins=("NodeVolumeLimits",))
    assert codes(evaluated(objects, incoming(**using("old")), profile)) == {"n1": "Success"}


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "vol-1"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "eu-1-a"}, "projects/UNSPECIFIED/zones/eu-1-a/disks/d"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "eu-1-x", BETA_ZONE: "eu-1-a__eu-1-b"},
            "projects/UNSPECIFIED/regions/eu-1/disks/d",
        ),
    ],
)
def test_a_migrated_volume_has_the_csi_drivers_handle(source, labels, handle):
    found = migrated_volume(msgspec.convert(source, PersistentVolumeSpec), labels)
    assert found is not None
    assert found[1] == handle


def test_a_class_of_a_migrated_provisioner_counts_for_its_csi_driver_only():
    def with_provisioner(name):
        return cluster(
            {node("n1"): []},
            others=[
                thing("StorageClass", "slow", provisioner=name, volumeBindingMode="WaitForFirstConsumer"),
                claim("new", storageClassName="slow"),
                csi_node("n1", ebs_csi_aws_com=0, file_csi_azure_com=0),
            ],
        )

    waiting = incoming(**using("new"))
    assert codes(evaluated(with_provisioner("kubernetes.io/aws-ebs"), waiting)) == {"n1": "Unschedulable"}
    assert codes(evaluated(with_provisioner("kubernetes.io/azure-file"), waiting)) == {"n1": "Success"}


def test_a_migrated_volume_uses_the_csi_drivers_zones_on_migrated_nodes():
    """`moved` has dropped the old label and has the driver's; `old` is the other way round; `wrong` has neither."""
    key = "topology.ebs.csi.aws.com/zone"
    terms = [{"matchExpressions": [{"key": BETA_ZONE, "operator": "In", "values": ["a"]}]}]
    objects = cluster(
        {
            node("moved", labels={key: "a"}): [],
            node("old", labels={BETA_ZONE: "a"}): [],
            node("wrong", labels={key: "b"}): [],
            node("half", labels={key: "a"}): [],
        },
        others=[
            volume("old", EBS, nodeAffinity={"required": {"nodeSelectorTerms": terms}}),
            claim("old", "old"),
            csi_node("moved", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
            csi_node("wrong", "kubernetes.io/aws-ebs"),
        ],
    )
    found = evaluated(objects, incoming(**using("old")))
    unresolvable = "UnschedulableAndUnresolvable"
    assert codes(found) == {"moved": "Success", "old": "Success", "wrong": unresolvable, "half": unresolvable}


def test_a_migrated_volume_without_affinity_is_in_the_zones_of_its_labels():
    key = "topology.gke.io/zone"
    disk = volume("old", {"gcePersistentDisk": {"pdName": "disk"}})
    disk["metadata"]["labels"] = {ZONE: "us-east1-a__us-east1-b"}
    objects = cluster(
        {node("in", labels={key: "us-east1-b"}): [], node("out", labels={key: "us-east1-c"}): []},
        others=[disk, claim("old", "old"), *(csi_node(name, "kubernetes.io/gce-pd") for name in ("in", "out"))],
    )
    verdicts = evaluated(objects, incoming(**using("old")))["filter"]
    assert verdicts["in"]["code"] == "Success"
    assert verdicts["out"]["reasons"] == ["node(s) didn't match PersistentVolume's node affinity"]


def test_a_beta_region_label_is_compared_as_ga_label_on_migrated_nodes():
    region, beta = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
    zone = {"key": BETA_ZONE, "operator": "In", "values": ["a"]}
    terms = [{"matchExpressions": [zone, {"key": beta, "operator": "In", "values": ["eu"]}]}]
    key = "topology.ebs.csi.aws.com/zone"
    objects = cluster(
        {node("in", labels={key: "a", region: "eu"}): [], node("out", labels={key: "a", region: "us"}): []},
        others=[
            volume("old", EBS, nodeAffinity={"required": {"nodeSelectorTerms": terms}}),
            claim("old", "old"),
            *(csi_node(name, "kubernetes.io/aws-ebs") for name in ("in", "out")),
        ],
    )
    found = codes(evaluated(objects, incoming(**using("old"))))
    assert found == {"in": "Success", "out": "UnschedulableAndUnresolvable"}


def test_a_claim_with_a_selected_node_fits_only_there_even_if_that_node_was_deleted():
    def verdicts(selected):
        wanted = claim("new", storageClassName="fast")
        wanted["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": selected}
        fast = thing("StorageClass", "fast", provisioner="csi", volumeBindingMode="WaitForFirstConsumer")
        return codes(
            evaluated(cluster({node("n0"): [], node("n1"): []}, others=[wanted, fast]), incoming(**using("new")))
        )

    refused = "UnschedulableAndUnresolvable"
    assert verdicts("n1") == {"n0": refused, "n1": "Success"}
    assert verdicts("gone") == {"n0": refused, "n1": refused}


# --- arguments ------------------------------------------------------------------------------------------------------


def zones(**counts):
    """One node per zone, with so many pods."""
    return cluster(
        {
            node(zone, labels={ZONE: zone}): [pod(f"{zone}{i}", labels={"app": "web"}) for i in range(count)]
            for zone, count in counts.items()
        },
        others=[thing("Service", "web", namespace="default", spec={"selector": {"app": "web"}})],
    )


def test_default_constraints_of_the_profile_filter_pods_without_constraints_of_their_own():
    objects, waiting = zones(a=2, b=0), incoming(labels={"app": "web"})
    hard = Profile(default_spread_constraints=(TopologySpreadConstraint(1, ZONE, "DoNotSchedule"),))
    assert codes(evaluated(objects, waiting)) == {"a": "Success", "b": "Success"}
    assert codes(evaluated(objects, waiting, hard)) == {"a": "Unschedulable", "b": "Success"}
    assert codes(evaluated(objects, incoming(labels={"app": "other"}), hard)) == {"a": "Success", "b": "Success"}


def test_no_default_constraints_score_nothing():
    objects, waiting = zones(a=2, b=0), incoming(labels={"app": "web"})
    scored = {
        name: one["plugins"].get("PodTopologySpread") for name, one in evaluated(objects, waiting)["scores"].items()
    }
    assert scored == {"a": 100, "b": 200}
    none = evaluated(objects, waiting, Profile(default_spread_constraints=()))["scores"]
    assert all("PodTopologySpread" not in one["plugins"] for one in none.values())


def test_default_constraints_of_the_profile_leave_out_nodes_that_lack_a_key():
    """The system's own do not: there, a host without a zone is scored by the host alone."""
    objects = zones(a=2)
    objects["items"].append(node("bare").raw)
    soft = tuple(TopologySpreadConstraint(1, key, "ScheduleAnyway") for key in (ZONE, "kubernetes.io/hostname"))
    waiting = incoming(labels={"app": "web"})

    def scores(profile):
        return {
            n: one["plugins"]["PodTopologySpread"] for n, one in evaluated(objects, waiting, profile)["scores"].items()
        }

    assert scores(Profile())["bare"] == 200
    assert scores(Profile(default_spread_constraints=soft))["bare"] == 0


def affine(kind, when, **term):
    wanted = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"} | term
    terms = {"required": [wanted], "preferred": [{"weight": 10, "podAffinityTerm": wanted}]}[when]
    return {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}}


def between(objects, waiting, **arguments):
    evaluation = evaluated(objects, waiting, Profile(**arguments))
    return {name: one["plugins"].get("InterPodAffinity") for name, one in evaluation["scores"].items()}


def test_required_affinity_of_running_pods_counts_by_the_weight_that_is_set():
    objects = cluster({node("near"): [pod("a", **affine("podAffinity", "required"))], node("far"): []})
    waiting = incoming(labels={"app": "web"})
    assert between(objects, waiting) == {"near": 200, "far": 0}
    assert between(objects, waiting, hard_pod_affinity_weight=0) == {"near": None, "far": None}


def test_preferred_terms_of_running_pods_may_be_ignored_by_pods_without_any():
    objects = cluster({node("near"): [pod("a", **affine("podAffinity", "preferred"))], node("far"): []})
    plain = incoming(labels={"app": "web"})
    own = incoming(labels={"app": "web"}, **affine("podAntiAffinity", "preferred", namespaces=["elsewhere"]))
    ignoring = {"ignore_preferred_terms_of_existing_pods": True}
    assert between(objects, plain) == {"near": 200, "far": 0}
    assert between(objects, plain, **ignoring) == {"near": None, "far": None}
    assert between(objects, own, **ignoring) == {"near": 200, "far": 0}


def test_terms_that_select_namespaces_by_label_reach_every_namespace_they_name():
    """Anti-affinity of a running pod: the labels of the incoming pod's namespace are looked at."""
    term = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
    objects = cluster(
        {node("n1"): [pod("a", **affine("podAntiAffinity", "required", **term))]},
        namespaces=[namespace("shop", team="shop"), namespace("other", team="other")],
    )
    assert codes(evaluated(objects, incoming(namespace="shop", labels={"app": "web"}))) == {"n1": "Unschedulable"}
    assert codes(evaluated(objects, incoming(namespace="other", labels={"app": "web"}))) == {"n1": "Success"}
