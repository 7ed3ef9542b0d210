"""The search for devices, branch by branch: one node, its slices, and the claims of a pod."""

from functools import partial
from types import SimpleNamespace

import msgspec
import pytest

from extender.core.devices.structured.allocation import AllocatedState, ClaimToAllocate
from extender.core.devices.structured.allocator import Allocator
from extender.core.devices.structured.pools import AllocationError, InvalidPools, NotEvaluated, gather_pools
from extender.core.devices.structured.taints import with_rule_taints
from extender.k8s.devices.objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from extender.k8s.devices.selector import OPTIONAL_FIELD, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached
from extender.k8s.objects import Node
from extender.k8s.version.features import Features
from extender.k8s.version.versions import Version
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

NONE = "cannot allocate all claims"
ABSENT = 'deviceclass.resource.k8s.io "absent" not found'
CLASSES = [device_class("gpu"), device_class("only-a", f'device.attributes["{DRIVER}"].model == "a"')]


def every(name="r", **fields):
    return request(name=name, allocationMode="All", **fields)


def distinct_attribute(attribute, *requests):
    return {"distinctAttribute": attribute} | ({"requests": list(requests)} if requests else {})


def slice_of(*names, node="n1", pool="p", at="s", **spec):
    """A slice with devices of these names (or raw ones)."""
    published = [device(one) if isinstance(one, str) else one for one in names]
    return resource_slice(at, node, published, pool=pool, **spec)


def counted(name, **amounts):
    """A device that consumes counters of the set `set`."""
    consumed = {key: {"value": str(value)} for key, value in amounts.items()}
    return device(name, consumesCounters=[{"counterSet": "set", "counters": consumed}])


def counters(pool="p", at="counters", driver=DRIVER, slices=2, **amounts):
    sets = [{"name": "set", "counters": {key: {"value": str(value)} for key, value in amounts.items()}}]
    return resource_slice(at, None, [], pool=pool, driver=driver, slices=slices, sharedCounters=sets, allNodes=True)


def world(slices, claims, minor=36, labels=None, used=(), shared=(), capacity=None, classes=None, gates=None):
    """What `found` reads, as objects."""
    features = Features.of(minor, gates or {})
    known = [msgspec.convert(one, ResourceSlice) for one in slices]
    node = msgspec.convert({"metadata": {"name": "n1", "labels": labels or {}}}, Node)
    specs = [msgspec.convert(one, ResourceClaim) for one in claims]
    by_name = {one["metadata"]["name"]: msgspec.convert(one, DeviceClass) for one in classes or CLASSES}
    to_allocate = [ClaimToAllocate("default", one.metadata.name, one.spec.devices) for one in specs]
    state = AllocatedState({_id(one) for one in used}, {_id(one) for one in shared}, capacity)
    return SimpleNamespace(**locals())


def _id(one):
    pool, name = one.split("/")
    return DRIVER, pool, name


def allocated(slices, *claims, steps=100_000, **options):
    """The claims with their devices; raises what the allocator raises."""
    at = world(slices, claims, **options)
    pools = gather_pools(
        at.known, at.node, lambda pool: [s for s in at.known if (s.spec.driver, s.spec.pool.name) == pool], at.features
    )
    compiled = partial(compile_selector, of_1_37=at.features.selectors_of_1_37)
    allocator = Allocator(at.to_allocate, at.by_name, compiled, at.features)
    return allocator.allocate(at.node, pools, at.state, WorkBudget(steps))


def found(slices, *claims, **options):
    """`request=device …` of each claim, or what is said instead."""
    try:
        result = allocated(slices, *claims, **options)
    except (AllocationError, InvalidPools) as error:
        return f"{type(error).__name__}: {error}"
    except NotEvaluated as error:
        return f"not evaluated: {error}"
    if result is None:
        return NONE
    return " | ".join(" ".join(f"{one.request}={one.id[2]}" for one in claim.devices) for claim in result)


# --- which devices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([slice_of("a", "b")], "r=a"),
        ([slice_of("z", pool="q", at="s1"), slice_of("y", pool="p", at="s2")], "r=y"),
        ([slice_of("z", at="s2", slices=2), slice_of("y", at="s1", slices=2)], "r=y"),
        ([slice_of("z", driver="z.com", pool="a"), slice_of("y", driver="a.com", pool="z")], "r=y"),
        ([slice_of(device("a", bindingConditions=["x"]), pool="a"), slice_of("b", pool="b", at="s2")], "r=b"),
        ([], NONE),
    ],
)
def test_pools_slices_and_devices_are_tried_in_order(slices, expected):
    assert found(slices, claim("c", request())) == expected


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ([request(count=2)], [], "r=a r=b"),
        ([request(count=2)], ["p/b"], "r=a r=c"),
        ([request(count=3)], ["p/b"], NONE),
        ([request(count=0)], [], ""),
        ([every()], [], "r=a r=b r=c"),
        ([every()], ["p/b"], NONE),
        ([request("only-a", name="x"), request(name="y")], [], "x=b y=a"),
        ([request(name="x"), request("only-a", name="y")], [], "x=a y=b"),
        ([request(adminAccess=True)], ["p/a"], "r=a"),
        ([request(adminAccess=True, count=2)], ["p/a"], "r=a r=b"),
        ([request(name="x", adminAccess=True), request(name="y")], [], "x=a y=b"),
        ([request(name="x"), request(name="y", adminAccess=True)], [], "x=a y=b"),
    ],
)
def test_requests_of_a_claim_have_devices_of_their_own(requests, used, expected):
    slices = [slice_of(*(device(name, attributes={"model": model}) for name, model in zip("abc", "xax", strict=True)))]

    assert found(slices, claim("c", *requests), used=used) == expected


