"""The shipped kube-scheduler configurations in real kube-schedulers, with the identities of the manifests."""

import re
import sys

import pytest
import yaml

from tests.e2e.control_plane.lab import binaries, keys
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.evictions import judge
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class
from tests.e2e.control_plane.lab.process import free_port
from tests.e2e.control_plane.lab.second_scheduler import kube_scheduler, kubeconfig_of_secret
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.deploy import helm_test_process
from tests.e2e.deploy.manifests import (
    DEPLOY,
    HELM,
    NO_HELM,
    OVERLAYS,
    STATIC,
    containers,
    extender_of,
    hooks_of,
    of_kind,
    pod_of,
    rendered,
)
from tests.e2e.deploy.schemas import KINDS_OF_OTHERS
from tests.fakes.certificates import Certificates

NODES = ("n1", "n2")

GPU = "nvidia.com/gpu"

ADDRESS = "127.0.0.1:8888"
"""Where the configurations expect the extender."""


@pytest.fixture(scope="module")
def cluster(plane):
    """A control plane with two nodes."""
    plane.api.create(priority_class("high", 1000), *(node(name, cpu="4", extended={GPU: "4"}) for name in NODES))
    return plane


@pytest.fixture(autouse=True)
def _leave_no_pods(cluster):
    yield
    for one in cluster.api.list("Pod", "default"):
        cluster.api.delete("Pod", one["metadata"]["name"], grace=0)
    cluster.api.wait_until(lambda: not cluster.api.list("Pod", "default"), 20, "no pods")


# --- what is run ----------------------------------------------------------------------------------------------------


def shipped(name, address, kubeconfig):
    """A file of deploy/scheduler, with the extender's address and the path of the kubeconfig of this machine."""
    text = (DEPLOY / "scheduler" / name).read_text()
    assert "kubeconfig: /etc/kubernetes/scheduler.conf" in text
    return text.replace("/etc/kubernetes/scheduler.conf", str(kubeconfig)).replace(ADDRESS, address)


def address(url):
    return url.partition("//")[2]


def one_round(plane, prefix, requests=None, **spec):
    """Schedule a pod that fits, then one that needs a preemption; return the victims' names."""
    api = plane.api
    spec["requests"] = requests
    for name in NODES:
        api.create(pod(f"{prefix}-low-{name}", cpu="3", node=name))
    for name, cpu, priority in (("fits", "500m", None), ("urgent", "3", "high")):
        api.create(pod(f"{prefix}-{name}", cpu=cpu, priority_class=priority, **spec))
        api.wait_until(lambda name=name: bound_to(api, f"{prefix}-{name}"), 25, f"{prefix}-{name} to be bound")
    return [f"{prefix}-low-{name}" for name in NODES if api.find("Pod", f"{prefix}-low-{name}") is None]


def bound_to(api, name, namespace="default"):
    return api.get("Pod", name, namespace)["spec"].get("nodeName")


def complaints(plane, scheduler, prefix):
    """What kube-scheduler says of an extender that it could not use, in its log and in events of a round's pods."""
    lines = [line for line in scheduler.log.splitlines() if line[:1] in "EW" and "xtender" in line.partition("]")[2]]
    notes = [
        one.get("note", "")
        for one in plane.api.list("Event", "default")
        if one.get("regarding", {}).get("name", "").startswith(prefix)
    ]
    return lines + [note for note in notes if "xtender" in note]


def forbidden(plane, *users):
    return [(one.user, one.verb, one.uri) for one in plane.audit_events() if one.user in users and one.status == 403]


