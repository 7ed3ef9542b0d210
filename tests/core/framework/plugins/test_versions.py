"""What changed between kube-scheduler's minors in volumes, taints, affinity and empty selectors.

The verdicts of v1.29 to v1.35 on the corpus are in tests/parity/test_versions.py; here is what the corpus lacks.
"""

import msgspec
import pytest

import extender
from extender.core.framework.plugins.in_tree_volume_limits import MAX_EBS_VOLUMES_OF_NITRO
from extender.core.framework.plugins.node_volume_limits import limit_key
from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.k8s.storage.objects import PersistentVolumeClaim
from tests.builders import budget, built, cluster, incoming, namespace, node, pod, thing

ZONE = "topology.kubernetes.io/zone"


def evaluated(version, objects, one, **gates):
    return extender.evaluate(objects, one, version=version, feature_gates=gates).to_dict()


def verdict(version, objects, one, **gates):
    """Code and reasons of the only node."""
    (found,) = evaluated(version, objects, one, **gates)["filter"].values()
    return found["code"], found["reasons"]


def using(*claims):
    return {
        "volumes": [
            {"name": f"v{nth}", "persistentVolumeClaim": {"claimName": name}} for nth, name in enumerate(claims)
        ]
    }


def claim(name, volume="", metadata=None, **spec):
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    size = {"resources": {"requests": {"storage": "10Gi"}}}
    given = {"accessModes": ["ReadWriteOnce"], "volumeName": volume} | size | spec
    return thing("PersistentVolumeClaim", name, namespace="default", metadata=metadata or bound, spec=given)


def volume(name, **spec):
    return thing(
        "PersistentVolume",
        name,
        spec={"claimRef": {"name": name, "namespace": "default"}} | spec,
        status={"phase": "Bound"},
    )


def _typed(raw):
    return msgspec.convert(raw, PersistentVolumeClaim)