def test_the_search_returns_to_earlier_requests_and_claims():
    slices = [slice_of(device("a", attributes={"model": "a"}), device("b", attributes={"model": "b"}))]
    any_device, only_a = claim("x", request()), claim("y", request("only-a"))

    assert found(slices, any_device, only_a) == "r=b | r=a"
    assert found(slices, claim("c", request(name="x"), request("only-a", name="y"))) == "x=b y=a"
    assert found(slices, only_a, only_a) == NONE


def test_admin_access_is_of_one_claim_only():
    admin, usual = claim("x", request(adminAccess=True)), claim("y", request())

    assert found([slice_of("a")], admin, admin) == "r=a | r=a"
    assert found([slice_of("a")], admin, usual) == NONE  # a device that is being allocated is taken for the others
    assert (
        found([slice_of("a")], claim("c", every(adminAccess=True, name="x"), every(adminAccess=True, name="y"))) == NONE
    )


def test_many_claims_are_not_too_deep():
    claims = [claim(f"c{at}", request(count=2), request(name="q")) for at in range(400)]
    result = found([slice_of(*(f"d{at:04}" for at in range(1200)))], *claims, steps=1_000_000)

    assert result.split(" | ")[-1] == "r=d1197 r=d1198 q=d1199"


def test_work_is_bounded():
    slices = [slice_of(*(device(f"d{at}", attributes={"model": "b"}) for at in range(30)))]
    hopeless = claim("c", request(count=15), request("only-a", name="q"))

    with pytest.raises(WorkLimitReached):
        found(slices, hopeless, steps=5_000)


@pytest.mark.parametrize("constraints", [0, 40])
@pytest.mark.parametrize("amounts", [0, 100])
def test_counters_and_constraints_are_work(amounts, constraints):
    limits = {f"u{at}": 9 for at in range(amounts)}
    slices = [
        counters(**limits),
        slice_of(*(counted(f"d{at}", **dict.fromkeys(limits, 1)) for at in range(9)), slices=2),
    ]
    asked = claim("c", request(count=2), constraints=[distinct_attribute(f"{DRIVER}/none")] * constraints)

    if not amounts and not constraints:
        assert found(slices, asked, steps=40) == "r=d0 r=d1"
    else:
        with pytest.raises(WorkLimitReached):
            found(slices, asked, steps=40)


# --- lists of alternatives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alternatives", "size", "expected", "chosen"),
    [
        ([alternative("only-a"), alternative("gpu")], 2, "r/s1=d0", 1),
        ([alternative("gpu", count=3), alternative("gpu", count=2)], 2, "r/s1=d0 r/s1=d1", 1),
        ([alternative("gpu"), alternative("gpu", count=2)], 2, "r/s0=d0", 0),
        (
            [alternative("only-a", allocationMode="All"), alternative("gpu", allocationMode="All")],
            2,
            "r/s1=d0 r/s1=d1",
            1,
        ),
        ([alternative("only-a"), alternative("gpu", count=5)], 2, NONE, None),
        ([alternative("gpu", count=40), alternative("gpu", count=2)], 50, "r/s1=d0 r/s1=d1", 1),
    ],
)
def test_the_first_alternative_that_fits_is_taken(alternatives, size, expected, chosen):
    slices = [slice_of(*(device(f"d{at}", attributes={"model": "x"}) for at in range(size)))]
    asked = claim("c", first_available(*alternatives))

    assert found(slices, asked) == expected
    if chosen is not None:
        assert allocated(slices, asked)[0].chosen == (chosen,)


def test_alternatives_stay_within_32_devices_of_a_claim():
    slices = [slice_of(*(f"d{at:02}" for at in range(60)))]
    large, small = alternative("gpu", count=20), alternative("gpu", count=10)
    one_list = claim("c", request(count=20), first_available(large, small, name="q"))
    before = claim("c", first_available(large, small), request(name="q", count=20))
    two_lists = claim(
        "c", first_available(large, small), first_available(large, alternative("gpu", count=12), name="q")
    )

    assert allocated(slices, one_list)[0].chosen == (None, 1)
    assert allocated(slices, before)[0].chosen == (1, None)
    assert allocated(slices, two_lists)[0].chosen == (0, 1)
    assert [one.chosen for one in allocated(slices, one_list, one_list)] == [(None, 1), (None, 1)]


def test_up_to_1_35_an_alternative_for_all_devices_goes_on_as_the_first_one():
    slices = [slice_of(device("a", attributes={"model": "x"}), device("b", attributes={"model": "x"}))]
    asked = claim("c", first_available(alternative("only-a", count=3), alternative("gpu", allocationMode="All")))

    assert found(slices, asked) == "r/s1=a r/s1=b"
    assert found(slices, asked, minor=35) == NONE  # "a" as s1, then two more for s0, which selects none


