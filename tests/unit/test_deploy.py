"""The manifests allow what the code asks for, and nothing else."""

from itertools import product
from pathlib import Path

import pytest
import yaml

from extender.cluster.protocol import RESOURCES

DEPLOY = Path(__file__).parents[2] / "deploy"

RBAC, BIND = "rbac.yaml", "rbac-bind.yaml"


def documents(file):
    return [one for one in yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")) if one]


def of_kind(kind, *files):
    return [one for file in files or (RBAC, BIND) for one in documents(file) if one["kind"] == kind]


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
        case ["", "apis", group, "v1", _]:
            return group
    raise AssertionError(path)


# --- who may do what ------------------------------------------------------------------------------------------------


def test_reading_is_list_and_watch_of_every_kind_that_is_followed():
    followed = {(group_of(one.path), one.plural) for one in RESOURCES}
    assert allowed(RBAC) == {(*resource, verb) for resource in followed for verb in ("list", "watch")}


def test_binding_is_a_role_of_its_own_that_creates_bindings_and_gets_pods():
    assert allowed(BIND) == {("", "pods/binding", "create"), ("", "pods", "get")}


def test_nothing_may_be_changed_or_deleted_and_no_secret_read():
    everything = allowed(RBAC) | allowed(BIND)
    assert {verb for _, resource, verb in everything if resource != "pods/binding"} == {"get", "list", "watch"}
    assert not {resource for _, resource, _ in everything} & {"secrets", "configmaps", "pods/eviction", "pods/exec"}
    assert not any("*" in part for one in everything for part in one)


# --- to whom it is given --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [RBAC, BIND])
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
    kinds = {file: [one["kind"] for one in documents(file)] for file in (RBAC, BIND)}
    assert kinds == {
        RBAC: ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"],
        BIND: ["ClusterRole", "ClusterRoleBinding"],
    }


def test_the_file_that_allows_binding_says_when_it_is_wanted():
    assert "bind.enabled: true" in (DEPLOY / BIND).read_text(encoding="utf-8").partition("apiVersion")[0]


# --- the documentation ----------------------------------------------------------------------------------------------


def test_the_documentation_has_every_kind_that_is_followed_with_its_path():
    page = (DEPLOY.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    missing = [
        one.kind
        for one in RESOURCES
        if not any(f"`{one.path}`" in row and ("core" if one.core else "optional") in row for row in rows)
    ]
    assert missing == []
