"""What few or many ports, resources and volumes of a pod decide is the same; many cost no column each."""

import random

import pytest

from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.plugins import node_ports, node_resources, node_volume_limits
from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.core.framework.plugins.shared.volume_limit_columns import VolumeLimitConstraint
from extender.core.framework.status import Code
from extender.core.preemption.potential_victims import potential_victims
from extender.core.profile import UPSTREAM
from extender.k8s.version.features import DEFAULT_FEATURES
from tests.abuse.hostile_fields import pods_that_share_claims
from tests.builders import built, cluster, incoming, node, pod, snapshot, thing, typed

# --- resources ------------------------------------------------------------------------------------------------------


def _resources(snapshot, requests):
    context = scheduling_context(snapshot, typed(incoming(requests=requests)), UPSTREAM)
    (constraint,) = node_resources.filter(context)
    return constraint, run_filter_plugins(context)


def test_H1_resources_that_no_node_has_share_a_column():
    nodes = dict.fromkeys((node("n1", allocatable={"example.com/gpu": "1"}), node("n2")), ())
    requests = {f"example.com/none-{nth}": "1" for nth in range(1000)} | {"example.com/gpu": "1"}
    constraint, run = _resources(snapshot(nodes), requests)
    assert len(constraint.headroom) == len(("cpu", "memory", "pods", "gpu", "none"))
    assert set(run.codes.tolist()) == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_all_resources_that_are_short_are_named_in_order():
    nodes = dict.fromkeys((node("n1", cpu="1", allocatable={"example.com/b": "1"}), node("n2")), ())
    requests = {"example.com/c": "1", "example.com/a": "1", "example.com/b": "1", "hugepages-2Mi": "1Mi"}
    _, run = _resources(snapshot(nodes), {"cpu": "2"} | requests)
    names = ["cpu", "example.com/a", "example.com/b", "example.com/c", "hugepages-2Mi"]
    assert run.status(1).reasons == tuple(f"Insufficient {name}" for name in names if name != "cpu")
    assert run.status(0).reasons == tuple(f"Insufficient {name}" for name in names if name != "example.com/b")


# --- host ports -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_ports_in_use_are_counted_as_pod_by_pod(seed):
    chance = random.Random(seed)
    nodes = {node(f"n{n}"): [_with_ports(chance, f"p{n}-{k}", priority=k) for k in range(4)] for n in range(4)}
    built_snapshot, wanted = snapshot(nodes), typed(_with_ports(chance, "incoming", priority=2))
    context = scheduling_context(built_snapshot, wanted, UPSTREAM)
    constraints, own = node_ports.filter(context), node_ports.host_ports(wanted, DEFAULT_FEATURES)
    assert bool(constraints) == bool(own)
    for constraint in constraints:
        evictable = potential_victims(context).evictable
        for removed, headroom in ((False, constraint.headroom), (True, constraint.remove_pods(evictable))):
            for row, name in enumerate(built_snapshot.node_names):
                pods = built_snapshot.pods_on(name)
                kept = [
                    node_ports.host_ports(one, DEFAULT_FEATURES) for one in pods if not (removed and one.priority < 2)
                ]
                freed = [node_ports.host_ports(one, DEFAULT_FEATURES) for one in pods if removed and one.priority < 2]
                used = frozenset().union(*kept) - frozenset().union(*freed)
                assert (headroom[0, row] < 0) == any(_conflict(a, b) for a in own for b in used)


def _conflict(one, other):
    same = (one.port, one.protocol) == (other.port, other.protocol)
    return same and (one.ip == other.ip or "0.0.0.0" in (one.ip, other.ip))


def _with_ports(chance, name, priority):
    ports = [
        {"hostPort": chance.randint(80, 82), "hostIP": chance.choice(["", "10.0.0.1", "10.0.0.2"])}
        for _ in range(chance.randint(0, 2))
    ]
    return pod(name, "1m", priority=priority, ports=ports)