def test_up_to_1_35_the_second_alternative_remembers_what_the_first_one_selected():
    slices = [slice_of(device("a", attributes={"model": "x"}))]
    asked = claim(
        "c", first_available(alternative("only-a", allocationMode="All"), alternative("gpu", allocationMode="All"))
    )

    assert found(slices, asked) == "r/s1=a"
    assert found(slices, asked, minor=35) == NONE


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "options", "text"),
    [
        (claim("c", request(allocationMode="Some")), {}, "claim default/c, request r: unsupported count mode Some"),
        (
            claim("c", request("")),
            {},
            "claim default/c, request r: missing device class name (unsupported request type?)",
        ),
        (
            claim("c", request("absent")),
            {},
            f"claim default/c, request r: could not retrieve device class absent: {ABSENT}",
        ),
        (
            claim("c", request(selectors=[{}])),
            {},
            "claim default/c, request r, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        (
            claim("c", first_available(alternative(""))),
            {},
            "claim default/c, request s0: missing device class name (unsupported request type?)",
        ),
        (
            claim("c", request(), constraints=[{}]),
            {},
            "claim default/c, constraint #0: empty constraint (unsupported constraint type?)",
        ),
        (
            claim("c", request(count=33)),
            {"minor": 35},
            "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
        ),
        (
            claim("c", request(count=33)),
            {"minor": 34},
            "claim default/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for",
        ),
        (
            claim("c", request(name="q", count=20), request(count=13)),
            {},
            (
                "claim default/c, request r: "
                "adding 13 devices exceeds the claim limit of 32, with 20 already accounted for"
            ),
        ),
        (
            claim("c", request(adminAccess=False)),
            {"minor": 35, "gates": {"DRAAdminAccess": False}},
            "claim default/c, request r: admin access is requested, but the feature is disabled",
        ),
        (
            claim("c", first_available(alternative())),
            {"minor": 35, "gates": {"DRAPrioritizedList": False}},
            "claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
        (
            claim("c", request(capacity={"requests": {"memory": "1"}})),
            {"gates": {"DRAConsumableCapacity": False}},
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            claim("c", first_available(alternative(), alternative(capacity={}))),
            {"minor": 34},
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            claim("c", first_available(alternative(), alternative(capacity={}))),
            {"gates": {"DRAConsumableCapacity": False}},
            "claim default/c, subrequest s1: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            claim("c", request("only-a")),
            {},
            "class only-a: selector #0: CEL runtime error: no such key: model",
        ),
        (
            claim("c", request("gpu", "true", 'device.attributes["other"].x == "a"')),
            {},
            "claim default/c: selector #1: CEL runtime error: no such key: x",
        ),
        (
            claim("c", request("only-a")),
            {"minor": 37},
            f"class only-a: selector #0 on device {DRIVER}/p/a: CEL runtime error: no such key: model{OPTIONAL_FIELD}",
        ),
        (
            claim("c", request("gpu", "int(device.driver) == 1")),
            {"minor": 37},
            (
                f"claim default/c: selector #0 on device {DRIVER}/p/a: CEL runtime error: type conversion error "
                "from 'string' to 'int'"
            ),
        ),
    ],
)
def test_errors_have_upstreams_words(asked, options, text):
    assert found([slice_of("a")], asked, **options) == f"AllocationError: {text}"


def test_a_selector_that_does_not_compile_is_an_error_where_a_device_is_asked():
    asked = claim("c", request("gpu", "device.nothing"))

    assert found([slice_of("a")], asked).startswith(
        "AllocationError: claim default/c: selector #0: CEL compile error: "
    )
    assert found([], asked) == NONE
    assert found([slice_of("a")], asked, used=["p/a"]) == NONE


def test_a_selector_that_is_not_followed_is_named():
    text = found([slice_of("a")], claim("c", request("gpu", r'device.driver.matches("\\C")')))

    assert text.startswith("not evaluated: claim default/c: selector #0: ")


def test_the_stable_allocator_knows_no_capacity_requests_and_no_distinct_attributes():
    gates = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    capacity = claim("c", request(capacity={"requests": {"memory": "1"}}))
    distinct = claim("c", request(), constraints=[distinct_attribute(f"{DRIVER}/x")])

    assert found([slice_of("a")], capacity, gates=gates) == "r=a"
    assert found([slice_of("a")], capacity, minor=35) == "r=a"
    assert "constraint #0: empty constraint" in found([slice_of("a")], distinct, gates=gates)


def test_errors_come_in_the_order_of_claims_and_requests():
    outdated = slice_of("a", slices=2)
    wrong_later = claim("c", every(), request("", name="q"))

    assert "is currently being updated" in found([outdated], wrong_later)
    assert "request q: missing device class name" in found([slice_of("a")], wrong_later)
    assert "request q" in found([outdated], claim("c", request("", name="q"), every()))


# --- pools ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([slice_of("a", slices=2)], NONE),
        ([slice_of("a", slices=2), slice_of("b", at="s2", node="n2", slices=2)], "r=a"),
        ([slice_of("a"), slice_of("b", at="s2", generation=2)], "r=b"),
        ([slice_of("b", generation=2), slice_of("a", at="s2")], "r=b"),
        ([slice_of("a", slices=2), slice_of("b", at="s2", node="n2", generation=2)], NONE),
        ([slice_of("a", slices=2), slice_of("b", at="s2", node="n2", generation=0)], NONE),
        ([slice_of("a", "a")], "InvalidPools: invalid resource pools were encountered"),
        ([slice_of("a", "a"), slice_of("b", pool="q", at="s2")], "r=b"),
        ([slice_of("a", node=None)], NONE),
        ([slice_of("a", node=None, allNodes=True)], "r=a"),
        ([slice_of("a", node="n2")], NONE),
    ],
)
def test_only_usable_pools_give_devices(slices, expected):
    assert found(slices, claim("c", request())) == expected


