"""The manifests allow what the code asks for, and nothing else."""

import re
from itertools import product
from pathlib import Path

import pytest
import yaml

from extender.cluster.decode import KEPT_ANNOTATIONS
from extender.cluster.protocol import POD_GROUPS, RESOURCES

DEPLOY = Path(__file__).parents[2] / "deploy"

RBAC, BIND, GROUPS = FILES = "rbac.yaml", "rbac-bind.yaml", "rbac-pod-groups.yaml"


def documents(file):
    return [one for one in yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")) if one]


def of_kind(kind, *files):
    return [one for file in files or FILES for one in documents(file) if one["kind"] == kind]


def allowed(file):
    """(API group, resource, verb) of all that the file's one role allows."""
    (role,) = of_kind("ClusterRole", file)
    found: list[tuple[str, ...]] = []
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


# --- who may do what ------------------------------------------------------------------------------------------------


def test_reading_is_list_and_watch_of_every_kind_that_is_followed():
    assert allowed(RBAC) == to_be_followed(RESOURCES)


def test_reading_pod_groups_is_a_role_of_its_own_that_lists_and_watches_both_kinds():
    assert allowed(GROUPS) == to_be_followed(POD_GROUPS)


def to_be_followed(resources):
    return {(group_of(one.path), one.plural, verb) for one in resources for verb in ("list", "watch")}


def test_binding_is_a_role_of_its_own_that_creates_bindings_and_gets_pods():
    assert allowed(BIND) == {("", "pods/binding", "create"), ("", "pods", "get")}


def test_nothing_may_be_changed_or_deleted_and_no_secret_read():
    everything = allowed(RBAC) | allowed(BIND) | allowed(GROUPS)
    assert {verb for _, resource, verb in everything if resource != "pods/binding"} == {"get", "list", "watch"}
    assert not {resource for _, resource, _ in everything} & {"secrets", "configmaps", "pods/eviction", "pods/exec"}
    assert not any("*" in part for one in everything for part in one)


# --- to whom it is given --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_a_role_is_given_to_the_service_account_and_to_nobody_else(file):
    (account,) = of_kind("ServiceAccount")
    (role,) = of_kind("ClusterRole", file)
    (binding,) = of_kind("ClusterRoleBinding", file)
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": role["metadata"]["name"],
    }
    assert account["metadata"] == {"name": "extender", "namespace": "kube-system"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]


def test_there_is_nothing_else_in_the_manifests():
    kinds = {file: [one["kind"] for one in documents(file)] for file in FILES}
    assert kinds == {
        RBAC: ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"],
        BIND: ["ClusterRole", "ClusterRoleBinding"],
        GROUPS: ["ClusterRole", "ClusterRoleBinding"],
    }


def test_no_manifest_is_forgotten():
    assert sorted(one.name for one in DEPLOY.iterdir()) == sorted(FILES)


@pytest.mark.parametrize(
    ("file", "when"), [(BIND, "bind.enabled: true"), (GROUPS, "Only where decisions read PodGroups")]
)
def test_a_file_that_allows_more_says_when_it_is_wanted(file, when):
    assert when in (DEPLOY / file).read_text(encoding="utf-8").partition("apiVersion")[0]


# --- the documentation ----------------------------------------------------------------------------------------------


def test_the_documentation_has_every_kind_that_is_followed_with_its_path():
    page = (DEPLOY.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    missing = [
        one.kind
        for one in (*RESOURCES, *POD_GROUPS)
        if not any(f"`{one.path}`" in row and ("core" if one.core else "optional") in row for row in rows)
    ]
    assert missing == []


@pytest.mark.parametrize("kind", KEPT_ANNOTATIONS)
def test_the_documentation_has_every_annotation_that_is_kept(kind):
    page = (DEPLOY.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {kind} |")]
    parts = re.findall(r"`([^`]+)`", row)
    prefixes = [part for part in parts if part.endswith("/")]
    named = {part for part in parts if "/" in part} | {prefix + part for prefix in prefixes for part in parts}
    assert KEPT_ANNOTATIONS[kind] <= named
