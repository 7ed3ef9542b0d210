"""Allocations on all nodes at once equal those of the allocator node by node, whatever has been kept before.

python -c 'from tests.core.devices.test_node_allocations import check; check(4711)'
"""

import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

from extender.core.devices import device_index, node_allocations, node_equivalence
from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.node_allocations import (
    NOT_ASKED,
    AllocationFailed,
    CannotAllocate,
    NodeAllocations,
    NotAllocated,
    allocate_on_nodes,
)
from extender.core.devices.structured.allocation import AllocatedState, ClaimToAllocate
from extender.core.devices.structured.allocator import Allocator
from extender.core.devices.structured.pools import (
    AllocationError,
    InvalidPools,
    NotEvaluated,
    PoolID,
    gather_pools,
    is_seen_for_counters,
)
from extender.core.devices.structured.taints import with_rule_taints
from extender.core.engine import prepare
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from extender.k8s.devices.selector import compile_selector
from extender.k8s.kinds import KINDS
from extender.k8s.limits import limits
from extender.k8s.limits.limits import WorkBudget
from extender.k8s.quantity import parse
from extender.k8s.version.features import DEFAULT_FEATURES, Features
from tests.builders import JSON, NodeObject, built, cluster, node, stored_cluster, thing
from tests.device_builders import (
    DRIVER,
    alternative,
    claim,
    device,
    device_class,
    first_available,
    match_attribute,
    request,
    resource_slice,
)
from tests.profiles import SEEDS, by_profile, examples

SOME = examples(4, 120, 20_000)

STEPS = 4
NODES = [f"n{number}" for number in range(6)]
DRIVERS = (DRIVER, "net.example.com")
EXPRESSIONS = (
    f'device.driver == "{DRIVER}"',
    f'device.attributes["{DRIVER}"].model == "A"',
    f'device.attributes["{DRIVER}"].model == "A" && "index" in device.attributes["{DRIVER}"]',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["rack.example.com"].row < 2',
    "device.attributes[device.driver].model != 'B'",
    "device.driver.startsWith(",
)
VERSIONS = (
    DEFAULT_FEATURES,
    DEFAULT_FEATURES,
    DEFAULT_FEATURES,
    Features.of(37),
    Features.of(36, {"DRADeviceTaintRules": True}),
    Features.of(36, {"DRAPartitionableDevices": False, "DRAConsumableCapacity": False, "DRADeviceTaints": False}),
    Features.of(35),
    Features.of(34),
)


