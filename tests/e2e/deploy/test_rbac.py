"""The manifests allow what the code asks for, and nothing else."""

import re
from itertools import product

import pytest
import yaml

from extender.cluster.watch.decode import KEPT_ANNOTATIONS
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from tests.e2e.deploy.manifests import (
    ALL,
    CHARTED,
    DEPLOY,
    KUSTOMIZED,
    ROOT,
    STATIC,
    extender_of,
    is_second_scheduler,
    of_kind,
    pod_of,
    rendered,
    those,
)

everywhere = pytest.mark.parametrize("name", ALL)

SCHEDULER_ROLES = {"system:kube-scheduler", "system:volume-scheduler"}
"""Roles of Kubernetes itself that make a kube-scheduler."""

COMPONENTS = DEPLOY / "kustomize" / "components"


def allowed(*roles):
    """(API group, resource, verb) of all that the roles allow."""
    found: list[tuple[str, ...]] = []
    for role in roles:
        for rule in role["rules"]:
            assert rule.keys() == {"apiGroups", "resources", "verbs"}  # nothing that widens or narrows these
            found += product(rule["apiGroups"], rule["resources"], rule["verbs"])
    assert len(found) == len(set(found))
    return set(found)


def group_of(path):
    """The API group of a list's path: `/api/v1/pods` or `/apis/policy/v1/poddisruptionbudgets`."""
    match path.split("/"):
        case ["", "api", "v1", _]:
            return ""
        case ["", "apis", group, _, _]:
            return group
    raise AssertionError(path)


def to_be_followed(resources):
    return {(group_of(one.path), one.plural, verb) for one in resources for verb in ("list", "watch")}


READING = to_be_followed(RESOURCES)
READING_GROUPS = to_be_followed(POD_GROUP_RESOURCES)
BINDING = {("", "pods/binding", "create"), ("", "pods", "get")}
EVENTS = {("events.k8s.io", "events", "create"), ("events.k8s.io", "events", "patch")}


def wanted(name):
    """What the extender may do there: what it reads, and more only where that was asked for."""
    if name in CHARTED:
        config = CHARTED[name].get("config", {})
        groups = "PodGroups" in config.get("preemption", {}).get("ranking", ())
        binds, writes_events = (config.get(one, {}).get("enabled", False) for one in ("bind", "events"))
    else:
        components = KUSTOMIZED.get(name, ())
        groups, binds, writes_events = (one in components for one in ("pod-groups", "bind", "events"))
    more = (READING_GROUPS if groups else set()) | (BINDING if binds else set()) | (EVENTS if writes_events else set())
    return READING | more


# --- who may do what ------------------------------------------------------------------------------------------------


@everywhere
def test_the_extender_may_do_what_it_is_wanted_for_and_nothing_else(name):
    assert allowed(*of_kind(rendered(name), "ClusterRole")) == wanted(name)


@everywhere
def test_nothing_may_be_changed_or_deleted_and_no_secret_read(name):
    everything = allowed(*of_kind(rendered(name), "ClusterRole"))
    assert {verb for _, resource, verb in everything - BINDING - EVENTS} <= {"get", "list", "watch"}
    assert not {resource for _, resource, _ in everything} & {"secrets", "configmaps", "pods/eviction", "pods/exec"}
    assert not any("*" in part for one in everything for part in one)


@everywhere
def test_a_role_is_given_to_the_extender_and_to_nobody_else(name):
    """A second scheduler has an account of its own, and roles that Kubernetes made for it."""
    roles = {one["metadata"]["name"] for one in of_kind(rendered(name), "ClusterRole")}
    bindings = of_kind(rendered(name), "ClusterRoleBinding")
    assert {one["roleRef"]["name"] for one in bindings} - SCHEDULER_ROLES == roles
    for one in bindings:
        assert (one["roleRef"]["kind"], one["roleRef"]["apiGroup"]) == ("ClusterRole", "rbac.authorization.k8s.io")
        (subject,) = one["subjects"]
        is_scheduler = one["roleRef"]["name"] in SCHEDULER_ROLES
        if name == STATIC:
            assert subject == {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "extender"}
        else:
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "kube-system")
            assert subject["name"].endswith("-scheduler") == is_scheduler


@everywhere
def test_accounts_that_are_named_exist(name):
    accounts = {one["metadata"]["name"] for one in of_kind(rendered(name), "ServiceAccount")}
    subjects = {
        subject["name"]
        for one in of_kind(rendered(name), "ClusterRoleBinding", "RoleBinding")
        for subject in one["subjects"]
        if subject["kind"] == "ServiceAccount"
    }
    assert subjects == accounts
    assert pod_of(rendered(name))["spec"].get("serviceAccountName") in accounts | {None}