# --- a second scheduler ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "second-scheduler, everything",
        *(
            pytest.param(name, marks=pytest.mark.skipif(not HELM, reason=NO_HELM))
            for name in (
                "helm second-scheduler, everything",
                "helm examples/second-scheduler-strict.yaml",
                "helm examples/second-scheduler-1.33.yaml",
            )
        ),
    ],
)
def test_the_second_scheduler_schedules_with_its_own_accounts_and_nothing_is_forbidden(cluster, name):
    api = cluster.api
    objects = [one for one in rendered(name) if one["kind"] not in KINDS_OF_OTHERS]
    files = {key: text for one in of_kind(objects, "ConfigMap") for key, text in one["data"].items()}
    account = pod_of(objects)["spec"]["serviceAccountName"]
    (secret,) = of_kind(objects, "Secret")
    api.apply(objects)
    file = cluster.directory / f"second-{account}-kube-scheduler.yaml"
    file.write_text(files["kube-scheduler.yaml"])
    service = Service(
        cluster,
        yaml.safe_load(files["extender.yaml"]) | {"scheduler": {"config": str(file)}},
        kubeconfig=kubeconfig_of_secret(cluster, secret["metadata"]["name"]),
        name=f"second-{account}-{free_port()}",
    )
    api.apply(objects)  # Service applies the role of the other variants
    (container,) = [one for one in containers(pod_of(objects)) if one["name"] == "kube-scheduler"]
    flags = [word for word in container["command"][1:] if not word.startswith("--config=")]
    assert flags
    version = re.findall(r":v(1\.\d+)\.", container["image"])[0]
    users = [f"system:serviceaccount:kube-system:{one}" for one in ("extender", account)]
    with service, CallRecorder(service.url) as recorder:
        config = yaml.safe_load(files["kube-scheduler.yaml"].replace(ADDRESS, address(recorder.url)))
        own = cluster.service_account_kubeconfig("kube-system", account)
        text = yaml.safe_dump(config | {"clientConnection": {"kubeconfig": str(own)}})
        profile = config["profiles"][0]
        api.create(pod("of-another", cpu="1m"))
        with kube_scheduler(cluster, text, own, version, flags=flags) as scheduler:
            for test in of_kind(hooks_of(name), "Pod"):
                helm_test_passes(cluster, name, test, service)
            assert len(one_round(cluster, "second", schedulerName=profile["schedulerName"])) == 1
            lease = api.get("Lease", config["leaderElection"]["resourceName"], "kube-system")
            assert lease["spec"]["holderIdentity"]
        assert {"filter", "preempt"} <= {one.verb for one in recorder.calls}
        assert judge(cluster.audit_events(), recorder.calls, [users[1]]).faults == []
        assert complaints(cluster, scheduler, "second") == []
        assert bound_to(api, "of-another") is None
    assert forbidden(cluster, *users) == []
    for one in objects:
        api.delete(f"{one['apiVersion']}/{one['kind']}", one["metadata"]["name"], "kube-system")


def helm_test_passes(plane, name, test, service):
    """The second scheduler schedules the test pod, whose script then finds that it has called /filter."""
    plane.api.create(test)
    where = test["metadata"]["name"], test["metadata"]["namespace"]
    scheduled = plane.api.wait_until(lambda: bound_to(plane.api, *where), 25, "the test pod to be bound")
    code, printed = helm_test_process.run(*helm_test_process.argv(name, {"admin": service.admin_url}, node=scheduled))
    assert (code, printed.splitlines()[-1]) == (0, "passed")
    assert "/metrics counts 1 decided calls of /filter\n" in printed
    plane.api.delete("Pod", *where, grace=0)


# --- static pods and a kube-scheduler of kubeadm --------------------------------------------------------------------