def test_no_address_of_a_port_is_left_of_pods_that_have_left():
    found = snapshot({node("n1"): [pod("a", ports=[{"hostPort": 80}]), pod("b", ports=[{"hostPort": 80}])]})
    index = found.index(node_ports.HostPortIndex)
    assert index.addresses == {("TCP", 80): {"0.0.0.0"}}
    for name, left in (("a", {("TCP", 80): {"0.0.0.0"}}), ("b", {})):
        found.remove("Pod", ("default", name))
        assert index.addresses == left


# --- volumes --------------------------------------------------------------------------------------------------------

DRIVER = "csi.example.com"


@pytest.mark.parametrize(("seed", "pods", "limits"), [*((seed, 4, (2, 6)) for seed in range(20)), (20, 150, (10, 12))])
def test_volumes_that_pods_share_are_counted_as_volume_by_volume(seed, pods, limits):
    chance = random.Random(seed)
    nodes = {node(f"n{n}"): [_with_claims(chance, f"p{n}-{k}", priority=k % 4) for k in range(pods)] for n in range(3)}
    limit = chance.randint(*limits)
    found = built(cluster(nodes, others=[*_storage(12, 3, limit)]))
    for key in [key for key in found.objects.pods if chance.random() < 0.2]:
        found.remove("Pod", key)
    found.refresh_layout()
    wanted = typed(_with_claims(chance, "incoming", priority=2))
    context = scheduling_context(found, wanted, UPSTREAM)
    evictable = potential_victims(context).evictable
    for constraint in node_volume_limits.filter(context):
        assert isinstance(constraint, VolumeLimitConstraint)
        for removed, headroom in ((False, constraint.headroom), (True, constraint.remove_pods(evictable))):
            fits = constraint.fits(headroom)
            for row, name in enumerate(found.node_names):
                kept = [one for one in found.pods_on(name) if not (removed and one.priority < 2)]
                used, own = set().union(*map(_claims, kept)), _claims(wanted)
                assert fits[row] == (own <= used or len(own | used) <= limit)


def test_H1_volumes_with_the_same_users_share_a_column():
    many = [{"name": f"v{nth}", "persistentVolumeClaim": {"claimName": f"c{nth}"}} for nth in range(500)]
    pods = [pod(name, "1m", volumes=many) for name in ("a", "b")]
    found = built(cluster({node("n0"): pods}, others=[*_storage(500, 1, 600)]))
    (constraint,) = node_volume_limits.filter(scheduling_context(found, typed(incoming(volumes=many)), UPSTREAM))
    assert len(constraint.headroom) == len(("unshared", "shared", "own"))
    volumes = found.index(AttachedVolumeIndex).of(DRIVER)
    for name, unshared in (("a", [500]), ("b", [])):
        found.remove("Pod", ("default", name))
        found.refresh_layout()
        assert not volumes.sharing
        assert [*volumes.unshared.values()] == unshared


def test_H1_pods_that_share_volumes_in_many_ways_need_few_columns():
    pods = pods_that_share_claims(14, 1000, "c")
    found = built(cluster({node("n0"): pods}, others=[*_storage(1000, 1, 600)]))
    other = typed(incoming(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}]))
    (constraint,) = node_volume_limits.filter(scheduling_context(found, other, UPSTREAM))
    assert len(constraint.headroom) == len(("unshared", "shared", "own"))


def _claims(one):
    return {volume.persistent_volume_claim.claim_name for volume in one.spec.volumes or ()}


def _with_claims(chance, name, priority):
    names = chance.sample(range(12), chance.randint(0, 4))
    volumes = [{"name": f"v{nth}", "persistentVolumeClaim": {"claimName": f"c{nth}"}} for nth in sorted(names)]
    return pod(name, "1m", priority=priority, volumes=volumes)


def _storage(claims, nodes, limit):
    for nth in range(claims):
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        spec = {"volumeName": f"pv{nth}", "accessModes": ["ReadWriteMany"]}
        yield thing("PersistentVolumeClaim", f"c{nth}", namespace="default", metadata=bound, spec=spec)
        yield thing("PersistentVolume", f"pv{nth}", spec={"csi": {"driver": DRIVER, "volumeHandle": f"h{nth}"}})
    for nth in range(nodes):
        yield thing("CSINode", f"n{nth}", spec={"drivers": [{"name": DRIVER, "allocatable": {"count": limit}}]})