def storage_class(name="lazy", provisioner="csi.example"):
    return thing("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def csi_node(name, *drivers, count=None):
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    return thing("CSINode", name, spec={"drivers": [{"name": one, "nodeID": name} | allocatable for one in drivers]})


# --- taints ---------------------------------------------------------------------------------------------------------


def test_up_to_1_33_a_taint_is_named_with_its_value():
    taints = [{"key": "a", "value": "1", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    nodes = dict.fromkeys((node(f"n{nth}", taints=[taint]) for nth, taint in enumerate([*taints, taints[0]])), ())
    statuses = evaluated("1.33", cluster(nodes), incoming())["filter"]
    assert [statuses[name]["reasons"] for name in ("n0", "n1", "n2")] == [
        ["node(s) had untolerated taint {a: 1}"],
        ["node(s) had untolerated taint {b: }"],
        ["node(s) had untolerated taint {a: 1}"],
    ]
    assert evaluated("1.34", cluster(nodes), incoming())["filter"]["n0"]["reasons"] == [
        "node(s) had untolerated taint(s)"
    ]


def test_tolerations_compare_numbers_with_the_feature_gate_only():
    tainted = node("n", taints=[{"key": "sla", "value": "95", "effect": "NoSchedule"}])
    one = incoming(tolerations=[{"key": "sla", "operator": "Gt", "value": "90", "effect": "NoSchedule"}])
    assert verdict("1.36", cluster({tainted: []}), one)[0] == "UnschedulableAndUnresolvable"
    assert verdict("1.36", cluster({tainted: []}), one, TaintTolerationComparisonOperators=True)[0] == "Success"


# --- topology spread ------------------------------------------------------------------------------------------------


def fits_with(key, value, objects, version, **gates):
    """Names of the nodes that fit a pod with maxSkew 1 over zones and one more field."""
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", key: value}
    spread["labelSelector"] = {"matchLabels": {"app": "a"}}
    one = incoming(labels={"app": "a"}, topologySpreadConstraints=[spread])
    statuses = evaluated(version, objects, one, **gates)["filter"]
    return [name for name, status in statuses.items() if status["code"] == "Success"]


def one_in_each_zone(*more):
    zoned = {node(f"n{nth}", labels={ZONE: f"z{nth}"}): [pod(f"p{nth}", labels={"app": "a"})] for nth in range(2)}
    return cluster(zoned | dict.fromkeys(more, ()))


@pytest.mark.parametrize("gate", ["NodeInclusionPolicyInPodTopologySpread", "AllBeta"])
def test_up_to_1_32_a_gate_makes_kube_scheduler_ignore_inclusion_policies(gate):
    tainted = node("n2", labels={ZONE: "z2"}, taints=[{"key": "a", "effect": "NoSchedule"}])
    objects = one_in_each_zone(tainted)
    assert fits_with("nodeTaintsPolicy", "Honor", objects, "1.32") == ["n0", "n1"]  # zone z2 does not count
    assert fits_with("nodeTaintsPolicy", "Honor", objects, "1.32", **{gate: False}) == []


@pytest.mark.parametrize("gate", ["MinDomainsInPodTopologySpread", "AllBeta"])
def test_in_1_29_a_gate_makes_kube_scheduler_ignore_min_domains(gate):
    assert fits_with("minDomains", 3, one_in_each_zone(), "1.29") == []
    assert fits_with("minDomains", 3, one_in_each_zone(), "1.29", **{gate: False}) == ["n0", "n1"]


# --- pod affinity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize(
    ("version", "code"),
    [("1.33", "Success"), ("1.34", "Unschedulable"), ("1.36", "Unschedulable"), ("1.37", "Success")],
)
def test_from_1_34_to_1_36_a_negative_namespace_selector_matches_every_namespace(version, code, many):
    """`many`: so many terms that they are matched together."""
    term = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "x"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
    }
    terms = [term | {"labelSelector": {"matchLabels": {"app": f"y{nth}"}}} for nth in range(many - 1)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, *terms]}}
    objects = cluster(
        {node("n", labels={ZONE: "z"}): [pod("p", namespace="of-a", labels={"app": "x"})]},
        namespaces=[namespace("of-a", team="a"), namespace("default")],
    )
    assert verdict(version, objects, incoming(affinity=affinity))[0] == code


# --- volumes --------------------------------------------------------------------------------------------------------


def test_a_claim_with_an_attributes_class_is_ignored_then_fails_then_works():
    available = thing(
        "PersistentVolume",
        "v",
        spec={"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual"},
        status={"phase": "Available"},
    )
    wanted = claim("c", storageClassName="manual", volumeAttributesClassName="gold")
    manual = storage_class("manual", "kubernetes.io/no-provisioner")
    objects = cluster({node("n"): []}, others=[available, wanted, manual])
    assert verdict("1.30", objects, incoming(**using("c")))[0] == "Success"
    code, (reason,) = verdict("1.33", objects, incoming(**using("c")))
    assert code == "Error"
    assert reason.startswith('running "VolumeBinding" filter plugin: unsupported volumeAttributesClassName is set on ')
    assert reason.endswith("claim default/c when the feature-gate VolumeAttributesClass is disabled")
    unmatched = ["node(s) didn't find available persistent volumes to bind"]
    assert verdict("1.33", objects, incoming(**using("c")), VolumeAttributesClass=True)[1] == unmatched
    assert verdict("1.34", objects, incoming(**using("c")))[1] == unmatched