@pytest.mark.parametrize(
    ("slices", "reason"),
    [([slice_of("a", slices=2)], "being updated"), ([slice_of("a", "a")], "invalid")],
)
def test_all_devices_need_usable_pools(slices, reason):
    asks = f"asks for all devices, but resource pool {DRIVER}/p is currently {reason}"

    assert found(slices, claim("c", every())) == f"AllocationError: claim default/c, request r: {asks}"


def test_1_34_uses_incomplete_pools_and_stops_at_invalid_ones():
    both = [slice_of("a", "a"), slice_of("b", pool="o", at="s2")]
    elsewhere = [slice_of("a", slices=2), slice_of("b", at="s2", node="n2", slices=2)]

    assert found([slice_of("a", slices=2)], claim("c", request()), minor=34) == "r=a"
    assert found(both, claim("c", request()), minor=34) == "r=b"
    assert (
        found(both, claim("c", request(count=2)), minor=34)
        == "AllocationError: pool p is invalid: duplicate device name a"
    )
    assert "is currently being updated" in found(elsewhere, claim("c", every()), minor=34)
    assert found(elsewhere, claim("c", every()), minor=35) == "r=a"


def _zone(*values, operator="In"):
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([_zone("a")], "r=d"),
        ([_zone("b")], NONE),
        ([_zone("b", operator="NotIn")], "r=d"),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], "r=d"),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}], NONE),
        ([], NONE),
        ([{}], NONE),
    ],
)
@pytest.mark.parametrize("per_device", [False, True])
def test_node_selectors_of_slices_and_devices(terms, expected, per_device):
    selector = {"nodeSelectorTerms": terms}
    published = (
        slice_of(device("d", nodeSelector=selector), node=None, perDeviceNodeSelection=True)
        if per_device
        else slice_of("d", node=None, nodeSelector=selector)
    )

    assert found([published], claim("c", request()), labels={"zone": "a"}) == expected


def test_devices_with_nodes_of_their_own_need_the_gate():
    here, elsewhere = device("a", nodeName="n2"), device("b", nodeName="n1")
    published = [
        slice_of(here, elsewhere, device("c", allNodes=True), device("d"), node=None, perDeviceNodeSelection=True)
    ]

    assert found(published, claim("c", every())) == "r=b r=c"
    assert found(published, claim("c", request()), minor=35) == NONE


# --- the node selector of the result -------------------------------------------------------------------------------

ON_N1 = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]


@pytest.mark.parametrize(
    ("published", "terms"),
    [
        (slice_of("d"), ON_N1),
        (slice_of("d", node=None, allNodes=True), None),
        (slice_of("d", node=None, nodeSelector={"nodeSelectorTerms": [_zone("a")]}), [_zone("a")]),
        (slice_of(device("d", bindsToNode=True), node=None, allNodes=True), ON_N1),
        (slice_of(device("d", nodeName="n1"), node=None, perDeviceNodeSelection=True), ON_N1),
        (slice_of(device("d", allNodes=True), node=None, perDeviceNodeSelection=True), None),
    ],
)
def test_the_result_says_which_nodes_can_use_the_devices(published, terms):
    (result,) = allocated([published], claim("c", request()), labels={"zone": "a"})

    expected = None if terms is None else {"nodeSelectorTerms": terms}
    assert (result.node_selector and msgspec.to_builtins(result.node_selector)) == expected


def test_node_selectors_of_several_devices_are_joined_without_repeats():
    first = {"matchExpressions": [*_zone("a", "b")["matchExpressions"], {"key": "x", "operator": "Exists"}]}
    slices = [
        slice_of("d", node=None, nodeSelector={"nodeSelectorTerms": [first]}),
        slice_of("e", node=None, pool="q", at="s2", nodeSelector={"nodeSelectorTerms": [_zone("b", "a")]}),
    ]
    (result,) = allocated(slices, claim("c", request(count=2)), labels={"zone": "a", "x": ""})

    assert msgspec.to_builtins(result.node_selector) == {"nodeSelectorTerms": [first]}


# --- constraints ---------------------------------------------------------------------------------------------------


def _with(*values):
    return [
        slice_of(*(device(f"d{at}", attributes={} if one is None else {"k": one}) for at, one in enumerate(values)))
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["x", "y", "y"], "r=d1 r=d2"),
        ([1, 2, 1], "r=d0 r=d2"),
        ([True, False, False], "r=d1 r=d2"),
        ([{"version": "1.0.0"}, {"version": "1.0.1"}, {"version": "1.0.0"}], "r=d0 r=d2"),
        ([None, "x", "x"], "r=d1 r=d2"),
        (["1", 1, {"version": "1"}], NONE),
        ([{}, {}, {}], NONE),
    ],
)
def test_match_attribute(values, expected):
    asked = claim("c", request(count=2), constraints=[match_attribute(f"{DRIVER}/k")])

    assert found(_with(*values), asked) == expected


