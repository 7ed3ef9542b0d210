"""The pod of `helm test`: what it may do, and its own script, run against the processes of the extender's pods."""

import socket
import subprocess

import httpx
import pytest
import yaml

from tests.e2e.deploy.helm_test_process import argv, hook_pod, run
from tests.e2e.deploy.manifests import (
    CHART,
    CHARTED,
    HELM,
    NO_HELM,
    SCHEDULER_FILE,
    chart,
    extender_of,
    hooks_of,
    is_second_scheduler,
    of_kind,
    pod_of,
    rendered,
    scheduler_file,
    workload,
)
from tests.e2e.deploy.pod_process import pod_process, tls_files
from tests.e2e.deploy.test_manifests import configuration, unrestricted
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates
from tests.server.conftest import CLUSTER, INCOMING, filter_body

pytestmark = pytest.mark.skipif(not HELM, reason=NO_HELM)

each = pytest.mark.parametrize("name", CHARTED)

OWN_NAME = "extender.kube-system.svc"

CONTROL_PLANE, SECOND, SERVICE = (
    f"helm examples/{file}.yaml" for file in ("control-plane-kubeadm", "second-scheduler-strict", "service-own-secret")
)


# --- the objects ----------------------------------------------------------------------------------------------------


@each
def test_the_pod_stays_until_the_next_test_and_all_else_until_a_success(name):
    for one in hooks_of(name):
        annotations, is_pod = one["metadata"]["annotations"], one["kind"] == "Pod"
        policies = annotations["helm.sh/hook-delete-policy"].split(",")
        assert policies == ["before-hook-creation", *([] if is_pod else ["hook-succeeded"])]
        assert ("helm.sh/hook-output-log-policy" in annotations) == is_pod


@each
def test_all_of_it_has_one_name(name):
    """`helm test --logs` reads the log of a pod with the name of each."""
    assert len({one["metadata"]["name"] for one in hooks_of(name)}) == 1


@each
def test_the_pod_is_restricted_small_and_without_a_token(name):
    pod = hook_pod(name)
    (container,) = pod["spec"]["containers"]
    on_nodes = CHARTED[name].get("variant") == "ControlPlane"
    assert unrestricted({**pod, "spec": {"volumes": [], **pod["spec"]}}) == ({"hostNetwork"} if on_nodes else set())
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert container["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi"}
    assert container["image"] == extender_of(pod_of(rendered(name)))["image"]


@each
def test_the_pod_runs_where_the_extender_does_and_a_second_scheduler_schedules_it(name):
    own, other = hook_pod(name)["spec"], pod_of(rendered(name))["spec"]
    for key in ("nodeSelector", "tolerations", "hostNetwork", "imagePullSecrets"):
        assert own.get(key) == other.get(key)
    assert ("schedulerName" in own) == is_second_scheduler(name)
    if is_second_scheduler(name):
        profiles = yaml.safe_load(scheduler_file(name)["kube-scheduler.yaml"])["profiles"]
        assert own["schedulerName"] in [profile["schedulerName"] for profile in profiles]


@each
def test_no_selector_of_the_release_means_the_test_pod(name):
    labels = hook_pod(name)["metadata"]["labels"].items()
    for one in rendered(name) + hooks_of(name):
        for selector in (one.get("spec", {}).get(key) for key in ("selector", "podSelector")):
            assert not selector or not selector.get("matchLabels", selector).items() <= labels


@each
def test_the_service_of_the_test_has_the_admin_listener_of_every_pod(name):
    on_nodes = CHARTED[name].get("variant") == "ControlPlane"
    services = of_kind(hooks_of(name), "Service")
    assert len(services) == (not on_nodes)
    for one in services:
        assert one["spec"]["clusterIP"] == "None"
        assert one["spec"]["publishNotReadyAddresses"] is True
        assert one["spec"]["selector"].items() <= pod_of(rendered(name))["metadata"]["labels"].items()
        (port,) = one["spec"]["ports"]
        admin = configuration(name).admin.port
        assert (port["port"], port["targetPort"]) == (admin, admin)
        assert admin in [one["containerPort"] for one in extender_of(pod_of(rendered(name)))["ports"]]
        assert arguments_of(name)["--pods"] == str(pod_count(name))
        host = f"{one['metadata']['name']}.{one['metadata']['namespace']}.svc"
        assert f"//{host}:{port['port']}" in arguments_of(name)["--admin"]


def pod_count(name):
    return workload(rendered(name))["spec"]["replicas"]


@each
def test_a_network_policy_lets_the_test_pod_in_where_one_keeps_others_out(name):
    kept, opened = of_kind(rendered(name), "NetworkPolicy"), of_kind(hooks_of(name), "NetworkPolicy")
    assert len(kept) == len(opened)
    for one in opened:
        assert one["spec"]["podSelector"] == kept[0]["spec"]["podSelector"]
        (rule,) = one["spec"]["ingress"]
        (source,) = rule["from"]
        assert source["podSelector"]["matchLabels"].items() <= hook_pod(name)["metadata"]["labels"].items()
        called = {int(arguments_of(name)[key].split(":")[2].partition("/")[0]) for key in ("--admin", "--filter")
                  if key in arguments_of(name)}  # fmt: skip
        assert {port["port"] for port in rule["ports"]} == called