def test_up_to_1_31_allocatable_may_name_the_limit_of_a_csi_driver():
    objects = cluster(
        {node("n", allocatable={"attachable-volumes-csi-csi.example": "1"}): [pod("p", **using("a"))]},
        others=[
            claim("a"),
            claim("b"),
            *[volume(one, csi={"driver": "csi.example", "volumeHandle": one}) for one in "ab"],
        ],
    )
    objects["items"] = [
        one | {"spec": one["spec"] | {"volumeName": one["metadata"]["name"]}, "metadata": one["metadata"] | BOUND}
        if one["kind"] == "PersistentVolumeClaim"
        else one
        for one in objects["items"]
    ]
    full = ("Unschedulable", ["node(s) exceed max volume count"])
    assert verdict("1.31", objects, incoming(**using("b"))) == full
    assert verdict("1.32", objects, incoming(**using("b")))[0] == "Success"
    objects["items"].append(csi_node("n", "csi.example", count=2))  # overrides allocatable
    assert verdict("1.31", objects, incoming(**using("b")))[0] == "Success"


@pytest.mark.parametrize(
    ("version", "gate", "rejected"),
    [
        ("1.30", None, ()),
        ("1.30", True, ("listed",)),
        ("1.31", None, ("listed",)),
        ("1.31", False, ()),
        ("1.35", None, ("listed",)),
        ("1.36", None, ("listed", "other")),
    ],
)
def test_portworx_volumes_count_where_their_plugin_is_migrated(version, gate, rejected):
    listed = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/portworx-volume"}}
    full, other = (csi_node(name, "pxd.portworx.com", count=0) for name in ("listed", "other"))
    full["metadata"] |= listed
    objects = cluster(dict.fromkeys(map(node, ("listed", "other")), ()), others=[full, other])
    inline = incoming(volumes=[{"name": "v", "portworxVolume": {"volumeID": "1"}}])
    gates = {} if gate is None else {"CSIMigrationPortworx": gate}
    found = evaluated(version, objects, inline, **gates)["filter"]
    assert tuple(name for name, one in found.items() if one["code"] == "Unschedulable") == rejected


BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def test_the_limit_key_of_a_long_driver_name_is_cut_with_a_hash():
    assert limit_key("d" * 39) == f"attachable-volumes-csi-{'d' * 39}"
    cut = limit_key("d" * 40)
    assert (len(cut), cut[:46]) == (62, f"attachable-volumes-csi-{'d' * 23}")


@pytest.mark.parametrize(
    ("plugin", "source", "limit", "labels"),
    [
        ("EBSLimits", lambda nth: {"awsElasticBlockStore": {"volumeID": f"vol-{nth}"}}, 39, {}),
        (
            "EBSLimits",
            lambda nth: {"awsElasticBlockStore": {"volumeID": f"vol-{nth}"}},
            MAX_EBS_VOLUMES_OF_NITRO,
            {"node.kubernetes.io/instance-type": "m5.large"},
        ),
        ("GCEPDLimits", lambda nth: {"gcePersistentDisk": {"pdName": f"disk-{nth}"}}, 16, {}),
        ("AzureDiskLimits", lambda nth: {"azureDisk": {"diskName": f"d{nth}", "diskURI": f"/d/{nth}"}}, 16, {}),
    ],
)
def test_up_to_1_30_in_tree_volumes_are_limited_on_nodes_without_a_csi_node(plugin, source, limit, labels):
    running = pod("p", "1m", volumes=[{"name": f"v{nth}"} | source(nth) for nth in range(limit)])
    objects = cluster({node("n", labels=labels): [running]})
    one = incoming(volumes=[{"name": "v"} | source("new")])
    found = evaluated("1.30", objects, one)
    assert found["filter"]["n"] == {
        "code": "Unschedulable",
        "plugin": plugin,
        "reasons": ["node(s) exceed max volume count"],
    }
    assert found["candidates"] == {"n": {"victims": [running["metadata"]["uid"]], "numPDBViolations": 0}}
    assert verdict("1.31", objects, one)[0] == "Success"
    running["spec"]["volumes"].pop()
    assert verdict("1.30", cluster({node("n", labels=labels): [running]}), one)[0] == "Success"
    objects["items"].append(csi_node("n"))  # volumes are migrated to CSI there
    assert verdict("1.30", objects, one)[0] == "Success"