def test_constraints_name_requests_and_alternatives():
    slices = _with("x", "y", "y")
    requests = [request(name="a"), request(name="b"), request(name="q")]
    listed = [request(name="a"), first_available(alternative(), alternative(), name="b")]

    assert (
        found(slices, claim("c", *requests, constraints=[match_attribute(f"{DRIVER}/k", "a", "q")])) == "a=d1 b=d0 q=d2"
    )
    assert (
        found(slices, claim("c", *listed, constraints=[match_attribute(f"{DRIVER}/k", "a", "b/s0")])) == "a=d0 b/s1=d1"
    )
    assert found(slices, claim("c", *listed, constraints=[match_attribute(f"{DRIVER}/k", "a", "b")])) == "a=d1 b/s0=d2"


@pytest.mark.parametrize(
    ("name", "expected"),
    [(f"{DRIVER}/k", "r=d0"), ("other.com/k", NONE), ("k", "r=d0"), ("unknown", NONE)],
)
def test_an_attribute_is_found_by_its_full_name(name, expected):
    assert found(_with("x"), claim("c", request(), constraints=[match_attribute(name)])) == expected


def test_all_devices_against_a_constraint_are_an_error():
    asked = claim("c", every(), constraints=[match_attribute(f"{DRIVER}/k")])
    broken = f"cannot add device {DRIVER}/p/d1 because a claim constraint would not be satisfied"

    assert found(_with("x", "x"), asked) == "r=d0 r=d1"
    assert found(_with("x", "y"), asked) == f"AllocationError: claim default/c, request r: {broken}"


@pytest.mark.parametrize(
    ("values", "requests", "expected"),
    [
        (["x", "x", "y"], [request(name="a"), request(name="b")], "a=d0 b=d2"),
        ([1, 1, 2], [request(name="a"), request(name="b")], "a=d0 b=d2"),
        ([True, True, False], [request(name="a"), request(name="b")], "a=d0 b=d2"),
        ([{"version": "1.0.0"}, {"version": "1.0.0"}, "x"], [request(name="a"), request(name="b")], "a=d0 b=d2"),
        ([None, None, "y"], [request(name="a"), request(name="b")], NONE),
        (["x", "x"], [request(name="a"), request(name="b")], NONE),
        (["x", "y", "x"], [request(count=3)], "r=d0 r=d1 r=d2"),  # of one request only the last value is remembered
        ([{}, {}], [request(name="a"), request(name="b")], NONE),
    ],
)
def test_distinct_attribute(values, requests, expected):
    assert found(_with(*values), claim("c", *requests, constraints=[distinct_attribute(f"{DRIVER}/k")])) == expected


@pytest.mark.parametrize(("values", "expected"), [("xyx", NONE), ("xyz", "r=d0 r=d1 r=d2"), ("xyxz", "r=d0 r=d1 r=d3")])
def test_from_1_37_on_every_value_of_a_request_is_distinct(values, expected):
    asked = claim("c", request(count=3), constraints=[distinct_attribute(f"{DRIVER}/k")])

    assert found(_with(*values), asked, minor=37) == expected
    assert found(_with(*values), asked) == "r=d0 r=d1 r=d2"


def test_values_of_a_distinct_attribute_may_be_equal_in_1_34_which_compares_addresses():
    asked = claim("c", request(count=2), constraints=[distinct_attribute(f"{DRIVER}/k")])

    assert found(_with("x", "x"), asked) == NONE
    assert found(_with("x", "x"), asked, minor=34) != NONE
    assert found(_with("x"), asked, minor=34) == NONE


def test_a_later_constraint_that_fails_leaves_earlier_ones_as_they_were():
    values = enumerate([("a", "x"), ("b", "y"), ("b", "x")])
    slices = [slice_of(*(device(f"d{at}", attributes={"k": k, "m": m}) for at, (k, m) in values))]
    constraints = [distinct_attribute(f"{DRIVER}/k"), match_attribute(f"{DRIVER}/m")]

    assert found(slices, claim("c", request(name="a"), request(name="b"), constraints=constraints)) == "a=d0 b=d2"


# --- counters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [(1, [], "r=a"), (2, [], "r=a r=c"), (3, [], NONE), (1, ["p/b"], "r=c"), (1, ["p/b", "p/c"], NONE)],
)
def test_devices_share_counters(count, used, expected):
    slices = [counters(u=4), slice_of(counted("a", u=3), counted("b", u=3), counted("c", u=1), slices=2)]

    assert found(slices, claim("c", request(count=count)), used=used) == expected


def test_devices_for_other_nodes_consume_the_same_counters():
    slices = [
        counters(u=2, slices=3),
        slice_of(counted("a", u=2), slices=3),
        slice_of(counted("b", u=2), at="s2", node="n2", slices=3),
    ]

    assert found(slices, claim("c", request())) == "r=a"
    assert found(slices, claim("c", request()), used=["p/b"]) == NONE


def test_from_1_37_on_a_pool_is_no_matter_of_nodes_that_only_its_counters_are_for():
    slices = [
        counters(u=2, slices=3),
        slice_of(counted("b", u=2), node="n2", slices=3),
        slice_of("a", pool="q", at="q"),
    ]
    elsewhere = {"nodeName": "n2", "allNodes": None}
    slices[0]["spec"] |= elsewhere

    updated = "resource pool gpu.example.com/p is currently being updated"
    asks = f"AllocationError: claim default/c, request r: asks for all devices, but {updated}"
    assert found(slices, claim("c", every())) == asks
    assert found(slices, claim("c", every()), minor=37) == "r=a"
    stable = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    assert found(slices, claim("c", every()), minor=37, gates=stable) == asks


