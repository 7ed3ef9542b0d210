"""The manifests are valid, and agree with the code and with each other."""

import ipaddress
import json
import tempfile
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
import typer.main
import yaml

from extender import __version__, cli
from extender.cli.commands.openapi import ADMIN_DOCUMENT
from extender.config import Configuration
from extender.config.load import load_config
from extender.config.preemption import BuiltinProtectionsSection
from extender.config.scheduler.load import load_kube_scheduler
from extender.k8s.version.features import Features
from extender.k8s.version.versions import Version
from extender.server.admin import app as admin
from tests.e2e.deploy.manifests import (
    ALL,
    CHARTED,
    HELM,
    NO_HELM,
    OVERLAYS,
    ROOT,
    STATIC,
    chart,
    composed,
    containers,
    extender_of,
    has_scheduler_file,
    hooks_of,
    is_second_scheduler,
    kustomize,
    of_kind,
    pod_of,
    rendered,
    scheduler_file,
    those,
    workload,
)
from tests.e2e.deploy.schemas import KINDS_OF_OTHERS, VERSIONS, mistakes

needs_helm = pytest.mark.skipif(not HELM, reason=NO_HELM)
everywhere = pytest.mark.parametrize("name", ALL)

PROBES = "startupProbe", "livenessProbe", "readinessProbe"


# --- Kubernetes -----------------------------------------------------------------------------------------------------


@everywhere
def test_every_supported_version_of_kubernetes_takes_every_object(name):
    """An object is the same for all: no template asks for the version."""
    own = [one for one in rendered(name) + hooks_of(name) if one["kind"] not in KINDS_OF_OTHERS]
    assert [(version, mistake) for version in VERSIONS for one in own for mistake in mistakes(one, version)] == []


def test_a_mistake_would_be_found():
    deployment = workload(rendered("service"))
    wrong = {**deployment, "spec": {**deployment["spec"], "replicaz": 1, "replicas": "2"}}
    assert len(mistakes(wrong, VERSIONS[-1])) == 2


@everywhere
def test_objects_of_others_have_their_version_and_their_parts(name):
    """Shapes by the references of the Prometheus operator and of cert-manager."""
    parts = {
        "PodMonitor": {"selector", "podMetricsEndpoints"},
        "PrometheusRule": {"groups"},
        "Certificate": {"secretName", "issuerRef", "privateKey", "duration", "renewBefore", "commonName"},
        "Issuer": set(),
    }
    for one in of_kind(rendered(name), *KINDS_OF_OTHERS):
        assert one["apiVersion"] == KINDS_OF_OTHERS[one["kind"]]
        assert one["spec"].keys() - {"isCA", "dnsNames", "usages", "selfSigned", "ca"} == parts[one["kind"]]


@everywhere
def test_everything_is_in_one_namespace_and_nothing_is_there_twice(name):
    of_all, objects = {"ClusterRole", "ClusterRoleBinding"}, rendered(name) + hooks_of(name)
    assert {one["metadata"].get("namespace") for one in objects if one["kind"] not in of_all} == {"kube-system"}
    keys = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(keys) == len(set(keys))


# --- what the service is told ---------------------------------------------------------------------------------------


SERVE = typer.main.get_group(cli.app).commands["serve"]


