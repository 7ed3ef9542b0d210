"""KubeSchedulerConfigurations that kube-scheduler v1.36 takes, and that fit the extender's own defaults."""

import re
from pathlib import Path

import pytest
import yaml

from extender.config import Configuration
from extender.config.serving import ServerSection
from extender.server.scheduler.routes import DRYRUN_PATH, PATHS
from extender.utilities.hosts import is_loopback
from tests.e2e.deploy.manifests import DEPLOY, ROOT, is_second_scheduler, of_kind, rendered, those, workload

EXTENDER = {
    "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
}  # fmt: skip
"""Keys of Extender in k8s.io/kube-scheduler/config/v1 (types.go, v1.36); decoding is strict, so others are refused."""

TLS = {"insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"}
"""Fields of ExtenderTLSConfig there."""

MANAGED = {"name", "ignoredByScheduler"}
"""Fields of ExtenderManagedResource there."""

TOP = {
    "apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "enableProfiling",
    "enableContentionProfiling", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds",
    "profiles", "extenders", "delayCacheUntilActive",
}  # fmt: skip
"""Fields of KubeSchedulerConfiguration there."""

ELECTION = {
    "leaderElect",
    "leaseDuration",
    "renewDeadline",
    "retryPeriod",
    "resourceLock",
    "resourceName",
    "resourceNamespace",
}
"""Fields of LeaderElectionConfiguration in k8s.io/component-base/config/v1alpha1."""

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])

FILES = sorted(path for path in (DEPLOY / "scheduler").glob("*.yaml") if path.name != "kubeadm.yaml")


def held(name, file):
    """A file of one of the ConfigMaps, as a value."""
    (data,) = [one["data"] for one in of_kind(rendered(name), "ConfigMap") if file in one["data"]]
    return yaml.safe_load(data[file])


def read(source):
    if isinstance(source, Path):
        return yaml.safe_load(source.read_text(encoding="utf-8"))
    return held(source, "kube-scheduler.yaml")


SOURCES = [pytest.param(path, id=path.name) for path in FILES] + those(is_second_scheduler)
each = pytest.mark.parametrize("source", SOURCES)


def one_extender(source):
    (extender,) = read(source)["extenders"]
    return extender


@each
def test_all_keys_are_those_of_kube_scheduler(source):
    file, extender = read(source), one_extender(source)
    assert (file["apiVersion"], file["kind"]) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
    assert file.keys() <= TOP
    assert file["leaderElection"].keys() <= ELECTION
    assert file["leaderElection"]["leaderElect"] is True
    assert extender.keys() <= EXTENDER
    assert extender.get("tlsConfig", {}).keys() <= TLS
    assert all(one.keys() <= MANAGED for one in extender.get("managedResources", ()))


@each
def test_verbs_are_paths_of_the_service(source):
    extender = one_extender(source)
    verbs = {key: verb for key, verb in extender.items() if key.endswith("Verb")}
    assert verbs == {f"{verb}Verb": verb for verb in verbs.values()}
    assert {f"/{verb}" for verb in verbs.values()} <= {*PATHS, DRYRUN_PATH}
    assert "preempt" in verbs.values()


@each
def test_names_of_nodes_are_sent_and_both_sides_wait_for_the_same_time(source):
    extender = one_extender(source)
    assert extender["nodeCacheCapable"] is True
    told = {} if isinstance(source, Path) else held(source, "extender.yaml")
    timeout = ServerSection.model_validate(told.get("server", {})).http_timeout
    assert extender["httpTimeout"] == f"{timeout:.0f}s"


@each
def test_a_score_has_a_weight_and_only_then(source):
    extender = one_extender(source)
    assert (extender.get("weight", 0) > 0) == ("prioritizeVerb" in extender)


@each
def test_the_address_is_one_that_the_extender_has(source):
    """Plain HTTP to loopback only; over TLS the certificate is verified, and one is shown."""
    extender, server = one_extender(source), Configuration().server
    scheme, host, port = extender["urlPrefix"].replace("//", "").split(":")
    assert int(port) == server.port
    if scheme == "http":
        assert is_loopback(host)
        assert not extender.keys() & {"enableHTTPS", "tlsConfig"}
    else:
        assert extender["enableHTTPS"] is True
        assert {"caFile", "certFile", "keyFile", "serverName"} == extender["tlsConfig"].keys()
        assert extender["tlsConfig"]["serverName"] in certificate_names()


def certificate_names():
    made = {one["metadata"]["name"]: one["spec"] for one in of_kind(rendered("service, everything"), "Certificate")}
    return made["extender-tls"]["dnsNames"]


@pytest.mark.parametrize("source", [pytest.param(path, id=path.name) for path in FILES])
def test_the_schedulers_own_pods_never_wait_for_an_extender_that_they_have_to_start(source):
    """Not ignorable only where pods that ask for nothing special cause no call."""
    extender = one_extender(source)
    assert extender["ignorable"] or extender["managedResources"]


@each
def test_preemption_keeps_the_arguments_of_kube_scheduler(source):
    """Candidates on every node cost kube-scheduler several seconds a preemption: docs/sizing.md."""
    given = [one["name"] for profile in read(source).get("profiles", ()) for one in profile.get("pluginConfig", ())]
    assert "DefaultPreemption" not in given


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_a_configuration_in_the_documentation_keeps_the_arguments_of_kube_scheduler(page):
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert not any("minCandidateNodes" in block for block in blocks)


@pytest.mark.parametrize("name", those(is_second_scheduler))
def test_the_second_scheduler_is_asked_for_by_name_and_not_by_its_own_pods(name):
    served = [profile["schedulerName"] for profile in held(name, "kube-scheduler.yaml")["profiles"]]
    own = workload(rendered(name))["spec"]["template"]["spec"]["schedulerName"]
    assert own == "default-scheduler"
    assert own not in served


def test_kubeadm_gives_kube_scheduler_the_file_where_it_is_mounted():
    """Keys of kubeadm.k8s.io/v1beta4 (ControlPlaneComponent, HostPathMount)."""
    scheduler = yaml.safe_load((DEPLOY / "scheduler" / "kubeadm.yaml").read_text(encoding="utf-8"))["scheduler"]
    assert scheduler.keys() == {"extraArgs", "extraVolumes"}
    (argument,), (volume,) = scheduler["extraArgs"], scheduler["extraVolumes"]
    assert argument == {"name": "config", "value": f"{volume['mountPath']}/config.yaml"}
    assert volume.keys() == {"name", "hostPath", "mountPath", "readOnly", "pathType"}
    assert volume["hostPath"] == volume["mountPath"]