def test_from_1_37_on_counters_are_found_in_a_slice_for_other_nodes():
    slices = [counters(u=2), slice_of(counted("a", u=2), slices=2)]
    slices[0]["spec"] |= {"nodeName": "n2", "allNodes": None}

    assert found(slices, claim("c", request()), minor=37) == "r=a"
    assert found(slices, claim("c", request()), minor=37, used=["p/a"]) == NONE


def test_a_counter_that_is_exceeded_already_stops_every_device_of_the_pool_that_consumes_any():
    slices = [counters(u=1, v=9), slice_of(counted("a", u=2), counted("b", v=1), "c", slices=2)]

    assert found(slices, claim("c", request()), used=["p/a"]) == "r=c"


def test_counters_are_kept_by_driver_and_pool():
    slices = [
        counters(u=1, driver="a.com", at="c1"),
        slice_of(counted("a", u=1), driver="a.com", slices=2),
        counters(u=1, driver="b.com", at="c2"),
        slice_of(counted("b", u=1), counted("c", u=1), driver="b.com", at="s2", slices=2),
    ]

    assert found(slices, claim("c", request(count=2))) == "r=a r=b"
    assert found(slices, claim("c", request(count=3))) == NONE


def test_before_1_36_4_pools_of_one_name_have_the_counters_of_the_first():
    slices = [
        counters(u=2, driver="a.com", at="c1"),
        slice_of(counted("a", u=1), driver="a.com", slices=2),
        counters(u=1, driver="b.com", at="c2"),
        slice_of(counted("b", u=1), counted("c", u=1), driver="b.com", at="s2", slices=2),
    ]

    assert found(slices, claim("c", request(count=3)), minor=Version(36, 3)) == NONE
    assert found(slices, claim("c", request(count=2)), minor=Version(36, 3)) == "r=a r=b"
    of_b = request("of-b", count=2)
    classes = [device_class("of-b", 'device.driver == "b.com"'), *CLASSES]
    assert found(slices, claim("c", of_b), minor=Version(36, 3), classes=classes) == NONE
    both = claim("c", request(name="x"), request("of-b", name="y", count=1))
    assert found(slices, both, minor=Version(36, 3), classes=classes) == "x=a y=b"


def test_counters_come_back_when_a_device_is_not_used_after_all():
    tainted = counted("a", u=2) | {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    slices = [counters(u=2), slice_of(tainted, counted("b", u=2), slices=2)]

    assert found(slices, claim("c", request())) == "r=b"
    assert found(slices, claim("c", request()), minor=Version(36, 2)) == NONE


def test_before_1_36_2_all_devices_with_counters_end_kube_scheduler_and_are_not_evaluated():
    slices = [counters(u=2), slice_of(counted("a", u=1), counted("b", u=1), slices=2)]

    assert found(slices, claim("c", every())) == "r=a r=b"
    assert found(slices, claim("c", every()), minor=Version(36, 2)) == "r=a r=b"
    ends = "not evaluated: all devices of a pool with counters before 1.36.2"
    assert found(slices, claim("c", every()), minor=Version(36, 1)) == ends
    assert found(slices, claim("c", every()), minor=Version(36, 1), used=["p/a"]) == NONE


@pytest.mark.parametrize(
    "slices",
    [
        [slice_of(counted("a", u=1))],
        [counters(v=1), slice_of(counted("a", u=1), slices=2)],
        [counters(u=1, slices=3), counters(u=1, at="again", slices=3), slice_of("a", slices=3)],
        [counters(u=1, slices=3), slice_of("a", slices=3), slice_of(counted("b", v=1), at="s2", node="n2", slices=3)],
    ],
    ids=["no set", "no counter", "two sets of a name", "on another node"],
)
def test_pools_whose_counters_do_not_add_up_are_invalid(slices):
    assert found(slices, claim("c", request())) == "InvalidPools: invalid resource pools were encountered"


def test_devices_with_counters_need_the_gate():
    slices = [slice_of(counted("a", u=1), "b")]

    assert found(slices, claim("c", request()), minor=35) == "r=b"
    assert found([counters(u=1), slice_of("b", slices=2)], claim("c", request()), minor=35) == "r=b"


# --- taints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "tolerations", "expected"),
    [
        ("NoSchedule", [], NONE),
        ("NoExecute", [], NONE),
        ("None", [], "r=a"),
        ("NoSchedule", [{"operator": "Exists"}], "r=a"),
        ("NoSchedule", [{"key": "k", "operator": "Exists"}], "r=a"),
        ("NoSchedule", [{"key": "other", "operator": "Exists"}], NONE),
        ("NoSchedule", [{"key": "k", "operator": "Equal", "value": "v"}], "r=a"),
        ("NoSchedule", [{"key": "k", "value": "v"}], "r=a"),
        ("NoSchedule", [{"key": "k", "value": "w"}], NONE),
        ("NoSchedule", [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], NONE),
        ("NoSchedule", [{"key": "k", "operator": "Gt", "value": "v"}], NONE),
        ("NoSchedule", [{"key": "other", "operator": "Exists"}, {"operator": "Exists"}], "r=a"),
    ],
)
def test_taints_keep_requests_away_that_do_not_tolerate_them(effect, tolerations, expected):
    slices = [slice_of(device("a", taints=[{"key": "k", "value": "v", "effect": effect}]))]

    assert found(slices, claim("c", request(tolerations=tolerations))) == expected
    assert found(slices, claim("c", request(tolerations=tolerations)), minor=35) == "r=a"  # without the gate


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        (None, []),
        ({}, ["a", "b"]),
        ({"driver": DRIVER}, ["a", "b"]),
        ({"driver": "other.com"}, []),
        ({"pool": "p"}, ["a", "b"]),
        ({"pool": "q"}, []),
        ({"device": "b"}, ["b"]),
        ({"device": "c"}, []),
    ],
)
def test_rules_taint_the_devices_that_they_select(selector, tainted):
    own = {"key": "own", "effect": "NoSchedule"}
    published = msgspec.convert(slice_of(device("a", taints=[own]), "b"), ResourceSlice)
    spec = {"taint": {"key": "rule", "effect": "NoExecute"}} | (
        {} if selector is None else {"deviceSelector": selector}
    )
    rule = msgspec.convert({"metadata": {"name": "rule"}, "spec": spec}, DeviceTaintRule)

    found_slice = with_rule_taints(published, [rule], needs_selector=True)

    assert (found_slice is published) == (not tainted)
    if selector is None:
        assert with_rule_taints(published, [rule], needs_selector=False) != published
    keys = {one.name: [taint.key for taint in one.taints or ()] for one in found_slice.spec.devices or ()}
    assert keys == {"a": ["own"] + ["rule"] * ("a" in tainted), "b": ["rule"] * ("b" in tainted)}


