"""Requests of pods and allocatable amounts of nodes; each case states its sum, in millicores, bytes or devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.k8s.objects import (
    Condition,
    Container,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from extender.k8s.quantity import MAX_INT64, NANO, QuantityError
from extender.k8s.requests import (
    DEFAULT_MEMORY_REQUEST,
    DEFAULT_MILLI_CPU_REQUEST,
    Usage,
    allocatable,
    balanced_scoring_request,
    fit_scoring_request,
    incoming_requests,
    is_extended,
    is_scalar,
    pod_limits,
    pod_requests,
    running_usage,
)
from extender.k8s.version.features import DEFAULT_FEATURES, Features

GI = 2**30


def asking(requests):
    return None if requests is None else ResourceRequirements(requests=requests)


def container(name="c", *, restart=None, **requests):
    named = {key.replace("_", "-"): amount for key, amount in requests.items()}
    return Container(name=name, resources=asking(named), restart_policy=restart)


def sidecar(name="s", **requests):
    return container(name, restart="Always", **requests)


def pod(*containers, init=(), overhead=None, level=None, **status):
    spec = PodSpec(containers=list(containers), init_containers=list(init), overhead=overhead, resources=asking(level))
    return Pod(ObjectMeta(name="p"), spec, PodStatus(**status))


# --- sums and steps -------------------------------------------------------------------------------------------------

CPU_CASES = {
    "containers run at once: 100 + 200 = 300": (pod(container(cpu="100m"), container("d", cpu="200m")), 300),
    "init containers run alone: max(300, 500) = 500": (
        pod(container(cpu="300m"), init=[container("i", cpu="500m"), container("j", cpu="400m")]),
        500,
    ),
    "small init containers do not matter: max(300, 100) = 300": (
        pod(container(cpu="300m"), init=[container("i", cpu="100m")]),
        300,
    ),
    "a sidecar runs beside the containers: 300 + 50 = 350": (
        pod(container(cpu="300m"), init=[sidecar(cpu="50m")]),
        350,
    ),
    "an init step runs beside the sidecars before it: max(100 + 50, 50 + 400) = 450": (
        pod(container(cpu="100m"), init=[sidecar(cpu="50m"), container("i", cpu="400m")]),
        450,
    ),
    "an init step does not run beside the sidecars after it: max(100 + 50, 400) = 400": (
        pod(container(cpu="100m"), init=[container("i", cpu="400m"), sidecar(cpu="50m")]),
        400,
    ),
    "sidecars add up: max(100 + 50 + 60, 50 + 60 + 300) = 410": (
        pod(container(cpu="100m"), init=[sidecar(cpu="50m"), sidecar("t", cpu="60m"), container("i", cpu="300m")]),
        410,
    ),
    "another restart policy makes no sidecar: max(100, 50) = 100": (
        pod(container(cpu="100m"), init=[container("i", restart="OnFailure", cpu="50m")]),
        100,
    ),
    "overhead is added at the end: max(100, 400) + 10 = 410": (
        pod(container(cpu="100m"), init=[container("i", cpu="400m")], overhead={"cpu": "10m"}),
        410,
    ),
    "overhead alone: 10": (pod(Container(name="c"), overhead={"cpu": "10m"}), 10),
    "sums are exact, rounded up once: 0.4m + 0.4m = 0.8m -> 1": (
        pod(container(cpu="400u"), container("d", cpu="400u")),
        1,
    ),
    "0.4m + 0.4m + 0.3m = 1.1m -> 2": (pod(container(cpu="800u"), container("d", cpu="300u")), 2),
    "numbers count as well: 1 + 0.5 = 1500": (pod(container(cpu=1), container("d", cpu=0.5)), 1500),
    "a negative sum is nothing": (pod(container(cpu="-100m")), 0),
    "the pod's own request replaces the sum: 700": (pod(container(cpu="100m"), level={"cpu": "700m"}), 700),
    "also where it is smaller: 50": (pod(container(cpu="100m"), level={"cpu": "50m"}), 50),
    "also the init steps: 50": (pod(init=[container("i", cpu="400m")], level={"cpu": "50m"}), 50),
    "the containers' sum stays where the pod names only memory: 100": (
        pod(container(cpu="100m"), level={"memory": "1Gi"}),
        100,
    ),
    "overhead comes on top of the pod's own: 700 + 10 = 710": (
        pod(container(cpu="100m"), level={"cpu": "700m"}, overhead={"cpu": "10m"}),
        710,
    ),
    "beyond int64 is the largest int64": (pod(container(cpu="8Ei"), container("d", cpu="8Ei")), MAX_INT64),
}


@pytest.mark.parametrize(("asked", "millicores"), CPU_CASES.values(), ids=CPU_CASES)
def test_cpu_of_an_incoming_pod(asked, millicores):
    assert incoming_requests(asked, DEFAULT_FEATURES)["cpu"] == millicores


def test_each_resource_takes_its_own_maximum():
    asked = pod(container(cpu="1", memory="1Gi"), init=[container("i", cpu="500m", memory="2Gi")])
    assert incoming_requests(asked, DEFAULT_FEATURES) == {"cpu": 1000, "memory": 2 * GI}


def test_resources_that_the_scheduler_does_not_count_are_left_out():
    asked = pod(
        Container(
            resources=asking(
                {
                    "cpu": "1",
                    "ephemeral-storage": "1Ki",
                    "example.com/gpu": "2",
                    "hugepages-2Mi": "4Mi",
                    "attachable-volumes-csi-x": "3",
                    "kubernetes.io/thing": "1",
                    "storage": "1Gi",
                    "pods": "5",
                    "requests.example.com/gpu": "1",
                }
            )
        )
    )
    counted = {
        "cpu": 1000,
        "ephemeral-storage": 1024,
        "example.com/gpu": 2,
        "hugepages-2Mi": 4 * 2**20,
        "attachable-volumes-csi-x": 3,
        "kubernetes.io/thing": 1,
    }
    assert incoming_requests(asked, DEFAULT_FEATURES) == counted
    assert running_usage(asked, DEFAULT_FEATURES).requests == counted


def test_only_cpu_memory_and_huge_pages_have_pod_level_requests():
    level = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi", "example.com/gpu": "9", "ephemeral-storage": "9Gi"}
    asked = pod(container(ephemeral_storage="1Gi"), level=level)
    assert incoming_requests(asked, DEFAULT_FEATURES) == {
        "cpu": 1000,
        "memory": GI,
        "hugepages-2Mi": 2 * 2**20,
        "ephemeral-storage": GI,
    }


def test_a_pod_without_requests():
    assert incoming_requests(Pod(ObjectMeta(name="p")), DEFAULT_FEATURES) == {}
    assert running_usage(Pod(ObjectMeta(name="p")), DEFAULT_FEATURES) == Usage({}, 0, 0)


def test_pod_requests_are_exact_nano_units():
    assert pod_requests(pod(container(cpu="1n"), container("d", cpu="1m")), DEFAULT_FEATURES) == {"cpu": 1_000_001}


def test_pod_level_requests_can_be_left_out():
    asked = pod(container(cpu="100m"), level={"cpu": "700m"})
    assert pod_requests(asked, DEFAULT_FEATURES, is_incoming=True, pod_level=False) == {"cpu": NANO // 10}


def test_limits_combine_as_requests_do():
    def limited(name="c", restart=None, **limits):
        return Container(name=name, resources=ResourceRequirements(limits=limits), restart_policy=restart)

    init = [limited("s", "Always", cpu="50m"), limited("i", cpu="400m", memory="1")]
    asked = pod(limited(cpu="100m"), limited("d", cpu="200m"), init=init, overhead={"cpu": "1m", "memory": "0"})
    assert pod_limits(asked, DEFAULT_FEATURES) == {"cpu": 451 * NANO // 1000, "memory": NANO}
    level = ResourceRequirements(limits={"cpu": "2", "example.com/gpu": "9"})
    asked = replace(asked, spec=replace(asked.spec, resources=level))
    assert pod_limits(asked, DEFAULT_FEATURES) == {"cpu": 2 * NANO + NANO // 1000, "memory": NANO}
    assert pod_limits(asked, Features.of(33)) == {"cpu": 451 * NANO // 1000, "memory": NANO}


def test_overhead_counts_only_where_there_is_a_limit():
    assert pod_limits(pod(container(cpu="1"), overhead={"cpu": "1"}), DEFAULT_FEATURES) == {}


def test_non_missing_fills_in_what_a_container_does_not_name_sidecars_and_init_steps_included():
    asked = pod(container(cpu="0"), container("d"), init=[sidecar(), container("i", cpu="1")])
    # containers 0 + 7, sidecar 7: 14; init step 1 core beside the sidecar's 7
    assert pod_requests(asked, DEFAULT_FEATURES, is_incoming=True, non_missing={"cpu": 7}) == {"cpu": NANO + 7}


def test_an_error_names_the_resource_and_the_text():
    with pytest.raises(QuantityError, match=r"^'1Gib' is not a quantity of memory: it must be a number"):
        incoming_requests(pod(container(memory="1Gib")), DEFAULT_FEATURES)


# --- pods that are being resized ------------------------------------------------------------------------------------

INFEASIBLE = Condition(type="PodResizePending", status="True", reason="Infeasible")
DEFERRED = Condition(type="PodResizePending", status="True", reason="Deferred")


def held(name="c", actuated=None, allocated=None):
    return ContainerStatus(name=name, resources=asking(actuated), allocated_resources=allocated)


# (pod, millicores up to 1.36, since 1.37)
RESIZE_CASES = {
    "growing to 2, has 1: max(2, 1, 1) = 2000": (
        pod(container(cpu="2"), container_statuses=[held(actuated={"cpu": "1"}, allocated={"cpu": "1"})]),
        2000,
        2000,
    ),
    "shrinking to 1, still has 3: max(1, 3, 1) = 3000": (
        pod(container(cpu="1"), container_statuses=[held(actuated={"cpu": "3"}, allocated={"cpu": "1"})]),
        3000,
        3000,
    ),
    "allocated but not in force yet: max(1, 1, 4) = 4000": (
        pod(container(cpu="1"), container_statuses=[held(actuated={"cpu": "1"}, allocated={"cpu": "4"})]),
        4000,
        4000,
    ),
    "two containers: max(1, 2) + max(2, 1), then max(1 + 2, 2 + 1)": (
        pod(
            container(cpu="1"),
            container("d", cpu="2"),
            container_statuses=[held(actuated={"cpu": "2"}), held("d", actuated={"cpu": "1"})],
        ),
        4000,
        3000,
    ),
    "a resize that cannot happen is not wanted: max(1, 1) = 1000": (
        pod(
            container(cpu="9"),
            container_statuses=[held(actuated={"cpu": "1"}, allocated={"cpu": "1"})],
            conditions=[INFEASIBLE],
        ),
        1000,
        1000,
    ),
    "nor is it without a status: 3, then 0": (pod(container(cpu="3"), conditions=[INFEASIBLE]), 3000, None),
    "only the first condition of that type is read: max(9, 1, 1) = 9000": (
        pod(
            container(cpu="9"),
            container_statuses=[held(actuated={"cpu": "1"}, allocated={"cpu": "1"})],
            conditions=[Condition(type="Ready"), DEFERRED, INFEASIBLE],
        ),
        9000,
        9000,
    ),
    "without status.resources: 2, then what is allocated, 5": (
        pod(container(cpu="2"), container_statuses=[held(allocated={"cpu": "5"})]),
        2000,
        5000,
    ),
    "that holds for infeasible resizes, too: 2, then 1": (
        pod(container(cpu="2"), container_statuses=[held(allocated={"cpu": "1"})], conditions=[INFEASIBLE]),
        2000,
        1000,
    ),
    "another container's status does not matter: 2000": (
        pod(container(cpu="2"), container_statuses=[held("other", actuated={"cpu": "9"})]),
        2000,
        2000,
    ),
    "sidecars are resized as well: 1 + max(1, 3) = 4000": (
        pod(container(cpu="1"), init=[sidecar(cpu="1")], init_container_statuses=[held("s", actuated={"cpu": "3"})]),
        4000,
        4000,
    ),
    "plain init containers are not: max(1, 2), then max(1, 9)": (
        pod(
            container(cpu="1"),
            init=[container("i", cpu="2")],
            init_container_statuses=[held("i", actuated={"cpu": "9"})],
        ),
        2000,
        9000,
    ),
    "the pod's own status stands for its containers': 1, then max(1, 3, 2)": (
        pod(
            container(cpu="1"),
            container_statuses=[held(actuated={"cpu": "1"}, allocated={"cpu": "1"})],
            resources=asking({"cpu": "3"}),
            allocated_resources={"cpu": "2"},
        ),
        1000,
        3000,
    ),
    "also where it is lower: max(1, 4), then max(1, 2, 2)": (
        pod(
            container(cpu="1"),
            container_statuses=[held(actuated={"cpu": "4"})],
            resources=asking({"cpu": "2"}),
            allocated_resources={"cpu": "2"},
        ),
        4000,
        2000,
    ),
    "the pod as a whole: max(2, 3, 1) = 3000": (
        pod(level={"cpu": "2"}, resources=asking({"cpu": "3"}), allocated_resources={"cpu": "1"}),
        3000,
        3000,
    ),
    "the pod as a whole, infeasible: max(3, 4) = 4000": (
        pod(
            level={"cpu": "9"},
            resources=asking({"cpu": "3"}),
            allocated_resources={"cpu": "4"},
            conditions=[INFEASIBLE],
        ),
        4000,
        4000,
    ),
    "the pod as a whole, infeasible and nothing held: 0, then what its containers hold": (
        pod(
            container(cpu="1"),
            level={"cpu": "9"},
            resources=asking({}),
            container_statuses=[held(actuated={"cpu": "1"})],
            conditions=[INFEASIBLE],
        ),
        0,
        1000,
    ),
    "held as a whole, wanted of memory only: 1, then 3": (
        pod(container(cpu="1"), level={"memory": "1Gi"}, resources=asking({"cpu": "3"})),
        1000,
        3000,
    ),
    "the pod as a whole without status.resources: 2000": (
        pod(level={"cpu": "2"}, allocated_resources={"cpu": "9"}),
        2000,
        2000,
    ),
}


@pytest.mark.parametrize(("resizing", "before", "since"), RESIZE_CASES.values(), ids=RESIZE_CASES)
def test_cpu_of_a_running_pod_up_to_1_36_and_since_1_37(resizing, before, since):
    assert running_usage(resizing, Features.of(36)).requests.get("cpu") == before
    assert running_usage(resizing, Features.of(37)).requests.get("cpu") == since


def test_the_status_of_an_incoming_pod_plays_no_part():
    asked = pod(container(cpu="1"), container_statuses=[held(actuated={"cpu": "9"})])
    assert incoming_requests(asked, DEFAULT_FEATURES) == {"cpu": 1000}


def test_a_running_pod_may_use_less_than_nothing_as_upstream_adds_it():
    assert running_usage(pod(container(memory="-1Ki")), DEFAULT_FEATURES).requests == {"memory": -1024}
    assert running_usage(pod(init=[container("i", memory="-1Ki")]), DEFAULT_FEATURES).requests == {"memory": -1024}


# --- non-zero usage -------------------------------------------------------------------------------------------------

NON_ZERO_CASES = {
    "a container that names nothing counts as 100m and 200Mi": (
        pod(container()),
        (DEFAULT_MILLI_CPU_REQUEST, DEFAULT_MEMORY_REQUEST),
    ),
    "two of them count twice": (
        pod(container(), container("d")),
        (2 * DEFAULT_MILLI_CPU_REQUEST, 2 * DEFAULT_MEMORY_REQUEST),
    ),
    "a zero that is named stays: 0 and 200Mi": (pod(container(cpu="0")), (0, DEFAULT_MEMORY_REQUEST)),
    "what is named counts: 500 + 100, 1Gi + 200Mi": (
        pod(container(cpu="500m", memory="1Gi"), container("d")),
        (500 + DEFAULT_MILLI_CPU_REQUEST, GI + DEFAULT_MEMORY_REQUEST),
    ),
    "everything named: 500, 1Gi": (pod(container(cpu="500m", memory="1Gi")), (500, GI)),
    "the pod names both: containers do not matter": (
        pod(container(), level={"cpu": "2", "memory": "4Gi"}),
        (2000, 4 * GI),
    ),
    "the pod names cpu, nothing names memory: 2000 and 2 x 200Mi": (
        pod(container(), container("d"), level={"cpu": "2"}),
        (2000, 2 * DEFAULT_MEMORY_REQUEST),
    ),
    "the pod names cpu, one container memory: the other counts for none": (
        pod(container(memory="1Gi"), container("d"), level={"cpu": "2"}),
        (2000, GI),
    ),
    "overhead of a resource that nothing else names counts as named": (
        pod(container(), level={"cpu": "2"}, overhead={"memory": "1Ki"}),
        (2000, 1024),
    ),
}


@pytest.mark.parametrize(("running", "expected"), NON_ZERO_CASES.values(), ids=NON_ZERO_CASES)
def test_non_zero_usage(running, expected):
    usage = running_usage(running, DEFAULT_FEATURES)
    assert (usage.non_zero_cpu, usage.non_zero_memory) == expected


def test_the_defaults_do_not_show_in_the_requests():
    assert running_usage(pod(container()), DEFAULT_FEATURES).requests == {}


# --- what scores see ------------------------------------------------------------------------------------------------

FIT = fit_scoring_request
BALANCED = balanced_scoring_request

SCORING_CASES = {
    "the fit score does not see the pod's own requests: 100m": (pod(container(), level={"cpu": "2"}), "cpu", FIT, 100),
    "the balanced score does: 2000": (pod(container(), level={"cpu": "2"}), "cpu", BALANCED, 2000),
    "the fit score assumes 200Mi": (pod(container()), "memory", FIT, DEFAULT_MEMORY_REQUEST),
    "the balanced score assumes nothing": (pod(container()), "memory", BALANCED, 0),
    "the fit score does not see a resize: 1000": (
        pod(container(cpu="1"), container_statuses=[held(actuated={"cpu": "3"})]),
        "cpu",
        FIT,
        1000,
    ),
    "the balanced score does: 3000": (
        pod(container(cpu="1"), container_statuses=[held(actuated={"cpu": "3"})]),
        "cpu",
        BALANCED,
        3000,
    ),
    "devices count in units": (pod(Container(resources=asking({"example.com/gpu": "2"}))), "example.com/gpu", FIT, 2),
    "a resource that is not asked for": (pod(container(cpu="1")), "example.com/gpu", FIT, 0),
}


@pytest.mark.parametrize(("asked", "resource", "request_of", "expected"), SCORING_CASES.values(), ids=SCORING_CASES)
def test_scoring_requests(asked, resource, request_of, expected):
    assert request_of(asked, resource, DEFAULT_FEATURES) == expected


# --- nodes ----------------------------------------------------------------------------------------------------------


def test_allocatable_of_a_node():
    given_by_kubelet: ResourceList = {
        "cpu": "3920m",
        "memory": "15.5Gi",
        "ephemeral-storage": "47093746742",
        "pods": "110",
        "hugepages-1Gi": "0",
        "example.com/gpu": 4,
        "storage": "1Ti",
    }
    assert allocatable(given_by_kubelet) == {
        "cpu": 3920,
        "memory": 31 * 2**29,
        "ephemeral-storage": 47093746742,
        "pods": 110,
        "hugepages-1Gi": 0,
        "example.com/gpu": 4,
    }


def test_a_node_without_allocatable_has_nothing():
    assert allocatable(None) == {}
    assert allocatable({}) == {}


# --- names ----------------------------------------------------------------------------------------------------------

NAMES = {
    "a domain and a name is extended": ("example.com/gpu", True, True),
    "a name without a domain is native": ("gpu", False, False),
    "kubernetes.io/ is native, but counted": ("kubernetes.io/thing", False, True),
    "so is a domain below it": ("x.kubernetes.io/thing", False, True),
    "requests. is quota's": ("requests.example.com/gpu", False, False),
    "huge pages are counted": ("hugepages-2Mi", False, True),
    "attachable volumes are counted": ("attachable-volumes-aws-ebs", False, True),
    "cpu is neither": ("cpu", False, False),
    "pods is neither": ("pods", False, False),
    "an upper-case domain is not a valid name": ("Example.com/gpu", False, False),
    "two slashes are not a valid name": ("example.com/a/b", False, False),
    "a domain of 244 characters and `requests.` are 253": ("a" * 240 + ".com/x", True, True),
    "one of 245 is too long": ("a" * 241 + ".com/x", False, False),
}


@pytest.mark.parametrize(("name", "extended", "scalar"), NAMES.values(), ids=NAMES)
def test_names_of_resources(name, extended, scalar):
    assert (is_extended(name), is_scalar(name)) == (extended, scalar)


# --- properties -----------------------------------------------------------------------------------------------------

millicores = st.integers(0, 4000).map(lambda milli: f"{milli}m")
plain = st.builds(lambda cpu: container(cpu=cpu), millicores)
init_like = st.one_of(
    st.builds(lambda cpu: sidecar(cpu=cpu), millicores), st.builds(lambda cpu: container("i", cpu=cpu), millicores)
)


def milli(one):
    return int(one.resources.requests["cpu"].removesuffix("m"))


@given(st.lists(plain, max_size=4), st.lists(init_like, max_size=5))
def test_the_largest_step_of_a_pods_life_counts(containers, inits):
    """The formula of KEP-753, step by step."""

    def sidecars_before(step):
        return sum(milli(one) for one in inits[:step] if one.restart_policy == "Always")

    steps = [sidecars_before(i) + milli(one) for i, one in enumerate(inits)]
    steps.append(sidecars_before(len(inits)) + sum(map(milli, containers)))
    assert incoming_requests(pod(*containers, init=inits), DEFAULT_FEATURES).get("cpu", 0) == max(steps), (
        "another step counts than the largest"
    )


@given(st.lists(plain, min_size=1, max_size=5).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_the_order_of_containers_does_not_count(orders):
    one, other = (running_usage(pod(*containers), DEFAULT_FEATURES) for containers in orders)
    assert one == other, "the order of the containers counts"
