"""One kube-scheduler with two profiles, and an extender that reads the very same file: both decide alike."""

import re

import pytest
import yaml

from extender.k8s.version.found import MAX_MINORS_BEHIND
from extender.k8s.version.versions import parse_version
from tests.e2e.control_plane.lab import binaries, keys
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.second_scheduler import kube_scheduler
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.control_plane.test_install_schedulers import address, bound_to, complaints, shipped

CPU_IN_USE = {"n1": "6", "n2": "4", "n3": "2", "n4": None}
"""Node of 8 cpu -> what a running pod takes there."""

PROFILES = ("default-scheduler", "bin-packing")


@pytest.fixture(scope="module")
def cluster(plane):
    api = plane.api
    api.create(priority_class("high", 1000), *(node(name) for name in CPU_IN_USE))
    api.create(
        *(pod(f"in-use-{name}", cpu, node=name, priority_class="high") for name, cpu in CPU_IN_USE.items() if cpu)
    )
    return plane


@pytest.fixture(scope="module")
def file(cluster):
    """kube-scheduler's file, which the extender reads too."""
    return cluster.directory / "two-profiles.yaml"


@pytest.fixture(scope="module")
def service_and_calls(cluster, file):
    identity = cluster.kubeconfig(keys.SCHEDULER)
    service = Service(cluster, {"scheduler": {"config": str(file)}}, name="profiles")
    with CallRecorder(service.url) as recorder:
        file.write_text(shipped("two-profiles.yaml", address(recorder.url), identity))
        with service:
            yield service, recorder


@pytest.fixture
def service(service_and_calls):
    return service_and_calls[0]


@pytest.fixture
def calls(service_and_calls):
    """The calls of kube-scheduler in this test."""
    service_and_calls[1].clear()
    return service_and_calls[1]


@pytest.fixture(autouse=True)
def _leave_no_pods(cluster):
    yield
    for one in cluster.api.list("Pod", "default"):
        if not one["metadata"]["name"].startswith("in-use-"):
            cluster.api.delete("Pod", one["metadata"]["name"], grace=0)

    def names():
        return [one["metadata"]["name"] for one in cluster.api.list("Pod", "default")]

    cluster.api.wait_until(lambda: all(name.startswith("in-use-") for name in names()), 20, "no pods")


def version_line(service):
    """What /readyz says of kube-scheduler's version."""
    text = service.admin_get("/readyz?verbose").text
    return next(line for line in text.splitlines() if "kube-scheduler" in line)


def simulated_node(service, one):
    """The node that the extender's simulation binds the pod to."""
    answer = service.admin_post("/simulate", {"pods": [one]})
    assert answer.status_code == 200, answer.text
    (cycle,) = answer.json()["cycles"]
    return cycle["node"]


def explained(service, one):
    """The kept decision about the pod's /prioritize: its scheduler, and the nodes with the highest total."""
    about = {**one, "metadata": {**one["metadata"], "uid": f"uid-{one['metadata']['name']}"}}
    answer = service.call("prioritize", {"Pod": about, "NodeNames": list(CPU_IN_USE)})
    decision = service.admin_get(f"/decisions/{answer.headers['x-extender-decision']}").json()
    highest = max(each["total"] for each in decision["nodes"])
    return decision["scheduler"], {each["name"] for each in decision["nodes"] if each["total"] == highest}


def names_left(service, body):
    """The nodes that /filter accepts."""
    return service.call("filter", body).json().get("NodeNames") or []


def settle_version(api, service, words):
    api.wait_until(lambda: words in version_line(service), 30, f"{words!r} in {version_line(service)!r}")


@pytest.fixture
def control_plane_pod(cluster):
    """Creates what kubeadm's static pod of kube-scheduler looks like in the API; it goes afterwards."""
    made = []

    def create(version):
        name = f"kube-scheduler-{version.replace('.', '-')}"
        one = pod(name, "1m", "1Mi", node="n4", namespace="kube-system",
                  labels={"component": "kube-scheduler", "tier": "control-plane"})  # fmt: skip
        container = one["spec"]["containers"][0]
        container |= {"name": "kube-scheduler", "image": f"registry.k8s.io/kube-scheduler:v{version}"}
        cluster.api.create(one)
        made.append(name)

    yield create
    for name in made:
        cluster.api.delete("Pod", name, "kube-system", grace=0)


# --- tests ----------------------------------------------------------------------------------------------------------


def test_without_a_kube_scheduler_in_the_cluster_the_version_is_the_api_servers(cluster, service):
    assert binaries.NEWEST in version_line(service)
    assert "API server" in version_line(service)


