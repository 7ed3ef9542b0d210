"""docs/install.md, followed as far as that goes without a cluster: every command, file and name in it exists.

Rule: a command that is not known here is an error, so that none is only read.
"""

import json
import re
import shlex
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from extender import __version__, cli
from extender.cli.commands.openapi import ADMIN_DOCUMENT
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.config.load import load_config
from extender.config.serving import TLSSection
from extender.server.app import create_app
from extender.server.http.tls import TLSFiles
from tests.e2e.deploy.manifests import (
    CHART,
    DEPLOY,
    HELM,
    KUBECTL,
    KUBERNETES,
    NO_HELM,
    NO_KUBECTL,
    ROOT,
    containers,
    kustomize,
    of_kind,
    pod_of,
    rendered,
)
from tests.e2e.deploy.schemas import VERSIONS, mistakes
from tests.e2e.release.addresses import addresses

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")

_, RELEASED_IMAGE, RELEASED_CHARTS = addresses(ROOT)

BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
INLINE = re.findall(r"`((?:kubectl|helm|extender|curl) [^`]+)`", PAGE)
YAML = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands_of(block):
    """The lines after `$`, each with the ones that continue it."""
    return re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", block, re.MULTILINE)


LINES = [line.replace("\\\n", " ") for block in BLOCKS for line in commands_of(block)]
PARTS = [part for line in [*LINES, *INLINE] for part in re.split(r" \| | && | > \S+| &$", line) if part.strip()]
WORDS = [shlex.split(re.sub(r"^EXTENDER_\w+=\S+ ", "", part), comments=True) for part in PARTS]
"""Every command, alone."""


def commands(program, *first):
    return [words for words in WORDS if words[: 1 + len(first)] == [program, *first]]


def test_every_command_is_one_that_is_looked_at_here():
    known = {"docker", "extender", "kubectl", "helm", "openssl", "curl", "kubeadm"}
    assert {words[0] for words in WORDS} - known == {"mkdir", "cp", "chown", "chmod", "base64", "grep", "less"}


# --- extender -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", commands("extender"), ids=" ".join)
def test_a_command_of_the_extender_is_understood(words):
    command: Any = typer.main.get_group(cli.app)
    rest = words[1:]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context("extender", rest)


def test_settings_in_the_page_are_settings():
    tables = dict(re.findall(r"`(\w+): (\{[^`]*\}|\w+)`", PAGE))
    assert {"killSwitch", "mode"} <= tables.keys()
    for key in ("killSwitch", "mode"):
        Configuration.model_validate({key: yaml.safe_load(tables[key])})
    named = set(re.findall(r"`((?:server|preemption|bind|killSwitch)\.\w+)`", PAGE)) | {"bind.enabled"}
    dumped = Configuration().model_dump(by_alias=True)
    assert [path for path in named if path.split(".")[1] not in dumped[path.split(".")[0]]] == []


def test_variables_in_the_page_are_settings():
    """As said of Prometheus on control-plane nodes."""
    values = {"EXTENDER_ADMIN__HOST": "0.0.0.0", "EXTENDER_ADMIN__ALLOW_PLAIN_HTTP": "true"}
    set_before = dict(re.findall(r"(EXTENDER_\w+)=(\S+)", PAGE))
    assert set(re.findall(r"EXTENDER_\w+", PAGE)) == values.keys() | set_before.keys() | {"EXTENDER_SCHEDULER__VERSION"}
    assert load_config(None, values | set_before).admin.allow_plain_http