# --- capacity ------------------------------------------------------------------------------------------------------


def _capacity(value, **policy):
    return {"value": value} | ({"requestPolicy": policy} if policy else {})


def _range(least, most=None, step=None):
    bounds = {"min": least, "max": most, "step": step}
    return {key: value for key, value in bounds.items() if value is not None}


def sharing(name, **capacity):
    return device(name, capacity=capacity, allowMultipleAllocations=True)


@pytest.mark.parametrize(
    ("capacity", "requested", "consumed"),
    [
        (_capacity("10"), None, "10"),
        (_capacity("10"), "3", "3"),
        (_capacity("10"), "11", None),
        (_capacity("10", default="2"), None, "2"),
        (_capacity("10", default="2"), "3", "3"),
        (_capacity("10", default="2", validValues=["2", "4", "8"]), "3", "4"),
        (_capacity("10", default="2", validValues=["2", "4", "8"]), "4", "4"),
        (_capacity("10", default="2", validValues=["2", "4", "8"]), "9", None),
        (_capacity("10", default="2", validRange=_range("2", "6")), "1", "2"),
        (_capacity("10", default="2", validRange=_range("2", "6")), "5", "5"),
        (_capacity("10", default="2", validRange=_range("2", "6")), "7", None),
        (_capacity("10", default="2", validRange=_range("2", "10", "3")), "6", "8"),
        (_capacity("10", default="2", validRange=_range("2", "10", "3")), "8", "8"),
        (_capacity("10", default="2", validRange=_range("2", "10", "3")), "9", None),
        (_capacity("10", validRange=_range("2", "6")), None, None),
        (_capacity("1500m"), "1200m", "1200000000n"),
        (_capacity("2Gi"), "1Gi", str(2**30)),
    ],
)
def test_what_a_request_consumes_of_a_shared_device(capacity, requested, consumed):
    asked = request() if requested is None else request(capacity={"requests": {"memory": requested}})
    result = allocated([slice_of(sharing("a", memory=capacity))], claim("c", asked))

    if consumed is None:
        assert result is None
        return
    (one,) = result[0].result(iter(["share"])).devices.results
    assert (one.consumed_capacity, one.share_id) == ({"memory": consumed}, "share")


HALVES = _capacity("10", default="500m", validRange=_range("500m", "9500m", "500m"))


@pytest.mark.parametrize(
    ("gate", "requested", "consumed"),
    [
        (False, "600m", "1"),  # in whole units the minimum and the step are 1
        (True, "600m", "1"),
        (True, "1200m", "1500000000n"),
        (True, "9600m", None),
        (True, "9500m", "9500000000n"),
    ],
)
def test_from_1_37_on_ranges_may_count_in_thousandths(gate, requested, consumed):
    asked = claim("c", request(capacity={"requests": {"memory": requested}}))
    gates = {"DRAFractionalCapacityRange": gate}
    result = allocated([slice_of(sharing("a", memory=HALVES))], asked, minor=37, gates=gates)

    got = None if result is None else result[0].result(iter(["share"])).devices.results[0].consumed_capacity
    assert got == (None if consumed is None else {"memory": consumed})


UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
PASSES = f"{UNREPRESENTABLE}: rounding request {{}} up to the next step passes"


@pytest.mark.parametrize(
    ("capacity", "requested", "gates", "text"),
    [
        (_capacity("10"), "-1", {}, "capacity value is negative"),
        (
            _capacity("10", validRange=_range("0", step="2")),
            "9223372036854775807",
            {},
            f"{PASSES.format('9223372036854775807')} MaxInt64",
        ),
        (
            HALVES,
            "9223372036854775807m",
            {"DRAFractionalCapacityRange": True},
            f"{PASSES.format('9223372036854775807m')} the milli-value range",
        ),
        (
            HALVES,
            "1u",
            {"DRAFractionalCapacityRange": True},
            "",
        ),
        (
            HALVES,
            "600001u",
            {"DRAFractionalCapacityRange": True},
            f"{UNREPRESENTABLE}: request 600001u is not a representable milli value",
        ),
    ],
)
def test_from_1_37_on_capacity_that_is_no_amount_ends_the_cycle(capacity, requested, gates, text):
    slices = [slice_of(sharing("a", memory=capacity))]
    asked = {"requests": {"memory": requested}}
    at = "AllocationError: claim default/c, request r: checking capacity for device {}: "

    for one, name in ((request(capacity=asked), f"{DRIVER}/p/a"), (every(capacity=asked), "a")):
        said = f'{at.format(name)}capacity "memory": {text}' if text else "r=a"
        assert found(slices, claim("c", one), minor=37, gates=gates) == said
        assert "AllocationError" not in found(slices, claim("c", one))