def test_an_in_tree_limit_of_allocatable_replaces_the_plugin_s_own():
    inline = {"name": "v", "gcePersistentDisk": {"pdName": "disk"}}
    objects = cluster({node("n", allocatable={"attachable-volumes-gce-pd": "0"}): []})
    assert verdict("1.30", objects, incoming(volumes=[inline]))[0] == "Unschedulable"
    assert verdict("1.31", objects, incoming(volumes=[inline]))[0] == "Success"


def test_a_running_pod_with_another_pod_s_claim_ends_the_cycle_until_it_is_evicted():
    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    owned = {"ownerReferences": [{"kind": "Pod", "name": "other", "uid": "uid-other", "controller": True}]}
    others = [
        claim("p-data", metadata=owned),
        volume("mine", csi={"driver": "csi.example", "volumeHandle": "mine"}),
        claim("mine", "mine"),
        csi_node("n", "csi.example", count=3),
    ]
    objects = cluster({node("n", "1"): [pod("p", volumes=[ephemeral])]}, others=others)
    found = evaluated("1.36", objects, incoming(cpu="1", **using("mine")))
    assert found["filter"]["n"]["plugin"] == "NodeResourcesFit"
    assert list(found["candidates"]) == ["n"]  # without p, which the pod evicts
    found = evaluated("1.36", objects, incoming(cpu=None, **using("mine")))
    message = "PVC default/p-data was not created for pod default/p (pod is not owner)"
    assert found["cycleError"] == f'running "NodeVolumeLimits" filter plugin: {message}'
    assert evaluated("1.36", objects, incoming(cpu=None)).get("cycleError") is None
    # Where the pod's only volume is not migrated, the volumes of other pods are not looked at.
    portworx = incoming(cpu=None, volumes=[{"name": "v", "portworxVolume": {"volumeID": "1"}}])
    assert evaluated("1.36", objects, portworx)["cycleError"] == found["cycleError"]
    assert evaluated("1.35", objects, portworx).get("cycleError") is None


def test_a_claim_that_changes_its_owner_is_followed():
    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    found = built(cluster({node("n"): [pod("p", volumes=[ephemeral])]}))
    index, (row,) = found.index(AttachedVolumeIndex), range(1)
    others, own = (
        _typed(claim("p-data", metadata={"ownerReferences": [{"kind": "Pod", "uid": uid, "controller": True}]}))
        for uid in ("uid-other", "uid-p")
    )
    for put, expected in ((others, {row}), (own, set()), (others, {row})):
        found.put("PersistentVolumeClaim", put)
        assert index.others_claims.keys() == expected
    found.remove("PersistentVolumeClaim", ("default", "p-data"))
    assert not index.others_claims
    found.put("PersistentVolumeClaim", others)
    found.remove("Pod", ("default", "p"))
    assert not index.others_claims


# --- 1.37: verdicts of v1.36 with the feature gates -----------------------------------------------------------------


def test_volume_limit_scaling_keeps_pods_off_nodes_without_the_driver():
    driver = thing("CSIDriver", "csi.example", spec={"preventPodSchedulingIfMissing": True})
    nodes = dict.fromkeys(map(node, ("with", "without", "no-csi-node")), ())
    others = [
        claim("c", storageClassName="lazy"),
        storage_class(),
        csi_node("with", "csi.example"),
        csi_node("without"),
    ]
    objects = cluster(nodes, others=[*others, driver])
    expected = {"with": "Success", "without": "Unschedulable", "no-csi-node": "Unschedulable"}
    for version, gates in (("1.36", {"VolumeLimitScaling": True}), ("1.37", {})):
        found = evaluated(version, objects, incoming(**using("c")), **gates)["filter"]
        assert {name: one["code"] for name, one in found.items()} == expected
        assert found["without"]["reasons"] == ["csi.example CSI driver is not installed on the node"]
    for version, spec in (("1.36", driver["spec"]), ("1.37", {"preventPodSchedulingIfMissing": False}), ("1.37", {})):
        found = evaluated(version, cluster(nodes, others=[*others, driver | {"spec": spec}]), incoming(**using("c")))
        assert {one["code"] for one in found["filter"].values()} == {"Success"}