@pytest.fixture(scope="module")
def static_pod(cluster, tmp_path_factory):
    """The extender as the static pod runs it, as the user of its kubeconfig."""
    objects = rendered(STATIC)
    cluster.api.apply(one for one in objects if one["kind"] != "Pod")
    folder = tmp_path_factory.mktemp("etc-kubernetes-extender")
    (folder / "kubeconfig").write_bytes(cluster.kubeconfig("extender").read_bytes())
    (folder / "extender.yaml").write_bytes((OVERLAYS.parent / "base" / "extender.yaml").read_bytes())
    container = extender_of(pod_of(objects))
    service = Service(cluster, name="static-pod", kubeconfig=folder / "kubeconfig")
    arguments = [one.replace("/etc/extender/config", str(folder)) for one in container["args"]]
    service.argv = [sys.executable, "-m", "extender", *arguments]
    ports = {
        "EXTENDER_SERVER__PORT": service.url.rpartition(":")[2],
        "EXTENDER_ADMIN__PORT": service.admin_url.rpartition(":")[2],
    }
    service.environment |= {one["name"]: one["value"] for one in container["env"]} | ports
    service.start()
    yield service
    service.stop(2.0)
    for one in objects:
        cluster.api.delete(f"{one['apiVersion']}/{one['kind']}", one["metadata"]["name"], "kube-system")


@pytest.mark.parametrize("file", ["preempt-only.yaml", "filter-and-preempt.yaml"])
def test_a_kube_scheduler_of_kubeadm_calls_the_static_pod_of_its_node(cluster, static_pod, file):
    identity = cluster.kubeconfig(keys.SCHEDULER)
    prefix = file.partition("-")[0]
    with CallRecorder(static_pod.url) as recorder:
        with kube_scheduler(cluster, shipped(file, address(recorder.url), identity), identity) as scheduler:
            assert len(one_round(cluster, prefix)) == 1
        assert {one.verb for one in recorder.calls} == {"preempt"} | ({"filter"} if "filter" in file else set())
        assert complaints(cluster, scheduler, prefix) == []
    assert forbidden(cluster, "extender", keys.SCHEDULER) == []


# --- the share of candidate nodes -----------------------------------------------------------------------------------


@pytest.fixture
def many(cluster):
    """130 nodes with a victim each; a disruption budget covers those of all but the first."""
    api = cluster.api
    names = [f"many-{number}" for number in range(130)]
    api.create(*(node(name, cpu="4", labels={"pool": "many"}) for name in names))
    api.create(*(pod(f"covered-{name}", cpu="3", node=name, labels={"app": "covered"}) for name in names[1:]))
    api.create(pod("free", cpu="3", node=names[0]), budget("covered", {"app": "covered"}, minAvailable=129))

    def is_counted():
        return api.get("PodDisruptionBudget", "covered").get("status", {}).get("currentHealthy") == 129

    api.wait_until(is_counted, 30, "the budget")
    yield names
    for name in names:
        api.delete("Node", name)
    api.delete("PodDisruptionBudget", "covered")


def test_kube_scheduler_sends_a_share_of_the_candidates_and_strict_needs_no_more(cluster, many):
    api, identity = cluster.api, cluster.kubeconfig(keys.SCHEDULER)
    with (
        Service(cluster, {"preemption": {"preset": "careful"}}, name="careful") as service,
        CallRecorder(service.url) as recorder,
    ):
        text = shipped("filter-and-preempt.yaml", address(recorder.url), identity)
        with kube_scheduler(cluster, text, identity):
            api.create(pod("urgent", cpu="3", priority_class="high", nodeSelector={"pool": "many"}))
            api.wait_until(lambda: bound_to(api, "urgent"), 25, "urgent to be bound")
        assert bound_to(api, "urgent") == many[0]
        (call,) = recorder.calls_of("preempt")
        # It looks for 100, of which one violates no budget, and keeps at most 100 of each kind: that one may come last.
        assert len(call.victims) in (100, 101)


# --- TLS in both directions -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def over_tls(cluster, tmp_path_factory):
    """The extender with the TLS settings of overlays/service; the folder has the files of both sides."""
    folder = tmp_path_factory.mktemp("tls")
    made = Certificates(folder)
    server = made.client_with("server", "extender.kube-system.svc", common_name="extender")
    paths = {"tls.crt": server.certificate, "tls.key": server.key, "ca.crt": made.ca_file}
    settings = {
        one["name"]: str(paths.get(one["value"].rpartition("/")[2], one["value"]))
        for one in extender_of(pod_of(rendered("service")))["env"]
        if one["name"].startswith("EXTENDER_SERVER__TLS__")
    }
    made.client("kube-scheduler")
    made.client("someone-else")
    (folder / "foreign").mkdir()
    Certificates(folder / "foreign").client("kube-scheduler")
    service = Service(cluster, {"preemption": {"preset": "careful"}}, name="over-tls")
    service.environment |= settings
    service.start()
    yield service, folder
    service.stop(2.0)