@pytest.mark.parametrize("name", [STATIC, *KUSTOMIZED])
def test_a_binding_of_one_overlay_never_replaces_that_of_another(name):
    """A name in two of them is one role for the same subjects."""
    bound = {
        (one["kind"], one["metadata"]["name"]): (one["roleRef"], one["subjects"])
        for other in (STATIC, *KUSTOMIZED)
        for one in of_kind(rendered(other), "ClusterRoleBinding", "RoleBinding")
    }
    for one in of_kind(rendered(name), "ClusterRoleBinding", "RoleBinding"):
        assert bound[one["kind"], one["metadata"]["name"]] == (one["roleRef"], one["subjects"])


@pytest.mark.parametrize("name", KUSTOMIZED)
def test_a_service_and_a_budget_leave_out_the_static_pods(name):
    """Calls to them would be refused, and the disruption controller rejects pods that a Node owns."""
    labels = pod_of(rendered(STATIC))["metadata"]["labels"].items()
    for one in of_kind(rendered(name), "Service", "PodDisruptionBudget"):
        selector = one["spec"]["selector"]
        assert not selector.get("matchLabels", selector).items() <= labels


@pytest.mark.parametrize("name", KUSTOMIZED)
def test_the_static_pods_permissions_are_nobody_elses(name):
    """So that deleting one overlay leaves the other whole."""

    def keys(overlay):
        return {(one["kind"], one["metadata"]["name"]) for one in rendered(overlay)}

    assert not keys(STATIC) & keys(name)


# --- a second scheduler ---------------------------------------------------------------------------------------------

second = pytest.mark.parametrize("name", those(is_second_scheduler))


@second
def test_the_extender_beside_a_scheduler_has_its_own_token_and_not_the_schedulers(name):
    """Else it could delete pods. A container with something mounted there is not given the pod's token."""
    pod = pod_of(rendered(name))
    (mount,) = [
        one
        for one in extender_of(pod)["volumeMounts"]
        if one["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    ]
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]]
    (secret,) = of_kind(rendered(name), "Secret")
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert {one["key"] for one in volume["secret"]["items"]} == {"token", "ca.crt", "namespace"}
    account = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    (binding,) = [
        one for one in of_kind(rendered(name), "ClusterRoleBinding") if one["roleRef"]["name"] not in SCHEDULER_ROLES
    ][:1]
    assert binding["subjects"][0]["name"] == account != pod["spec"]["serviceAccountName"]


@second
def test_the_second_scheduler_may_hold_its_own_lease_and_no_other(name):
    (role,) = of_kind(rendered(name), "Role")
    maps = [one["data"] for one in of_kind(rendered(name), "ConfigMap")]
    (file,) = [data["kube-scheduler.yaml"] for data in maps if "kube-scheduler.yaml" in data]
    election = yaml.safe_load(file)["leaderElection"]
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [election["resourceName"]],
            "verbs": ["get", "update"],
        }
    ]
    assert role["metadata"]["namespace"] == election["resourceNamespace"]
    assert election["resourceName"] != "kube-scheduler"


# --- the files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "when"),
    [
        ("bind", "bind.enabled: true"),
        ("events", "events.enabled: true"),
        ("pod-groups", "Needed only if decisions read PodGroups"),
    ],
)
def test_a_component_that_allows_more_says_when_it_is_wanted(component, when):
    assert when in (COMPONENTS / component / "rbac.yaml").read_text(encoding="utf-8").partition("apiVersion")[0]


# --- the documentation ----------------------------------------------------------------------------------------------


def test_the_documentation_has_every_kind_that_is_followed_with_its_path():
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    missing = [
        one.kind
        for one in (*RESOURCES, *POD_GROUP_RESOURCES)
        if not any(f"`{one.path}`" in row and ("core" if one.core else "optional") in row for row in rows)
    ]
    assert missing == []


@pytest.mark.parametrize("kind", KEPT_ANNOTATIONS)
def test_the_documentation_has_every_annotation_that_is_kept(kind):
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {kind} |")]
    parts = re.findall(r"`([^`]+)`", row)
    prefixes = [part for part in parts if part.endswith("/")]
    named = {part for part in parts if "/" in part} | {prefix + part for prefix in prefixes for part in parts}
    assert KEPT_ANNOTATIONS[kind] <= named