# --- kubectl and kustomize ------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path):
    """The folder that the page tells to make, beside deploy/."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "own").mkdir()
    first, more, *_ = YAML
    (tmp_path / "own" / "kustomization.yaml").write_text(first + more, encoding="utf-8")
    shutil.copy(DEPLOY / "kustomize" / "components" / "strict" / "extender.yaml", tmp_path / "own")
    return tmp_path


def test_the_folder_of_ones_own_renders_and_is_what_was_asked_for(own):
    objects = kustomize(own / "own")
    images = {one["name"]: one["image"] for one in containers(pod_of(objects))}
    assert images["extender"] == f"{RELEASED_IMAGE}:{__version__}"
    assert images["kube-scheduler"].startswith("registry.k8s.io/kube-scheduler:v1.36")
    (held,) = [one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == "extender"]
    assert "preset: strict" in held["data"]["extender.yaml"]
    assert {"NetworkPolicy", "PodMonitor", "PrometheusRule"} <= {one["kind"] for one in objects}


def test_the_control_planes_addresses_come_into_the_network_policy(own):
    (patches,) = [text for text in YAML if "ipBlock" in text]
    (own / "own" / "kustomization.yaml").write_text(
        "resources: [../deploy/kustomize/overlays/service]\n"
        "components: [../deploy/kustomize/components/network-policy-scheduler]\n" + patches,
        encoding="utf-8",
    )
    policies = {one["metadata"]["name"]: one for one in of_kind(kustomize(own / "own"), "NetworkPolicy")}
    (rule,) = policies["extender-scheduler"]["spec"]["ingress"]
    assert rule["from"] == [{"ipBlock": {"cidr": "10.0.0.0/28"}}]


def test_the_flag_of_the_second_scheduler_is_replaced_and_no_other_word(own):
    (patches,) = [text for text in YAML if "/command/" in text]
    overlay = "resources: [../deploy/kustomize/overlays/second-scheduler]\n"
    (own / "own" / "kustomization.yaml").write_text(overlay + patches, encoding="utf-8")
    commands = {one["name"]: one.get("command") for one in containers(pod_of(kustomize(own / "own")))}
    flag = "--pod-max-in-unschedulable-pods-duration=5m"
    assert commands["kube-scheduler"] == ["kube-scheduler", "--config=/etc/kubernetes/kube-scheduler.yaml", flag]


def folders():
    options = [words[words.index("-k") + 1] for words in commands("kubectl") if "-k" in words]
    return sorted({*options, *(words[2] for words in commands("kubectl", "kustomize") if len(words) > 2)})


@pytest.mark.parametrize("folder", folders())
def test_a_folder_that_is_applied_renders(folder, own):
    objects = kustomize(own / folder)
    assert objects
    for one in objects:
        assert one["apiVersion"].startswith("monitoring") or mistakes(one, VERSIONS[-1]) == []


FLAG = re.compile(r"--[a-z][a-z-]+|-[a-z]")


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
@pytest.mark.parametrize("words", commands("kubectl"), ids=" ".join)
def test_kubectl_has_the_command_and_its_options(words):
    words = [word for word in words if word not in ("-n", "kube-system")]
    subcommands = {"create": 3, "rollout": 2}.get(words[1], 1)
    helped = subprocess.run(
        [str(KUBECTL), *words[1 : 1 + subcommands], "--help"], capture_output=True, text=True, check=True
    ).stdout
    options = {match for word in words if word.startswith("-") for match in FLAG.findall(word)[:1]}
    assert [option for option in options if not re.search(rf"^ +(-\w, )?{option}[=,]", helped, re.MULTILINE)] == []


def test_what_is_asked_for_by_name_is_in_the_manifests():
    names = {
        f"{one['kind'].lower()}/{one['metadata']['name']}"
        for name in ("second-scheduler", "service, everything")
        for one in rendered(name)
    }
    # cert-manager makes the Secret of that certificate; kubeadm the ConfigMap.
    names |= {"secret/extender-scheduler-client", "configmap/kubeadm-config"}
    asked = set()
    for words in commands("kubectl"):
        asked |= {word for word in words if re.fullmatch(r"deployment/\S+", word)}
        for kind in ("secret", "service", "configmap"):
            if kind in words and "generic" not in words:
                asked.add(f"{kind}/{words[words.index(kind) + 1]}")
    assert len(asked) >= 4
    assert asked <= names
    for words in commands("kubectl"):
        if "-l" in words:
            key, _, value = words[words.index("-l") + 1].partition("=")
            assert pod_of(rendered("service"))["metadata"]["labels"][key] == value
        if "-c" in words:
            assert words[words.index("-c") + 1] in [one["name"] for one in containers(pod_of(rendered("service")))]


def test_json_paths_lead_somewhere():
    paths = {word.removeprefix("jsonpath=") for words in commands("kubectl") for word in words if "jsonpath=" in word}
    (service,) = of_kind(rendered("service"), "Service")
    assert mistakes({**service, "spec": {**service["spec"], "clusterIP": "10.96.0.88"}}, VERSIONS[-1]) == []
    # Keys of a Secret by cert-manager; the key of kubeadm's ConfigMap (ClusterConfigurationConfigMapKey).
    keys = {r"{.data.tls\.crt}", r"{.data.tls\.key}", r"{.data.ca\.crt}"}
    assert paths == keys | {"{.data.ClusterConfiguration}", "{.spec.clusterIP}"}


@pytest.mark.parametrize("words", commands("kubeadm"), ids=" ".join)
def test_kubeadm_has_the_command(words):
    """By cmd/kubeadm of Kubernetes v1.36: kubeconfig.go, phases/init/controlplane.go and uploadconfig.go."""
    known = {
        ("kubeconfig", "user", "--client-name", "--config"),
        ("init", "phase", "control-plane", "scheduler", "--config"),
        ("init", "phase", "upload-config", "kubeadm", "--config"),
    }
    assert tuple(word for word in words[1:] if word not in ("extender", "cluster.yaml")) in known


# --- helm -----------------------------------------------------------------------------------------------------------


OF_A_RELEASE = f"oci://{RELEASED_CHARTS}/kube-scheduler-extender", "--version", __version__
OWN_IMAGE = "registry.example.net/kube-scheduler-extender"
"""Names of the reader; none of the project, which is replaced before the first release."""


@pytest.mark.skipif(not HELM, reason=NO_HELM)
@pytest.mark.parametrize("words", commands("helm", "install"), ids=" ".join)
def test_helm_installs_as_said(words):
    """What it would install: helm 3 asks a cluster even for `install --dry-run=client`."""
    given, image = words[2:], OWN_IMAGE
    if OF_A_RELEASE[0] in given:
        assert tuple(given[1:4]) == OF_A_RELEASE
        given[1:4], image = [str(CHART)], RELEASED_IMAGE
    printed = subprocess.run(
        [str(HELM), "template", *given, KUBERNETES], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert f"image: {image}:{__version__}" in printed.stdout
    helped = subprocess.run([str(HELM), "install", "--help"], capture_output=True, text=True, check=True).stdout
    assert {word for word in words if word.startswith("-")} <= set(re.findall(r"--[a-z-]+", helped))


@pytest.mark.skipif(not HELM, reason=NO_HELM)
@pytest.mark.parametrize("words", [words for words in commands("helm") if words[1] != "install"], ids=" ".join)
def test_helm_has_the_command(words):
    subprocess.run([str(HELM), words[1], "--help"], capture_output=True, check=True)
    assert words[2:] == ["extender", "--namespace", "kube-system"]  # the release


def test_the_versions_of_kubernetes_are_those_of_the_schemas():
    text = " ".join(PAGE.split())
    assert f"Kubernetes {VERSIONS[0]} or newer" in text
    assert f"schemas of Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}" in text


def test_values_that_are_named_are_values_of_the_chart():
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert {"listenAddress", "replicas", "variant"} <= values.keys()
    assert "clientSecretName" in values["tests"]
    assert "mode" in values["config"]
    assert {"listenAddress", "replicas", "config.mode"} <= set(re.findall(r"`([\w.]+)", PAGE))


# --- certificates ---------------------------------------------------------------------------------------------------


def openssl_block():
    (block,) = [block for block in BLOCKS if "openssl" in block]
    return [line.replace("\\\n", " ") for line in commands_of(block) if line.startswith("openssl")]


def openssl_is_one_of_the_page():
    """OpenSSL 3.0 or newer; LibreSSL has the same name."""
    if not shutil.which("openssl"):
        return False
    said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"OpenSSL (\d+)\.", said)
    return version is not None and int(version[1]) >= 3


@pytest.mark.skipif(not openssl_is_one_of_the_page(), reason="no openssl 3.0 or newer, which the page asks for")
def test_certificates_by_openssl_are_good_on_both_sides(tmp_path):
    """A handshake without a network, with the listener's own context, as overlays/service sets it up."""
    for line in openssl_block():
        subprocess.run(shlex.split(line), cwd=tmp_path, capture_output=True, check=True)
    paths = {"certificate": "tls.crt", "key": "tls.key", "clientCA": "ca.crt"}
    settings = {key: str(tmp_path / name) for key, name in paths.items()} | {"allowedNames": ["kube-scheduler"]}
    files = TLSFiles("server", TLSSection.model_validate(settings))
    scheduler = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    scheduler.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = scheduler.wrap_bio(to_client, to_server, server_hostname="extender.kube-system.svc")
    server = files.context.wrap_bio(to_server, to_client, server_side=True)
    through = [False, False]
    for _ in range(10):
        for place, side in enumerate((client, server)):
            try:
                side.do_handshake()
                through[place] = True
            except ssl.SSLWantReadError:
                continue
    assert through == [True, True]
    assert files.rejection_message(server) is None


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_the_secret_has_what_the_pods_mount(tmp_path):
    (words,) = commands("kubectl", "-n", "kube-system", "create", "secret")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text("-", encoding="utf-8")
    printed = subprocess.run(
        [str(KUBECTL), *words[1:], "--dry-run=client", "-o", "yaml"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    secret = yaml.safe_load(printed.stdout)
    (volume,) = [one for one in pod_of(rendered("service"))["spec"]["volumes"] if one["name"] == "tls"]
    # And no more of the metadata: what else is printed, such as `creationTimestamp: null`, is up to kubectl's version.
    name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
    assert (name, namespace) == (volume["secret"]["secretName"], "kube-system")
    assert secret["data"].keys() == {"tls.crt", "tls.key", "ca.crt"}


# --- files, links, names --------------------------------------------------------------------------------------------


def test_files_that_are_copied_exist():
    sources = [words[1] for words in commands("cp")]
    assert len(sources) == 2
    assert [source for source in sources if not (ROOT / source).is_file()] == []


def test_paths_that_are_named_exist():
    named = set(re.findall(r"(?:deploy/|overlays/|components/)[\w./-]*\w", PAGE))
    places = {path: [ROOT / path, DEPLOY / "kustomize" / path] for path in named}
    assert len(named) > 15
    assert [path for path, tried in places.items() if not any(one.exists() for one in tried)] == []
    files = re.findall(r"^\| `([\w-]+\.yaml)`", PAGE, re.MULTILINE)
    made = {path.name for path in (DEPLOY / "scheduler").iterdir() if path.is_file()}
    assert set(files) | {"kubeadm.yaml"} == made


def test_components_are_all_in_the_table():
    made = {path.name for path in (DEPLOY / "kustomize" / "components").iterdir()}
    internal = {"host-network", "replicas"}  # parts of overlays
    assert {one for one in made - internal if f"`components/{one}`" not in PAGE} == set()


def test_paths_that_are_asked_with_curl_exist():
    app = create_app(ClusterCache(), Configuration())
    asked = {re.sub(r"^https?://[^/]+|\?.*$", "", words[-1]) for words in commands("curl", "-s")}
    assert asked == {"/readyz", "/metrics"}
    assert asked <= json.loads(ADMIN_DOCUMENT.read_bytes())["paths"].keys()
    (pattern,) = [words[2] for words in commands("grep", "-E")]
    metrics = app.server_context.metrics.exposition().decode()
    assert [one for one in pattern.split("|") if f"extender_{one}" not in metrics] == []


def test_the_schedulers_name_is_the_second_schedulers():
    names = {
        part["spec"]["schedulerName"] for part in map(yaml.safe_load, YAML) if "schedulerName" in part.get("spec", {})
    }
    (held,) = [
        one["data"]["kube-scheduler.yaml"]
        for one in of_kind(rendered("second-scheduler"), "ConfigMap")
        if "kube-scheduler.yaml" in one["data"]
    ]
    assert names == {profile["schedulerName"] for profile in yaml.safe_load(held)["profiles"]}


def test_the_dockerfile_and_the_tag_are_there():
    (build,), (push,) = commands("docker", "build"), commands("docker", "push")
    assert (ROOT / "Dockerfile").is_file()
    assert build[build.index("-t") + 1] == push[-1] == f"{OWN_IMAGE}:{__version__}"
    assert f"`{RELEASED_IMAGE}:{__version__}`" in PAGE
    assert Path(build[-1]) == Path()