def arguments_of(name):
    """Option -> its value; True without one."""
    split = [one.partition("=") for one in hook_pod(name)["spec"]["containers"][0]["args"]]
    return {option: value if equals else True for option, equals, value in split}


@each
def test_the_pod_asks_for_filter_in_one_way(name):
    assert len({"--filter", "--filter-calls", "--note"} & arguments_of(name).keys()) == 1
    assert "--note" not in arguments_of(name)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({"variant": "Service"}, "needs a client certificate; name its Secret in tests.clientSecretName"),
        ({"scheduler": {"extender": {"filterVerb": None}}}, "calls of /filter"),
        ({"scheduler": {"extender": {"managedResources": [{"name": "a.b/c"}]}}}, "calls of /filter"),
    ],
)
def test_what_cannot_be_asked_is_named(values, note):
    (pod,) = of_kind(chart(values), "Pod")
    (container,) = pod["spec"]["containers"]
    (found,) = [one for one in container["args"] if one.startswith("--note=")]
    assert note in found
    assert not [one for one in container["args"] if one.startswith("--filter")]


@each
def test_certificates_come_from_the_secrets_and_the_key_of_the_server_does_not(name):
    spec, given = hook_pod(name)["spec"], arguments_of(name)
    volumes = {one["name"]: one["secret"] for one in spec.get("volumes", ())}
    held = {
        f"{mount['mountPath']}/{item['path']}": (volumes[mount["name"]]["secretName"], item["key"])
        for mount in spec["containers"][0].get("volumeMounts", ())
        for item in volumes[mount["name"]]["items"]
    }
    named = {given[key] for key in ("--ca", "--certificate", "--key") if key in given}
    assert held.keys() == named
    served = [one["secret"]["secretName"] for one in pod_of(rendered(name))["spec"]["volumes"] if one["name"] == "tls"]
    assert {key for secret, key in held.values() if secret in served} == ({"ca.crt"} if served else set())
    made = {one["spec"]["secretName"] for one in of_kind(rendered(name), "Certificate")}
    assert not made or {secret for secret, _ in held.values()} <= made


def test_the_script_is_the_file_and_kubernetes_expands_nothing_in_it():
    """`$(NAME)` in a command is replaced."""
    file = (CHART / "files" / "helm_test.py").read_text(encoding="utf-8")
    assert "$(" not in file
    for name in CHARTED:
        program, option, script = hook_pod(name)["spec"]["containers"][0]["command"]
        assert (program, option, script.strip()) == ("python", "-c", file.strip())


# --- the script -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def api():
    with FakeAPI() as started:
        for one in CLUSTER["items"]:
            started.put(one["kind"], one)
        yield started


@pytest.fixture(scope="module")
def secrets(certificates):
    """Mount path in the test pod -> its files."""
    client = certificates.client("kube-scheduler")
    return {"/etc/extender/authority": certificates.ca_file.parent, "/etc/extender/client/tls.crt": client.certificate,
            "/etc/extender/client/tls.key": client.key}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory, certificates, api):
    """Listeners of a pod behind the Service, whose certificate has its name and its address."""
    pair = certificates.client_with("served", OWN_NAME, "127.0.0.1", common_name="extender")
    with pod_process(SERVICE, tmp_path_factory.mktemp("service"), api.url, tls_files(certificates, pair)) as addresses:
        yield addresses


def test_a_pod_behind_the_service_passes(service, secrets):
    code, printed = run(*argv(SERVICE, service, secrets))
    assert (code, printed.splitlines()[-1]) == (0, "passed")
    assert "127.0.0.1: /readyz answers 200\n" in printed
    assert "answers 200: node worker-1: accepted\n" in printed


def test_a_pod_of_the_control_plane_passes(tmp_path, api):
    with pod_process(CONTROL_PLANE, tmp_path, api.url, {}) as addresses:
        code, printed = run(*argv(CONTROL_PLANE, addresses))
    assert (code, printed.splitlines()[-1]) == (0, "passed")
    assert "answers 200: node worker-1: accepted\n" in printed


def test_a_pod_with_other_profiles_only_passes(tmp_path, api):
    """As of a kube-scheduler whose file has no default-scheduler: a pod of that one would be passed through."""
    file = {**yaml.safe_load(SCHEDULER_FILE.read_text(encoding="utf-8")), "profiles": [{"schedulerName": "packing"}]}
    with pod_process(CONTROL_PLANE, tmp_path, api.url, {}, yaml.safe_dump(file)) as addresses:
        code, printed = run(*argv(CONTROL_PLANE, addresses))
    assert (code, printed.splitlines()[-1]) == (0, "passed")
    assert "answers 200: node worker-1: accepted\n" in printed