@cache
def configuration(name) -> Configuration:
    """What the extender in that pod would run with."""
    container = extender_of(pod_of(rendered(name)))
    options = SERVE.make_context("serve", container["args"][1:]).params
    assert container["args"][0] == "serve"
    file = PurePosixPath(str(options["config"]))
    assert str(file.parent) in {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config"}
    env = {one["name"]: one["value"] for one in container.get("env", ())}
    assert options["kubernetes"] or options["kubeconfig"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / file.name
        path.write_text(config_files(name)[file.name], encoding="utf-8")
        return load_config(path, env, {"--kubernetes": ("cluster.source", "kubernetes")})


def config_files(name):
    """File -> content of what the volume `config` holds."""
    (volume,) = [one for one in pod_of(rendered(name))["spec"]["volumes"] if one["name"] == "config"]
    if name == STATIC:
        assert volume["hostPath"]["path"] == "/etc/kubernetes/extender"
        return {"extender.yaml": (OVERLAYS.parent / "base" / "extender.yaml").read_text(encoding="utf-8")}
    (held,) = [
        one for one in of_kind(rendered(name), "ConfigMap") if one["metadata"]["name"] == volume["configMap"]["name"]
    ]
    return held["data"]


@everywhere
def test_what_the_pod_says_is_a_valid_configuration(name):
    config = configuration(name)
    assert config.cluster.source == "kubernetes"
    if name in CHARTED:
        assert config.mode == CHARTED[name]["config"]["mode"]
    elif "everything" not in name:
        assert config.mode == "Observe"  # nothing changes before an operator has looked


# --- kube-scheduler's own file --------------------------------------------------------------------------------------


def scheduler_of(name, directory):
    """The profiles and the version by which that extender decides."""
    env = {one["name"]: one["value"] for one in extender_of(pod_of(rendered(name)))["env"]}
    ((file, text),) = scheduler_file(name).items()
    assert env["EXTENDER_SCHEDULER__CONFIG"] == f"/etc/extender/scheduler/{file}"
    (directory / file).write_text(text, encoding="utf-8")
    env["EXTENDER_SCHEDULER__CONFIG"] = str(directory / file)
    return load_kube_scheduler(load_config(None, env, {"--kubernetes": ("cluster.source", "kubernetes")}))


@pytest.mark.parametrize("name", those(has_scheduler_file))
def test_the_extender_decides_by_the_file_of_its_kube_scheduler(name, tmp_path):
    (text,) = scheduler_file(name).values()
    found = {one.scheduler_name for one in scheduler_of(name, tmp_path).profiles}
    assert found == {one["schedulerName"] for one in yaml.safe_load(text)["profiles"]}


@pytest.mark.parametrize("name", those(is_second_scheduler))
def test_a_second_schedulers_version_and_gates_are_those_of_its_container(name, tmp_path):
    (container,) = [one for one in containers(pod_of(rendered(name))) if one["name"] == "kube-scheduler"]
    scheduler = scheduler_of(name, tmp_path)
    assert container["image"].endswith(f":v{scheduler.release}")
    gates = [word.removeprefix("--feature-gates=") for word in container["command"] if "--feature-gates=" in word]
    told = {gate: value == "true" for gate, _, value in (one.partition("=") for one in gates)}
    assert scheduler.features == Features.of(Version(scheduler.minor, scheduler.patch), told)


FIRST_EXAMPLE = "helm examples/second-scheduler.yaml"


def kube_scheduler_flags(objects):
    (container,) = [one for one in containers(pod_of(objects)) if one["name"] == "kube-scheduler"]
    return [word for word in container["command"] if "unschedulable-pods" in word]


@pytest.mark.parametrize("name", ["second-scheduler", pytest.param(FIRST_EXAMPLE, marks=needs_helm)])
def test_a_second_scheduler_soon_retries_what_was_vetoed(name):
    assert kube_scheduler_flags(rendered(name)) == ["--pod-max-in-unschedulable-pods-duration=30s"]


@needs_helm
@pytest.mark.parametrize(("value", "words"), [("2m", ["--pod-max-in-unschedulable-pods-duration=2m"]), ("", [])])
def test_the_chart_sets_how_soon_pods_are_retried(value, words):
    assert kube_scheduler_flags(chart({"scheduler": {"podMaxInUnschedulablePodsDuration": value}})) == words


@pytest.mark.parametrize("name", those(lambda name: not has_scheduler_file(name)))
def test_without_a_file_nothing_of_it_is_mounted(name):
    assert scheduler_file(name) == {}
    assert not [one for one in extender_of(pod_of(rendered(name)))["env"] if "SCHEDULER__" in one["name"]]


def test_static_pods_read_the_file_of_the_node(tmp_path):
    """The component patches a Pod as it does a DaemonSet."""
    pod = kustomize(composed("static-pod", ["scheduler-config-host"], tmp_path))
    other = pod_of(rendered("control-plane, everything"))
    for both in (lambda one: extender_of(one)["volumeMounts"][-1], lambda one: one["spec"]["volumes"][-1]):
        assert both(pod[0]) == both(other)
    assert extender_of(pod[0])["env"][-1] == extender_of(other)["env"][-1]


@everywhere
def test_ports_are_those_that_are_listened_on(name):
    config, container = configuration(name), extender_of(pod_of(rendered(name)))
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    others_call = pod_of(rendered(name))["spec"].get("hostNetwork", False) or not is_loopback(config.server.host)
    assert ports == {"admin": config.admin.port} | ({"extender": config.server.port} if others_call else {})


def is_loopback(host):
    return ipaddress.ip_address(host).is_loopback


@everywhere
def test_the_schedulers_port_has_plain_http_on_loopback_only(name):
    config = configuration(name)
    assert is_loopback(config.server.host) or config.server.tls.client_ca is not None
    assert not config.server.allow_plain_http
    if config.server.tls.is_on:
        assert config.server.tls.allowed_names


@everywhere
def test_probes_ask_what_the_admin_listener_answers(name):
    config, container = configuration(name), extender_of(pod_of(rendered(name)))
    asked = {probe: container[probe]["httpGet"] for probe in PROBES}
    assert {probe: get["path"] for probe, get in asked.items()} == {
        "startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz",
    }  # fmt: skip
    for get in asked.values():
        assert get["path"] in json.loads(ADMIN_DOCUMENT.read_bytes())["paths"]
        assert get["path"] in admin.PUBLIC_PATHS
        assert get["port"] == "admin"
        assert get.get("scheme", "HTTP") == ("HTTPS" if config.admin.tls.is_on else "HTTP")
        assert get.get("host") == (config.admin.host if is_loopback(config.admin.host) else None)
    assert config.admin.tls.client_ca is None  # a kubelet has no certificate to show


@everywhere
def test_files_of_certificates_are_mounted_from_the_secret(name):
    config, pod = configuration(name), pod_of(rendered(name))
    named = {
        PurePosixPath(path)
        for tls in (config.server.tls, config.admin.tls)
        for path in (tls.certificate, tls.key, tls.client_ca)
        if path is not None
    }
    assert {path.name for path in named} <= {"tls.crt", "tls.key", "ca.crt"}
    mounts = {one["mountPath"]: one["name"] for one in extender_of(pod)["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    for path in named:
        assert volumes[mounts[str(path.parent)]]["secret"]["secretName"].endswith("-tls")
    assert "subPath" not in str(pod)  # such a file never changes


@everywhere
def test_there_is_time_to_answer_the_last_calls(name):
    """10 s of calls after SIGTERM (server.drainTime), the end within 20."""
    config, pod = configuration(name), pod_of(rendered(name))
    assert pod["spec"]["terminationGracePeriodSeconds"] >= config.server.drain_time + 20
    assert "lifecycle" not in extender_of(pod)


@everywhere
def test_the_first_picture_has_its_time(name):
    probe = extender_of(pod_of(rendered(name)))["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 30


@everywhere
def test_the_pod_is_known_as_our_own_to_the_policies(name):
    assert "kube-scheduler-extender" in (BuiltinProtectionsSection.__pydantic_fields__["own_pods"].description or "")
    assert pod_of(rendered(name))["metadata"]["labels"]["app.kubernetes.io/name"] == "kube-scheduler-extender"


@everywhere
def test_memory_is_as_much_as_was_measured_and_cpu_is_not_limited(name):
    resources = extender_of(pod_of(rendered(name)))["resources"]
    assert resources == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


# --- security -------------------------------------------------------------------------------------------------------


def unrestricted(pod):
    """What the pod security standard `restricted` has against it."""
    spec, security = pod["spec"], pod["spec"]["securityContext"]
    found = {key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)}
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    found |= {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"} - allowed}
    if not (security.get("runAsNonRoot") and security.get("runAsUser")):
        found.add("root")
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.add("seccomp")
    for container in containers(pod):
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            found.add("allowPrivilegeEscalation")
        if own.get("capabilities") != {"drop": ["ALL"]}:
            found.add("capabilities")
        if own.keys() & {"privileged", "runAsUser", "runAsNonRoot", "seccompProfile", "procMount"}:
            found.add("overridden")
    return found


@everywhere
def test_pods_are_restricted_but_for_the_nodes_network_and_files(name):
    allowed = {"control-plane": {"hostNetwork"}, STATIC: {"hostNetwork", "hostPath"}}
    on_nodes = name in CHARTED and CHARTED[name].get("variant") == "ControlPlane"
    kind = "control-plane" if on_nodes else name.partition(",")[0]
    of_node = {"hostPath"} if kind == "control-plane" and has_scheduler_file(name) else set()
    assert unrestricted(pod_of(rendered(name))) == allowed.get(kind, set()) | of_node


@everywhere
def test_root_file_systems_are_read_only(name):
    pod = pod_of(rendered(name))
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in containers(pod))
    assert all(mount["readOnly"] for one in containers(pod) for mount in one["volumeMounts"])
    assert pod["spec"]["securityContext"]["runAsUser"] == 65532


@everywhere
def test_nobody_but_these_pods_gets_a_token_without_asking(name):
    assert all(one["automountServiceAccountToken"] is False for one in of_kind(rendered(name), "ServiceAccount"))
    assert pod_of(rendered(name))["spec"]["automountServiceAccountToken"] is (name != STATIC)


@everywhere
def test_own_pods_do_not_depend_on_the_extender(name):
    spec = pod_of(rendered(name))["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["priorityClassName"] in {"system-cluster-critical", "system-node-critical"}


# --- with each other ------------------------------------------------------------------------------------------------


@everywhere
def test_all_selectors_mean_our_pods(name):
    labels = pod_of(rendered(name))["metadata"]["labels"].items()
    made = workload(rendered(name))
    selectors = [made["spec"]["selector"]["matchLabels"]] if made["kind"] != "Pod" else []
    for one in of_kind(rendered(name), "Service"):
        selectors.append(one["spec"]["selector"])
    for one in of_kind(rendered(name), "PodDisruptionBudget", "PodMonitor"):
        selectors.append(one["spec"]["selector"]["matchLabels"])
    for one in of_kind(rendered(name), "NetworkPolicy"):
        selectors.append(one["spec"]["podSelector"]["matchLabels"])
    for term in _anti_affinity(pod_of(rendered(name))):
        selectors.append(term["podAffinityTerm"]["labelSelector"]["matchLabels"])
    assert all(selector and selector.items() <= labels for selector in selectors)


def _anti_affinity(pod):
    affinity = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    return affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())


@everywhere
def test_several_pods_are_spread_and_are_drained_one_at_a_time(name):
    made = workload(rendered(name))
    budgets = of_kind(rendered(name), "PodDisruptionBudget")
    if made["kind"] != "Deployment":
        assert (made["kind"], budgets) in (("DaemonSet", []), ("Pod", []))
        return
    assert made["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert made["spec"]["minReadySeconds"] > 0
    assert len(_anti_affinity(pod_of(rendered(name)))) == 1
    assert [one["spec"]["maxUnavailable"] for one in budgets] == [1]  # with minAvailable, one pod could not be drained


@everywhere
def test_volumes_are_mounted_and_mounts_have_a_volume(name):
    pod = pod_of(rendered(name))
    volumes = {one["name"] for one in pod["spec"]["volumes"]}
    assert {mount["name"] for one in containers(pod) for mount in one["volumeMounts"]} == volumes
    maps = {one["metadata"]["name"] for one in of_kind(rendered(name), "ConfigMap")} | {"kube-scheduler-config"}
    assert {one["configMap"]["name"] for one in pod["spec"]["volumes"] if "configMap" in one} <= maps


@everywhere
def test_a_network_policy_opens_the_ports_that_are_called_to_those_who_call(name):
    policies = of_kind(rendered(name), "NetworkPolicy")
    config = configuration(name)
    rules = [rule for one in policies for rule in one["spec"]["ingress"]]
    ports = {port["port"] for rule in rules for port in rule["ports"]}
    if not policies:
        is_wanted = CHARTED[name].get("networkPolicy") if name in CHARTED else "everything" in name
        assert not is_wanted or pod_of(rendered(name))["spec"]["hostNetwork"]
        return
    is_called = not is_loopback(config.server.host)
    assert ports == {config.admin.port} | ({config.server.port} if is_called else set())
    assert all(rule["from"] for rule in rules)  # none: everybody
    (egress,) = [rule for one in policies for rule in one["spec"].get("egress", ())]
    assert [port["port"] for port in egress["ports"]] == [443, 6443]


@everywhere
def test_prometheus_asks_as_the_admin_listener_answers(name):
    config = configuration(name)
    for one in of_kind(rendered(name), "PodMonitor"):
        (endpoint,) = one["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["path"]) == ("admin", "/metrics")
        assert endpoint["path"] in admin.PUBLIC_PATHS
        assert endpoint["scheme"] == ("https" if config.admin.tls.is_on else "http")
        assert "insecureSkipVerify" not in str(endpoint)
        if config.admin.tls.is_on:
            served = _dns_names(rendered(name))
            assert not served or endpoint["tlsConfig"]["serverName"] in served


def _dns_names(objects):
    return [dns for one in of_kind(objects, "Certificate") for dns in one["spec"].get("dnsNames", ())]


@everywhere
def test_certificates_are_for_the_service_and_for_who_may_call(name):
    made = {one["metadata"]["name"]: one for one in of_kind(rendered(name), "Certificate", "Issuer")}
    if not made:
        return
    (service,) = [one["metadata"]["name"] for one in of_kind(rendered(name), "Service")]
    assert f"{service}.kube-system.svc" in made[f"{service}-tls"]["spec"]["dnsNames"]
    config = configuration(name)
    assert made[f"{service}-scheduler-client"]["spec"]["commonName"] in config.server.tls.allowed_names
    volumes = {one["name"]: one for one in pod_of(rendered(name))["spec"]["volumes"]}
    assert made[f"{service}-tls"]["spec"]["secretName"] == volumes["tls"]["secret"]["secretName"]
    assert made[f"{service}-tls"]["spec"]["usages"][1] == "server auth"
    assert made[f"{service}-scheduler-client"]["spec"]["usages"][1] == "client auth"
    issuers = {one["spec"]["issuerRef"]["name"] for one in of_kind(rendered(name), "Certificate")}
    assert issuers == {one["metadata"]["name"] for one in of_kind(rendered(name), "Issuer")}


@everywhere
def test_a_service_is_for_one_scheduler_and_one_pod(name):
    for one in of_kind(rendered(name), "Service"):
        assert one["spec"]["sessionAffinity"] == "ClientIP"
        (port,) = one["spec"]["ports"]
        assert (port["port"], port["targetPort"]) == (configuration(name).server.port, "extender")


# --- the image ------------------------------------------------------------------------------------------------------


def test_the_image_of_the_manifests_has_the_version_of_the_package():
    assert extender_of(pod_of(rendered("service")))["image"] == f"kube-scheduler-extender:{__version__}"


def test_the_image_has_the_command_and_the_user_that_the_pods_count_on():
    """Pods give arguments only, and `runAsNonRoot`."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert 'ENTRYPOINT ["extender"]' in lines
    assert "USER 65532:65532" in lines
    assert any(line.startswith("ENV PATH=/venv/bin:") for line in lines)  # where `python` of the test pod is