def test_an_in_tree_volume_needs_its_driver_only_where_it_is_migrated():
    driver = thing("CSIDriver", "ebs.csi.aws.com", spec={"preventPodSchedulingIfMissing": True})
    objects = cluster({node("without"): [], node("no-csi-node"): []}, others=[driver, csi_node("without")])
    inline = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    found = evaluated("1.37", objects, incoming(volumes=[inline]))["filter"]
    assert {name: one["code"] for name, one in found.items()} == {"without": "Unschedulable", "no-csi-node": "Success"}


def capacity(name, size, at):
    topology = {"matchLabels": {"kubernetes.io/hostname": at}}
    return thing(
        "CSIStorageCapacity", name, namespace="default", storageClassName="lazy", capacity=size, nodeTopology=topology
    )


def test_storage_capacity_scoring_prefers_what_the_shape_says():
    driver = thing("CSIDriver", "csi.example", spec={"storageCapacity": True})
    nodes = dict.fromkeys((node(name, labels={"kubernetes.io/hostname": name}) for name in ("small", "large")), ())
    capacities = [capacity("a", "20Gi", "small"), capacity("b", "100Gi", "large")]
    objects = cluster(nodes, others=[claim("c", storageClassName="lazy"), storage_class(), driver, *capacities])

    def scores(version, args=None, **gates):
        profiles = [{"schedulerName": "default-scheduler", "pluginConfig": [{"name": "VolumeBinding", "args": args}]}]
        config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        found = extender.evaluate(
            objects,
            incoming(**using("c")),
            version=version,
            feature_gates=gates,
            scheduler_config=config | ({"profiles": profiles} if args else {}),
        ).to_dict()["scores"]
        return {name: one["plugins"].get("VolumeBinding") for name, one in found.items()}

    assert scores("1.36") == {"small": None, "large": None}
    assert scores("1.37") == scores("1.36", StorageCapacityScoring=True) == {"small": 50, "large": 90}
    packing = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    assert scores("1.37", packing) == {"small": 50, "large": 10}


# --- 1.37 -----------------------------------------------------------------------------------------------------------


def test_since_1_37_image_locality_divides_by_image_volumes_as_well():
    there = [{"names": [name], "sizeBytes": 400 << 20} for name in ("app:1", "data:1")]
    objects = cluster({node("n", images=there): []})
    one = incoming(volumes=[{"name": "v", "image": {"reference": "data:1"}}])
    scores = {
        version: evaluated(version, objects, one)["scores"]["n"]["plugins"]["ImageLocality"]
        for version in ("1.36", "1.37")
    }
    # 100 * (800 MB - 23 MB) / (1000 MB * images - 23 MB)
    assert scores == {"1.36": 79, "1.37": 39}


@pytest.mark.parametrize(
    "waits",
    [{"schedulingGates": [{"name": "quota"}]}, {"resourceClaims": [{"name": "c", "resourceClaimName": "gone"}]}],
)
def test_since_1_37_a_nominated_pod_counts_while_it_is_not_queued(waits):
    nominee = incoming("nominee", cpu="3", status={"nominatedNodeName": "n"}, **waits)
    objects = cluster({node("n", cpu="4"): []}, waiting=[nominee])
    found = {version: verdict(version, objects, incoming(cpu="2"))[0] for version in ("1.36", "1.37")}
    assert found == {"1.36": "Success", "1.37": "Unschedulable"}


def test_since_1_37_the_last_listed_of_equal_unstarted_pods_goes_first():
    objects = cluster({node("n", cpu="2"): [pod(name, start=None) for name in "ab"]})
    victims = {
        version: evaluated(version, objects, incoming())["candidates"]["n"]["victims"] for version in ("1.36", "1.37")
    }
    assert victims == {"1.36": ["uid-a"], "1.37": ["uid-b"]}