def remote(plane, service, folder, certificate=None):
    """deploy/scheduler/remote-tls.yaml with this client certificate, and not ignorable, so that a failure shows."""
    identity = plane.kubeconfig(keys.SCHEDULER)
    config = yaml.safe_load(shipped("remote-tls.yaml", "", identity))
    (extender,) = config["extenders"]
    extender |= {"urlPrefix": f"https://{address(service.url)}", "ignorable": False}
    tls = extender["tlsConfig"]
    tls["caFile"] = str(folder / "ca.crt")
    if certificate:
        tls |= {"certFile": f"{folder / certificate}.crt", "keyFile": f"{folder / certificate}.key"}
    else:
        del tls["certFile"], tls["keyFile"]
    return kube_scheduler(plane, yaml.safe_dump(config), identity)


def test_kube_scheduler_calls_over_tls_with_its_client_certificate(cluster, over_tls):
    service, folder = over_tls
    with remote(cluster, service, folder, "kube-scheduler") as scheduler:
        assert len(one_round(cluster, "tls")) == 1
    assert service.metric("extender_answers_total", verb="filter") >= 2
    assert service.metric("extender_answers_total", verb="preempt") >= 1
    assert complaints(cluster, scheduler, "tls") == []


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (None, "EOF|reset|closed idle connection"),  # why is in the extender's log
        ("someone-else", "code 403"),
        ("foreign/kube-scheduler", "EOF|reset|closed idle connection"),
    ],
    ids=["none", "of another name", "of another authority"],
)
def test_a_kube_scheduler_without_the_right_client_certificate_is_refused(cluster, over_tls, certificate, reason):
    service, folder = over_tls
    answered, refused = service.metric("extender_answers_total"), service.metric("extender_refused_clients_total")
    name = f"refused-{free_port()}"

    def message():
        conditions = cluster.api.get("Pod", name)["status"].get("conditions", ())
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

    with remote(cluster, service, folder, certificate):
        cluster.api.create(pod(name, cpu="1m"))
        cluster.api.wait_until(message, 20, "a reason")
        assert re.search(reason, message())
        assert bound_to(cluster.api, name) is None
    assert service.metric("extender_answers_total") == answered
    assert service.metric("extender_refused_clients_total") > refused


# --- versions of kube-scheduler -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_verbs(cluster):
    """One extender for all versions."""
    with Service(cluster, {"bind": {"enabled": True}}, roles=("bind",), name="all-verbs") as service:
        yield service


@pytest.mark.parametrize("version", sorted(binaries.SCHEDULERS))
def test_every_version_of_kube_scheduler_accepts_the_answers_of_all_verbs(cluster, all_verbs, version):
    identity, prefix = cluster.kubeconfig(keys.SCHEDULER), f"v{version.replace('.', '-')}"
    with CallRecorder(all_verbs.url) as recorder:
        text = shipped("managed-resources.yaml", address(recorder.url), identity)
        with kube_scheduler(cluster, text, identity, version) as scheduler:
            (evicted,) = one_round(cluster, prefix, {GPU: "1"})
        assert {one.verb for one in recorder.calls} == {"filter", "prioritize", "preempt", "bind"}
        (preempt,) = recorder.calls_of("preempt")
        assert preempt.answered_victims.keys() == {evicted.rpartition("-")[2]}
        judgement = judge(cluster.audit_events(), recorder.calls)
        assert (judgement.faults, judgement.unexplained) == ([], [])
        assert complaints(cluster, scheduler, prefix) == []