class Chance(random.Random):
    """One seed, which also says how often something unusual comes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.unusual = self.choice((0, 0, 0.3, 1))

    def rarely(self, probability: float) -> bool:
        return self.random() < probability * self.unusual


# --- random objects -------------------------------------------------------------------------------------------------


def some_device(chance: Chance, name: str, *, counters: bool, by_device: bool) -> JSON:
    attributes: JSON = {"uuid": f"{chance.random()}", "model": chance.choice("AAAB")}
    if chance.random() < 0.3:
        attributes["index"] = chance.randint(0, 2)
    if chance.random() < 0.9:
        attributes["rack.example.com/row"] = chance.randint(1, 2)
    if chance.rarely(0.05):
        attributes[f"{DRIVER}/model"] = "A"
    if chance.random() < 0.2:
        attributes["driverVersion"] = {"version": "1" if chance.rarely(0.1) else "1.2.3"}
    fields: JSON = {"capacity": {"memory": chance.choice(("40Gi", "40Gi", "80Gi", "10Gi"))}}
    if chance.rarely(0.15):
        fields["allowMultipleAllocations"] = True
    if chance.rarely(0.1):
        policy = {"default": "10Gi", "validRange": {"min": "5Gi"}}
        fields["capacity"]["memory"] = {"value": "80Gi", "requestPolicy": policy}
    if chance.rarely(0.1):
        fields["taints"] = [{"key": "broken", "effect": chance.choice(("NoSchedule", "NoExecute", "None"))}]
    if chance.rarely(0.1):
        fields["bindingConditions"], fields["bindingFailureConditions"] = ["ready"], ["failed"]
    if counters and chance.random() < 0.8:
        used = {"slots": {"value": str(chance.randint(1, 2))}}
        fields["consumesCounters"] = [{"counterSet": chance.choice(("c0", "c0", "c0", "c1")), "counters": used}]
    if by_device:
        fields |= some_place(chance)
    return device(name, attributes=attributes, **fields)


def some_place(chance: Chance) -> JSON:
    """Where a shared slice, or a device, is seen."""
    kind = chance.randrange(3)
    if kind == 0:
        return {"nodeName": chance.choice(NODES)}
    if kind == 1:
        return {"allNodes": True}
    operator, values = chance.choice((("In", ["a"]), ("NotIn", ["a"]), ("Exists", []), ("In", ["b"]), ("Gt", ["x"])))
    if operator == "Gt" and chance.random() < 0.8:
        operator, values = "In", ["a", "b"]
    expression = {"key": "zone", "operator": operator} | ({"values": values} if values else {})
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def nearly_alike(chance: Chance) -> Iterator[JSON]:
    """Equal slices for each node, some with one other device, and shared ones."""
    common = [one for _ in range(chance.choice((1, 1, 2))) for one in some_slices(chance, (NODES[0],))]
    common = [*{one["metadata"]["name"]: one for one in common}.values()]
    for name in NODES:
        for one in deepcopy(common):
            one["metadata"]["name"] = f"{name}-{one['metadata']['name']}"
            one["spec"]["nodeName"] = name
            one["spec"]["pool"]["name"] = f"{name}-{one['spec']['pool']['name']}"
            its = one["spec"]["devices"]
            if its and chance.random() < 0.3:
                at = chance.randrange(len(its))
                counters = "consumesCounters" in its[at]
                its[at] = some_device(chance, its[at]["name"], counters=counters, by_device=False)
            yield one
    for _ in range(chance.choice((0, 0, 1, 2))):
        yield from some_slices(chance, (None,))


def some_slices(chance: Chance, homes: Sequence[str | None] = (*NODES, *NODES, None)) -> Iterator[JSON]:
    """The slices of a pool, of a node or shared."""
    driver, home = chance.choice((DRIVER, *DRIVERS)), chance.choice(homes)
    pool = chance.choice((home or "shared", "p0", "p1"))
    of_pool = chance.choice((1, 1, 1, 2))
    counters = chance.rarely(0.5)
    for number in range(of_pool + counters):
        generation = 1 + chance.rarely(0.05)
        counted = of_pool + counters + chance.rarely(0.05)
        common: JSON = {"driver": driver, "pool": pool, "generation": generation, "slices": counted}
        name = f"{driver[:3]}-{pool}-{home}-{number}"
        if number == of_pool:
            sets = [{"name": f"c{at}", "counters": {"slots": {"value": "3"}}} for at in range(chance.choice((1, 1, 2)))]
            yield resource_slice(name, home, [], sharedCounters=sets, **(common | ({} if home else {"allNodes": True})))
            continue
        by_device = home is None and chance.random() < 0.4
        here = [
            some_device(
                chance, f"d{(0 if chance.rarely(0.1) else at) + 10 * number}", counters=counters, by_device=by_device
            )
            for at in range(chance.randint(1, 4))
        ]
        where: JSON = {} if home else {"perDeviceNodeSelection": True} if by_device else some_place(chance)
        if "nodeName" in where:
            where = {"allNodes": True}
        yield resource_slice(name, home, here, **common, **where)


def some_alternative(chance: Chance, **fields: Any) -> JSON:
    if chance.random() < 0.08:
        fields["allocationMode"] = "All"
    elif chance.random() < 0.4:
        fields["count"] = chance.choice((2, 2, 3))
    if chance.random() < 0.2:
        fields["tolerations"] = [{"operator": "Exists"}]
    if chance.random() < 0.08:
        fields["capacity"] = {"requests": {"memory": chance.choice(("5Gi", "20Gi"))}}
    expressions = chance.sample(EXPRESSIONS[:-1], chance.choice((0, 0, 0, 1, 1, 2)))
    if chance.random() < 0.02:
        expressions.append(EXPRESSIONS[-1])
    return alternative(
        chance.choice(("gpu", "gpu", "gpu", "any", "absent" if chance.random() < 0.03 else "any")),
        *expressions,
        **fields,
    )


def some_claim(chance: Chance, name: str, slices: Sequence[JSON]) -> JSON:
    requests = []
    for number in range(chance.choice((1, 1, 2))):
        if chance.random() < 0.25:
            alternatives = [some_alternative(chance) for _ in range(2)]
            requests.append(first_available(*alternatives, name=f"r{number}"))
        else:
            access = {"adminAccess": True} if chance.random() < 0.1 else {}
            requests.append({"name": f"r{number}", "exactly": some_alternative(chance, **access)})
    constraints = []
    if chance.random() < 0.3:
        constraints.append(
            match_attribute(chance.choice((f"{DRIVER}/model", "rack.example.com/row", f"{DRIVER}/uuid")))
        )
    if chance.random() < 0.15:
        constraints.append({"distinctAttribute": f"{DRIVER}/index"})
    return claim(name, *requests, constraints=constraints, allocated=some_results(chance, slices))


def some_results(chance: Chance, slices: Sequence[JSON]) -> list[JSON] | None:
    if chance.random() < 0.5:
        return None
    known = [(one["spec"], its) for one in slices for its in one["spec"]["devices"]]
    found = []
    for spec, its in chance.sample(known, min(len(known), chance.randint(0, 4))):
        result: JSON = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": its["name"]}
        if its.get("allowMultipleAllocations") or chance.random() < 0.1:
            result["shareID"] = f"{chance.random()}"
            if chance.random() < 0.8:
                result["consumedCapacity"] = {"memory": chance.choice(("5Gi", "30Gi", "0"))}
        if chance.random() < 0.1:
            result["adminAccess"] = True
        found.append(result)
    return found


def some_objects(chance: Chance) -> JSON:
    nodes: dict[NodeObject, list[JSON]] = {
        node(name, labels={"zone": chance.choice("ab")} if chance.random() < 0.8 else {}): [] for name in NODES
    }
    if chance.random() < 0.6:
        slices = [*nearly_alike(chance)]
    else:
        slices = [one for _ in range(chance.randint(3, 12)) for one in some_slices(chance)]
    slices = [*{one["metadata"]["name"]: one for one in slices}.values()]
    for one in slices:
        if not chance.rarely(0.05):
            pool = one["spec"]["pool"]
            same = (pool["name"], one["spec"]["driver"])
            count = sum((other["spec"]["pool"]["name"], other["spec"]["driver"]) == same for other in slices)
            pool["resourceSliceCount"] = count
    claims = [some_claim(chance, f"claim-{number}", slices) for number in range(6)]
    classes = [
        device_class("gpu", EXPRESSIONS[0]),
        device_class("any", *chance.choice(((), (), (), (EXPRESSIONS[1],)))),
    ]
    taint = {"key": "rule", "effect": "NoSchedule"}
    rule = thing("DeviceTaintRule", "rule", spec={"deviceSelector": {"pool": "p0"}, "taint": taint})
    return cluster(nodes, others=[*classes, *slices, *claims, *([rule] if chance.random() < 0.3 else [])])


# --- node by node ---------------------------------------------------------------------------------------------------


def state_of(snapshot: Snapshot) -> AllocatedState:
    """Devices in use, from all claims."""
    results = [
        result
        for one in snapshot.objects.resource_claims.values()
        if one.status.allocation is not None
        for result in one.status.allocation.devices.results or ()
        if not result.admin_access
    ]
    are_shared = snapshot.features.dra_consumable_capacity
    shared = [one for one in results if one.share_id is not None and are_shared]
    capacity: dict[tuple[str, str, str], dict[str, int]] = {}
    for one in shared:
        for name, amount in (one.consumed_capacity or {}).items():
            amounts = capacity.setdefault(id_of(one), {})
            amounts[name] = amounts.get(name, 0) + parse(amount)
    whole = {id_of(one) for one in results if one not in shared}
    return AllocatedState(whole, {id_of(one) for one in shared}, capacity)


def id_of(one: DeviceRequestAllocationResult) -> tuple[str, str, str]:
    return one.driver, one.pool, one.device


def expected_on(snapshot: Snapshot, claims: Sequence[ClaimToAllocate], row: int) -> Any:
    """What the allocator says about one node that knows nothing of others."""
    features = snapshot.features
    rules = tuple(snapshot.objects.device_taint_rules.values()) if features.dra_device_taint_rules else ()
    needs_selector = features.taint_rules_need_a_selector
    tables = snapshot.objects
    slices = [with_rule_taints(one, rules, needs_selector=needs_selector) for one in tables.resource_slices.values()]
    everywhere = [one for one in slices if is_seen_for_counters(one.spec, features)]
    its_own = [one for one in slices if one.spec.node_name == snapshot.node_names[row] and one not in everywhere]
    others = [one for one in slices if not one.spec.node_name or one in everywhere]

    def of_pool(pool: PoolID) -> list[ResourceSlice]:
        return [one for one in slices if (one.spec.driver, one.spec.pool.name) == pool]

    classes = {one.metadata.name: one for one in snapshot.objects.device_classes.values()}
    allocator = Allocator(claims, classes, partial(compile_selector, of_1_37=features.selectors_of_1_37), features)
    try:
        pools = gather_pools([*its_own, *others], snapshot.nodes[row], of_pool, features)
        found = allocator.allocate(snapshot.nodes[row], pools, state_of(snapshot), WorkBudget(10**9))
    except (AllocationError, InvalidPools) as failure:
        return AllocationFailed(str(failure), isinstance(failure, AllocationError))
    except NotEvaluated as missing:
        return NotAllocated(str(missing))
    return CannotAllocate() if found is None else found


def without_places(outcome: Any) -> Any:
    """The outcome without places of pools: pools that offer nothing are left out."""
    if not isinstance(outcome, tuple):
        return outcome
    return tuple(one._replace(devices=tuple(each._replace(at=(0, 0)) for each in one.devices)) for one in outcome)


# --- properties -----------------------------------------------------------------------------------------------------


def check(seed: int) -> None:
    """Change a snapshot at random, and compare all claims on all nodes after every few changes."""
    chance = Chance(seed)
    features = chance.choice(VERSIONS)
    living = Snapshot(features)
    for _ in range(STEPS):
        for kind, one in chance_objects(chance, living):
            if one is None:
                continue
            living.put(kind, one)
        removed = [
            (kind, key)
            for kind in KINDS
            if kind not in ("Pod", "DeviceClass")
            for key in getattr(living.objects, KINDS[kind].field)
        ]
        for kind, key in chance.sample(removed, min(len(removed), chance.randint(0, 3))):
            living.remove(kind, key)
        living.refresh_layout()
        compare(living, chance)


def chance_objects(chance: Chance, living: Snapshot) -> Iterator[tuple[str, Any]]:
    """All objects of a cluster for an empty snapshot, else a few of another cluster, which replace some."""
    objects = stored_cluster(some_objects(chance))
    found = [(kind, one) for kind, of_kind in KINDS.items() for one in getattr(objects, of_kind.field)]
    if living.nodes:
        found = chance.sample(found, chance.randint(1, 4))
    return iter(found)


def compare(living: Snapshot, chance: Chance) -> None:
    specs = list(living.objects.resource_claims.values())
    for _ in range(3):
        chosen = chance.sample(specs, min(len(specs), chance.choice((1, 1, 2))))
        claims = [ClaimToAllocate("default", one.metadata.name, one.spec.devices) for one in chosen]
        rows = np.array([row for row in range(len(living.nodes)) if chance.random() < 0.8], np.int64)
        asked = None if chance.random() < 0.5 else rows
        found = allocate_on_nodes(living, claims, asked)
        for row in range(len(living.nodes)):
            if asked is not None and row not in asked:
                assert found.outcome[row] == NOT_ASKED
                continue
            expected = without_places(expected_on(living, claims, row))
            assert without_places(found.at(row)) == expected, "a node ends otherwise among others than alone"
            alike = found.outcomes[found.outcome[row]]
            assert type(alike) is type(expected)
            if isinstance(alike, tuple):
                assert [one.chosen for one in alike] == [one.chosen for one in expected], "other devices are chosen"
            else:
                assert alike == expected


@SOME
@given(seed=SEEDS)
def test_nodes_together_end_as_each_on_its_own(seed):
    check(seed)


# --- what is kept ---------------------------------------------------------------------------------------------------

ALL = {"allocationMode": "All"}


def gpus(*numbers: int) -> list[JSON]:
    """A slice of two devices for some of the nodes, each device with an attribute that no other has."""
    return [
        resource_slice(f"s{at}", f"n{at}", [device(f"d{of}", attributes={"uuid": f"{at}-{of}"}) for of in range(2)])
        for at in numbers
    ]


def asked(living: Snapshot, *names: str) -> NodeAllocations:
    claims = [living.objects.resource_claims["default", name] for name in names]
    return allocate_on_nodes(
        living, [ClaimToAllocate("default", one.metadata.name, one.spec.devices) for one in claims]
    )


def text_at(found: NodeAllocations, row: int) -> str:
    outcome = found.at(row)
    assert isinstance(outcome, AllocationFailed)
    return outcome.text


def with_claims(*claims: JSON, slices: Sequence[JSON]) -> Snapshot:
    nodes: dict[NodeObject, list[JSON]] = {node(name): [] for name in NODES}
    return built(cluster(nodes, others=[device_class("gpu", EXPRESSIONS[0]), *slices, *claims]))


def test_nodes_that_differ_in_what_nobody_reads_share_an_outcome():
    living = with_claims(claim("mine", request(count=2)), slices=gpus(0, 1, 2, 3))
    found = asked(living, "mine")
    assert found.outcome.tolist() == [0, 0, 0, 0, 1, 1]
    third = found.at(2)
    assert isinstance(third, tuple)
    (of_third,) = third
    assert [one.id for one in of_third.devices] == [(DRIVER, "n2", "d0"), (DRIVER, "n2", "d1")]


GI = {"requests": {"memory": "30Gi"}}
MODEL = f'device.attributes["{DRIVER}"].model == "A"'
SLOTS = [{"counterSet": "c", "counters": {"slots": {"value": "2"}}}]
POLICY = {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "10Gi", "max": "20Gi"}}}


def counting(at: int, slots: str) -> list[JSON]:
    """A pool of a node with a device that consumes two slots."""
    counters = [{"name": "c", "counters": {"slots": {"value": slots}}}]
    using = device("d", consumesCounters=SLOTS)
    fields: JSON = {"pool": f"p{at}", "slices": 2}
    return [
        resource_slice(f"c{at}", f"n{at}", [], sharedCounters=counters, **fields),
        resource_slice(f"d{at}", f"n{at}", [using], **fields),
    ]


def one(at: int, **fields: Any) -> list[JSON]:
    """A slice of a node with one device."""
    return [resource_slice(f"s{at}", f"n{at}", [device("d", **fields)])]


SHARED = {"shareID": "id", "pool": "n1", "device": "d"}
DIFFERENT: dict[str, tuple[Any, ...]] = {
    "a taint": (request(), one(0), one(1, taints=[{"key": "broken", "effect": "NoSchedule"}])),
    "an attribute that a selector reads": (
        request("gpu", MODEL),
        one(0, attributes={"model": "A"}),
        one(1, attributes={"model": "B"}),
    ),
    "an attribute that a selector reads, with its domain": (
        request("gpu", MODEL),
        one(0, attributes={f"{DRIVER}/model": "A"}),
        one(1, attributes={"other.example.com/model": "A"}),
    ),
    "an attribute without a value": (
        request("gpu", MODEL),
        one(0, attributes={"model": "A", "other": "x"}),
        one(1, attributes={"model": "A", "other": {}}),
    ),
    "capacity that a selector reads": (
        request("gpu", EXPRESSIONS[3]),
        one(0, capacity={"memory": "40Gi"}),
        one(1, capacity={"memory": "39Gi"}),
    ),
    "capacity that is requested": (
        request(capacity=GI),
        one(0, capacity={"memory": "40Gi"}),
        one(1, capacity={"memory": "20Gi"}),
    ),
    "a request policy": (
        request(capacity=GI),
        one(0, capacity={"memory": "80Gi"}),
        one(1, capacity={"memory": POLICY}),
    ),
    "consumed capacity": (
        request(capacity=GI),
        one(0, capacity={"memory": "40Gi"}, allowMultipleAllocations=True),
        one(1, capacity={"memory": "40Gi"}, allowMultipleAllocations=True),
        claim("x", request(), allocated=[SHARED | {"consumedCapacity": {"memory": "20Gi"}}]),
    ),
    "a device in use": (request(), one(0), one(1), claim("x", request(), allocated=[("n1", "d")])),
    "a device in use without administrator's access": (
        request(),
        one(1),
        one(0),
        claim("x", request(), allocated=[{"pool": "n1", "device": "d", "adminAccess": True}, ("n0", "d")]),
    ),
    "counters of its pool": (request(), counting(0, "2"), counting(1, "1")),
    "a device for another node": (
        request(),
        [resource_slice("s0", None, [device("d", nodeName="n0")], perDeviceNodeSelection=True)],
        [resource_slice("s1", None, [device("e", nodeName="n0")], perDeviceNodeSelection=True)],
    ),
    "an incomplete pool": (request(), one(0), [resource_slice("s1", "n1", [device("d")], slices=2)]),
    "two devices of one name": (request(), one(0), [resource_slice("s1", "n1", [device("d"), device("d")])]),
    "the driver": (request(), one(0), [resource_slice("s1", "n1", [device("d")], driver=DRIVERS[1])]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_nodes_that_differ_in_one_thing_end_differently(what):
    wanted, fits, does_not, *others = DIFFERENT[what]
    living = with_claims(claim("mine", wanted), *others, slices=[*fits, *does_not])
    found = asked(living, "mine")
    outcomes = [isinstance(found.outcomes[found.outcome[row]], tuple) for row in range(2)]
    expected = [isinstance(node_by_node(living, "mine", row), tuple) for row in range(2)]
    assert outcomes == expected
    assert sorted(outcomes) == [False, True]


def node_by_node(living: Snapshot, name: str, row: int) -> Any:
    spec = living.objects.resource_claims["default", name].spec.devices
    return expected_on(living, [ClaimToAllocate("default", name, spec)], row)


def test_claims_of_the_same_content_share_what_is_kept_and_keep_their_names():
    slices = [*gpus(0), resource_slice("t", "n1", [], slices=2)]
    living = with_claims(claim("one", request(**ALL)), claim("two", request(**ALL)), slices=slices)
    at = living.node_row["n1"]
    texts = [text_at(asked(living, name), at) for name in ("one", "two", "one")]
    reason = f"request r: asks for all devices, but resource pool {DRIVER}/n1 is currently being updated"
    assert texts == [f"claim default/{name}, {reason}" for name in ("one", "two", "one")]


def test_a_text_names_the_devices_of_each_node():
    slices = [resource_slice(f"s{at}", f"n{at}", [], slices=2) for at in range(3)]
    living = with_claims(claim("mine", request(**ALL)), slices=slices)
    found = asked(living, "mine")
    assert [f"{DRIVER}/n{at} is" in text_at(found, at) for at in range(3)] == [True] * 3
    assert found.outcomes[found.outcome[3]] == CannotAllocate()


def test_a_text_in_which_a_devices_name_only_occurs_is_shared():
    slices = [resource_slice(f"s{at}", f"n{at}", [device("e", attributes={"uuid": f"{at}"})]) for at in range(3)]
    living = with_claims(claim("mine", request("gpu", "device.driver.")), slices=slices)
    found = asked(living, "mine")
    assert "CEL compile error" in text_at(found, 0)
    assert found.outcome[:3].tolist() == [0, 0, 0]


def test_a_claim_that_takes_the_devices_of_a_node_changes_its_outcome():
    living = with_claims(claim("mine", request()), slices=gpus(0, 1))
    assert asked(living, "mine").outcome.tolist() == [0, 0, 1, 1, 1, 1]
    theirs = claim("theirs", request(), allocated=[("elsewhere", "d0")])
    living.put("ResourceClaim", msgspec.convert(theirs, ResourceClaim))
    assert asked(living, "mine").outcome.tolist() == [0, 0, 1, 1, 1, 1]
    theirs = claim("theirs", request(), allocated=[("n1", "d0"), ("n1", "d1")])
    living.put("ResourceClaim", msgspec.convert(theirs, ResourceClaim))
    assert asked(living, "mine").outcome.tolist() == [0, 1, 1, 1, 1, 1]


STEP_LIMITS = (0, *range(1410, 1530, 10), 10_000)
"""The first two are not enough to compile the selectors."""


def test_too_much_work_is_not_evaluated_where_it_comes_too_late_whatever_is_kept(monkeypatch):
    names = [f"claim-{number}" for number in range(2)]
    claims = [claim(name, request("gpu", f'device.attributes["{DRIVER}"].uuid != "{name}"')) for name in names]

    def outcomes(steps: int, *, warm: bool) -> list[int]:
        living = with_claims(*claims, slices=gpus(0, 1, 2))
        if warm:
            asked(living, *names)
        monkeypatch.setattr(limits, "MAX_CALL_STEPS", steps)
        living.put("ResourceClaim", msgspec.convert(claim("x", request(), allocated=[("n5", "d")]), ResourceClaim))
        living.put("ResourceSlice", msgspec.convert(gpus(4)[0], ResourceSlice))
        found = asked(living, *names)
        monkeypatch.undo()
        return [isinstance(found.at(row), NotAllocated) for row in range(len(NODES))]

    late = [outcomes(steps, warm=False) for steps in STEP_LIMITS]
    assert late == [outcomes(steps, warm=True) for steps in STEP_LIMITS]
    assert late[0] == [True] * 6
    assert late[-1] == [False] * 6
    assert [sum(one) for one in late] == sorted([sum(one) for one in late], reverse=True)
    assert len({sum(one) for one in late}) > 2


LIMITS = {
    "_MAX_ANSWERS_PER_NODE": node_allocations,
    "_MAX_CHANGES": device_index,
    "_MAX_CLAIMS": node_allocations,
    "_MAX_EQUIVALENCES": node_allocations,
    "_SPARE": node_equivalence,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_had_to_make_room_changes_no_outcome(limit, monkeypatch):
    monkeypatch.setattr(LIMITS[limit], limit, 1)
    for seed in range(by_profile(1, 4, 40)):
        check(seed)


def test_a_cluster_whose_pods_use_no_devices_has_no_index_of_them():
    for claims in ((), (claim("mine", request()),)):
        living = prepare(with_claims(*claims, slices=gpus(0, 1)))
        assert (DeviceIndex in {kind for kind, *_ in living._indexes}) == bool(claims)


def test_selectors_that_take_too_much_work_to_compile_are_not_compiled():
    texts = [f'device.driver == "{number}{"x" * 8000}"' for number in range(16)]
    claims = [claim("long", request("gpu", *texts)), claim("short", request())]
    living = with_claims(*claims, slices=gpus(0))
    found = asked(living, "long")
    assert [found.at(row) for row in range(6)] == [NotAllocated("more work than 1000000 steps")] * 6
    assert isinstance(asked(living, "short").at(0), tuple)