def test_since_1_37_unstarted_victims_are_named_in_listing_order_whether_they_break_a_budget_or_not():
    pods = [pod(name, start=None) for name in "abc"]
    objects = cluster({node("n", cpu="3"): pods}, budgets=[budget(app="b")])
    victims = {
        version: evaluated(version, objects, incoming(cpu="3"))["candidates"]["n"]["victims"]
        for version in ("1.36", "1.37")
    }
    assert victims == {"1.36": ["uid-a", "uid-c", "uid-b"], "1.37": ["uid-a", "uid-b", "uid-c"]}


def test_since_1_37_node_name_leaves_one_node_in_prefilter():
    objects = cluster({node("a", unschedulable=True): [], node("b", unschedulable=True): []})
    found = {version: evaluated(version, objects, incoming(nodeName="b")) for version in ("1.36", "1.37")}
    cordoned = ["node(s) were unschedulable"]
    assert {name: one["reasons"] for name, one in found["1.36"]["filter"].items()} == {"a": cordoned, "b": cordoned}
    assert found["1.37"]["prefilterNodes"] == ["b"]
    assert {name: one["reasons"] for name, one in found["1.37"]["filter"].items()} == {
        "a": ["node(s) didn't satisfy plugin(s) [NodeName]"],
        "b": cordoned,
    }


@pytest.mark.parametrize("containers", ["containers", "initContainers", "ephemeralContainers"])
def test_since_1_37_bind_mount_options_need_a_node_that_declares_them(containers):
    mounting = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}
    one = incoming()
    one["spec"] |= {containers: [mounting]}
    objects = cluster({node("old"): [], node("new", declaredFeatures=["VolumeBindMountOptions"]): []})
    reasons = {
        version: {name: status["reasons"] for name, status in evaluated(version, objects, one)["filter"].items()}
        for version in ("1.36", "1.37")
    }
    assert reasons["1.36"] == {"old": [], "new": []}
    assert reasons["1.37"] == {"old": ["node(s) didn't match Pod's required features"], "new": []}


@pytest.mark.parametrize(
    ("reason", "on", "is_left"), [("Deferred", True, True), ("Deferred", False, False), ("", True, False)]
)
def test_a_bound_pod_that_waits_to_grow_is_not_evaluated_with_its_gate(reason, on, is_left):
    status = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}
    growing = pod("growing", cpu="3", nodeName="n", status=status)
    gates = {"InPlacePodVerticalScalingSchedulerPreemption": on}
    found = evaluated("1.37", cluster({node("n"): [growing]}), growing, **gates)
    assert found.get("notEvaluated") == ({"DeferredPodScheduling": ["n"]} if is_left else None)


# --- 1.38: from its release notes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "labels", "since"),
    [
        ({}, {"app": "x"}, 38),
        ({}, {}, 38),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {}, 38),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {"team": "x"}, 29),
        (None, {"app": "x"}, 99),
    ],
)
def test_from_1_38_a_budget_with_an_empty_selector_protects_every_pod_of_its_namespace(selector, labels, since):
    objects = cluster({node("n", "1"): [pod("p", labels=labels)]}, budgets=[budget(selector=selector)])
    for minor in (29, 37, 38):
        found = evaluated(f"1.{minor}", objects, incoming())["candidates"]["n"]
        assert found["numPDBViolations"] == (minor >= since)


def test_from_1_38_a_spread_constraint_with_an_empty_selector_counts_every_pod():
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    one = incoming(topologySpreadConstraints=[spread])
    nodes = {
        node("a", labels={ZONE: "a"}): [pod("p"), pod("q", labels={"app": "x"})],
        node("b", labels={ZONE: "b"}): [],
    }
    for version, code in (("1.37", "Success"), ("1.38", "Unschedulable")):
        found = evaluated(version, cluster(nodes), one)["filter"]
        assert {name: verdict["code"] for name, verdict in found.items()} == {"a": code, "b": "Success"}