@pytest.mark.parametrize("valid", [_range("2", "9", "0"), {"max": "9", "step": "2"}])
def test_policies_that_end_kube_scheduler_are_not_evaluated(valid):
    published = slice_of(sharing("a", memory=_capacity("10", validRange=valid)))
    asked = claim("c", request(capacity={"requests": {"memory": "3"}}))

    assert found([published], asked) == "not evaluated: a request policy of capacity that no API server admits"


def test_claims_share_a_device_while_capacity_is_left():
    slices = [slice_of(sharing("a", memory=_capacity("10")), sharing("b", memory=_capacity("10")))]
    four = request(capacity={"requests": {"memory": "4"}})
    taken = {(DRIVER, "p", "a"): {"memory": 3 * 10**9}}

    assert found(slices, *(claim(f"c{at}", four) for at in range(3))) == "r=a | r=a | r=b"
    assert found(slices, claim("c", four), claim("d", four), shared=["p/a"], capacity=taken) == "r=a | r=b"
    assert found(slices, claim("c", request(capacity={"requests": {"memory": "4"}}, count=2))) == "r=a r=b"
    assert found(slices, claim("c", four), used=["p/a"]) == "r=b"
    assert found(slices, claim("c", every(capacity={"requests": {"memory": "4"}})), capacity=taken) == "r=a r=b"
    rest = claim("c", every(capacity={"requests": {"memory": "8"}}))
    assert found(slices, rest, capacity=taken) == "r=b"
    assert found(slices, rest, capacity=taken, minor=37) == NONE  # one that matches has no room
    assert found(slices, rest, minor=37) == "r=a r=b"
    assert found(slices, claim("c", every(capacity={"requests": {"memory": "11"}})), minor=37) == NONE


def test_a_share_that_is_given_back_leaves_the_others_as_they_were():
    slices = [slice_of(sharing("a", memory=_capacity("10")), device("b", attributes={"model": "a"}))]
    six = request(name="x", capacity={"requests": {"memory": "6"}})

    assert found(slices, claim("c", request(name="y", capacity={"requests": {"memory": "4"}}), six)) == "y=a x=a"
    assert found(slices, claim("c", request(name="y", capacity={"requests": {"memory": "5"}}), six)) == NONE


def test_capacity_is_asked_of_devices_that_are_not_shared_too():
    slices = [slice_of(device("a", capacity={"memory": "4"}), device("b", capacity={"memory": "8"}))]

    assert found(slices, claim("c", request(capacity={"requests": {"memory": "6"}}))) == "r=b"
    assert found(slices, claim("c", request(capacity={"requests": {"other": "6"}}))) == NONE
    assert found(slices, claim("c", every(capacity={"requests": {"memory": "6"}}))) == "r=b"


def test_all_devices_with_too_little_capacity_left_have_no_solution():
    asked = every(capacity={"requests": {"memory": "6"}})
    again = every(name="q", capacity={"requests": {"memory": "6"}})

    for version in (Version(36, 2), Version(36, 3)):
        assert found([slice_of(sharing("a", memory=_capacity("10")))], claim("c", asked, again), minor=version) == NONE


def test_only_the_first_share_of_a_device_takes_counters():
    partitioned = counted("a", u=2) | {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}
    slices = [counters(u=2), slice_of(partitioned, slices=2)]
    four = request(capacity={"requests": {"memory": "4"}})

    assert found(slices, claim("c", four), claim("d", four)) == "r=a | r=a"
    assert found(slices, claim("c", four), capacity={(DRIVER, "p", "a"): {}}) == "r=a"
    assert found(slices, claim("c", four), shared=["p/a"]) == NONE
    assert found(slices, claim("c", four), shared=["p/a"], minor=Version(36, 1)) == "r=a"
    assert found(slices, claim("c", four), shared=["p/a"], minor=37) == "r=a"


def test_devices_are_not_shared_without_the_gate():
    slices = [slice_of(sharing("a"))]

    assert found(slices, claim("c", request()), claim("d", request())) == "r=a | r=a"
    assert found(slices, claim("c", request()), claim("d", request()), gates={"DRAConsumableCapacity": False}) == NONE


# --- binding conditions --------------------------------------------------------------------------------------------


def test_binding_conditions_come_with_the_device_and_need_the_gate():
    waiting = device("a", bindingConditions=["ready"], bindingFailureConditions=["failed"])
    slices = [slice_of(waiting, "b", pool="p")]
    (result,) = allocated(slices, claim("c", request()))
    (one,) = result.result(iter(())).devices.results

    assert (one.device, one.binding_conditions, one.binding_failure_conditions) == ("a", ["ready"], ["failed"])
    off = {"DRADeviceBindingConditions": False}
    (result,) = allocated(slices, claim("c", request()), gates=off)
    assert (result.devices[0].id[2], result.devices[0].binding_conditions) == ("b", None)