@pytest.mark.parametrize("version", sorted(binaries.SCHEDULERS))
def test_pods_of_each_profile_land_where_the_extender_says(cluster, service, file, control_plane_pod, version):
    """`version: auto` follows the pod of kube-scheduler, unless it is too old for the API server."""
    control_plane_pod(f"{version}.4")
    if parse_version(binaries.NEWEST).minor - parse_version(version).minor <= MAX_MINORS_BEHIND:
        settle_version(cluster.api, service, f"kube-scheduler {version}.")
        pods_land_where_the_extender_says(cluster, service, file, version)
        return
    settle_version(cluster.api, service, f"ignored, as too far from it: image tag v{version}.4")
    own_file = file.with_name("two-profiles-configured.yaml")
    told = Service(cluster, {"scheduler": {"config": str(own_file), "version": version}}, name="profiles-configured")
    with CallRecorder(told.url) as recorder:
        own_file.write_text(shipped("two-profiles.yaml", address(recorder.url), cluster.kubeconfig(keys.SCHEDULER)))
        with told:
            pods_land_where_the_extender_says(cluster, told, own_file, version)


def pods_land_where_the_extender_says(cluster, service, file, version):
    api, identity = cluster.api, cluster.kubeconfig(keys.SCHEDULER)
    prefix = f"v{version.replace('.', '-')}"
    landed = {}
    with kube_scheduler(cluster, file, identity, version) as scheduler:
        for profile in PROFILES:
            one = pod(f"{prefix}-{profile}", schedulerName=profile)
            by, best = explained(service, one)
            assert (by["version"], by["profile"]) == (version, profile)
            expected = simulated_node(service, one)
            api.create(one)
            landed[profile] = api.wait_until(
                lambda name=f"{prefix}-{profile}": bound_to(api, name), 25, f"{profile} to be bound"
            )
            assert {landed[profile]} == {expected} == best
            api.delete("Pod", f"{prefix}-{profile}", grace=0)
    assert landed == {"default-scheduler": "n4", "bin-packing": "n1"}
    assert complaints(cluster, scheduler, prefix) == []


def test_a_preemptor_of_each_profile_gets_its_node(cluster, calls, file):
    """4 cpu fit nowhere beside the pods in use and others that fill the nodes; the extender chooses the victims."""
    api, identity = cluster.api, cluster.kubeconfig(keys.SCHEDULER)
    api.create(*(pod(f"low-{name}", str(8 - int(cpu or 0)), node=name) for name, cpu in CPU_IN_USE.items() if cpu))
    api.create(*(pod(f"low-n4-{number}", "4", node="n4") for number in (1, 2)))
    with kube_scheduler(cluster, file, identity) as scheduler:
        for profile in PROFILES:
            name = f"urgent-{profile}"
            api.create(pod(name, "4", priority_class="high", schedulerName=profile))
            api.wait_until(lambda name=name: bound_to(api, name), 25, f"{name} to be bound")
    preempt = calls.calls_of("preempt")
    assert {one.name for one in preempt} == {f"default/urgent-{profile}" for profile in PROFILES}
    assert {one.status for one in preempt} == {200}
    assert complaints(cluster, scheduler, "urgent") == []


def test_a_pod_of_a_third_scheduler_is_passed_through(service):
    """kube-scheduler never sends one; it does not fit, and every node is returned all the same."""
    before = service.metric("extender_answers_total", verb="filter", result="passthrough")
    one = pod("of-another", "100", schedulerName="another")
    one["metadata"]["uid"] = "uid-of-another"
    answer = service.call("filter", {"Pod": one, "NodeNames": list(CPU_IN_USE)})
    assert answer.status_code == 200
    assert answer.json()["NodeNames"] == list(CPU_IN_USE)
    assert service.metric("extender_answers_total", verb="filter", result="passthrough") == before + 1
    assert service.metric("extender_failures_total", reason="UnknownScheduler") > 0
    assert "not ours" in service.admin_get("/readyz?verbose").text


def test_a_profile_that_is_added_to_the_file_decides_without_a_restart(cluster, service, file):
    text = file.read_text()
    config = yaml.safe_load(text)
    one = pod("of-the-third", "100", schedulerName="third")
    one["metadata"]["uid"] = "uid-of-the-third"
    body = {"Pod": one, "NodeNames": list(CPU_IN_USE)}
    assert service.call("filter", body).json()["NodeNames"] == list(CPU_IN_USE)
    config["profiles"].append({"schedulerName": "third"})
    try:
        file.write_text(yaml.safe_dump(config))
        cluster.api.wait_until(lambda: names_left(service, body) == [], 20, "the third profile")
        file.write_text("profiles: 1\n")
        cluster.api.wait_until(lambda: service.metric("extender_config_valid") == 0, 20, "the error")
        assert names_left(service, body) == []
        assert re.search(r"two-profiles\.yaml", service.admin_get("/readyz?verbose").text)
    finally:
        file.write_text(text)
    cluster.api.wait_until(lambda: service.metric("extender_config_valid") == 1, 20, "a valid file")