@pytest.mark.parametrize(
    ("name", "mode", "passed_through"),
    [(SECOND, "Enforce", ["of-another"]), ("helm examples/second-scheduler.yaml", "Observe", [])],
    ids=["Enforce", "Observe"],
)
def test_a_second_scheduler_passes_once_a_call_is_decided(tmp_path, api, name, mode, passed_through):
    """A pod of another scheduler does not count in mode Enforce."""
    assert CHARTED[name]["config"]["mode"] == mode
    with pod_process(name, tmp_path, api.url, {}) as addresses:
        script = subprocess.Popen(argv(name, addresses), stdout=subprocess.PIPE, text=True)
        assert script.stdout is not None
        try:
            lines = [script.stdout.readline()]
            while not lines[-1].startswith("not yet: no pod has decided a /filter"):
                assert script.poll() is None, lines
                lines.append(script.stdout.readline())
            for profile in (*passed_through, hook_pod(name)["spec"]["schedulerName"]):
                incoming = {**INCOMING, "spec": {**INCOMING["spec"], "schedulerName": profile}}
                httpx.post(f"{addresses['scheduler']}/filter", content=filter_body(incoming=incoming))
            rest, _ = script.communicate(timeout=60)
        finally:
            script.kill()
    assert (script.returncode, rest.splitlines()[-1]) == (0, "passed")
    assert "127.0.0.1: /metrics counts 1 decided calls of /filter\n" in rest


@pytest.fixture
def closed():
    """An address that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_pod_that_is_not_ready_is_named_with_the_reason(tmp_path, closed):
    with pod_process(SECOND, tmp_path, f"http://{closed}", {}) as addresses:
        code, printed = run(*argv(SECOND, addresses), "--timeout=0")
    assert code == 1
    assert "FAILED: 127.0.0.1 is not ready, /readyz answers 503:\n" in printed
    assert "readyz check failed" in printed


@pytest.mark.parametrize(
    ("name", "mode", "reason"),
    [
        (
            "helm control-plane, everything",
            "Enforce",
            'answers 503: {"Error":"1 of 1 nodes are not in the cluster cache"}',
        ),
        (CONTROL_PLANE, "Observe", "is answered without a decision for node no-such-node and a pod of profile "),
    ],
    ids=["Enforce", "Observe"],
)
def test_a_call_that_is_not_decided_is_an_error(tmp_path, api, name, mode, reason):
    """In mode Observe the nodes come back all the same."""
    assert CHARTED[name]["config"]["mode"] == mode
    with pod_process(name, tmp_path, api.url, {}) as addresses:
        assert run(*argv(name, addresses))[0] == 0
        code, printed = run(*argv(name, addresses), "--node=no-such-node", "--timeout=0")
    assert code == 1
    assert "FAILED: /filter at 127.0.0.1:" in printed
    assert reason in printed


@pytest.mark.parametrize(
    ("common_name", "reason"),
    [
        ("kube-scheduler", "ends the connection; is the client certificate of the authority in ca.crt? ("),
        ("someone-else", "answers 403, tls.allowedNames has no name of the client certificate: "),
    ],
    ids=["of another authority", "of another name"],
)
def test_a_client_certificate_that_is_refused_is_named(service, secrets, certificates, tmp_path, common_name, reason):
    authority = certificates if common_name == "someone-else" else Certificates(tmp_path)
    client = authority.client(common_name)
    shown = {"/etc/extender/client/tls.crt": client.certificate, "/etc/extender/client/tls.key": client.key}
    code, printed = run(*argv(SERVICE, service, {**secrets, **shown}), "--timeout=0")
    assert code == 1
    assert "/readyz answers 200\n" in printed
    assert reason in printed.splitlines()[-1]


def test_a_certificate_of_the_extender_for_another_name_or_of_another_authority_is_named(service, secrets, tmp_path):
    words = argv(SERVICE, service, secrets)
    code, printed = run(*words, "--server-name=other.kube-system.svc", "--timeout=0")
    assert code == 1
    assert "shows a certificate that is not accepted: Hostname mismatch" in printed
    code, printed = run(*words, f"--ca={Certificates(tmp_path).ca_file}", "--timeout=0")
    assert code == 1
    assert "shows a certificate that is not accepted: " in printed


def test_an_address_where_nothing_listens_or_something_else_does_is_named(service, secrets, closed):
    words = [*argv(SERVICE, service, secrets), "--timeout=0"]
    for option in (f"--admin=https://{closed}", f"--filter=https://{closed}/filter"):
        code, printed = run(*words, option)
        assert code == 1
        assert f"FAILED: {closed} (127.0.0.1) cannot be reached: ConnectionRefusedError" in printed
    code, printed = run(*words, f"--filter={service['admin']}/filter")
    assert code == 1
    assert "answers 404" in printed


def test_a_pod_that_is_missing_is_counted(service, secrets):
    code, printed = run(*argv(SERVICE, service, secrets), "--timeout=0", "--pods=2")
    assert (code, printed) == (1, "FAILED: only 1 of 2 pods have an address: 127.0.0.1\n")


def test_a_name_without_an_address_is_named(service, secrets):
    code, printed = run(*argv(SERVICE, service, secrets), "--timeout=0", "--admin=https://no such host:1")
    assert code == 1
    assert "FAILED: no such host has no address: " in printed
