"""`extender simulate` with scenarios: other nodes, workloads, until full, all or nothing, pods that come back."""

import json
import re

import msgspec
import pytest
import yaml

import extender
from extender.cluster.files.manifests import load_cluster
from tests.builders import budget, cluster, incoming, node, pod, thing
from tests.cli.commands.test_simulate import events, facts, failure, lines, run, table

REPLICA_SET = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-1", "uid": "web-1", "controller": True}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
PATIENT = thing("PriorityClass", "patient", value=1000, preemptionPolicy="Never")


def replica(name, **fields):
    metadata = {"ownerReferences": [REPLICA_SET]}
    return pod(name, labels={"app": "web", "pod-template-hash": "1"}, metadata=metadata, status=READY, **fields)


def deployment(replicas=2, **fields):
    template = {"metadata": {"labels": {"app": "api"}}, "spec": pod("api", priorityClassName="patient")["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "api"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": spec} | fields


@pytest.fixture
def world(tmp_path):
    """Two nodes of two cores; the second has one that is free, and one of its pods may not be evicted."""
    nodes = {node("n1", cpu="2"): [replica("web-1-a"), pod("alone")], node("n2", cpu="2"): [pod("kept", status=READY)]}
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(nodes, budgets=[budget("keep", app="kept")], others=[PATIENT])))
    return path


@pytest.fixture
def write(tmp_path):
    """Writes a file of manifests, and returns its path."""

    def written(*objects, name="objects.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump_all(objects))
        return tmp_path / name

    return written


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_drain_says_which_pods_come_back_where_and_which_are_lost(world):
    shown = lines("--cluster", world, "--drain", "n1")
    assert table(shown, ["NODE", "STATE", "EVICTED"]) == [["n1", "drained", "2", "0", "0", "1"]]
    assert table(shown, ["LOST"]) == [["default/alone", "n1"]]
    assert table(shown, ["REPLACEMENT"]) == [["default/web-1-bbbbb", "default/web-1-a", "drained", "n1", "n2"]]
    assert table(shown, ["NODE", "STATE", "CPU"]) == [
        ["n1", "drained", "2 -> 0 of 2", "0 -> 0 of 8Gi", "2 -> 0 of 110"],
        ["n2", "1 -> 2 of 2", "0 -> 0 of 8Gi", "1 -> 2 of 110"],
    ]
    assert shown[0] == (
        "the drain of n1 ends with 2 pods evicted; default/alone does not come back; "
        "the replacement default/web-1-bbbbb fits on n2"
    )


def test_a_pod_that_a_drain_cannot_evict_is_listed_with_its_budgets(world):
    shown = lines("--cluster", world, "--drain", "n2")
    assert shown[0] == "the drain of n2 hangs: budget default/keep allows 0"
    assert not any("MESSAGE" in line and "OBJECT" in line for line in shown), "a table of events without events"
    assert [row[:2] for row in table(shown, ["NODE", "STATE", "CPU"])] == [["n2", "draining"]]
    ((blocked, where, budgets, message),) = table(shown, ["BLOCKED", "NODE"])
    assert (blocked, where, budgets) == ("default/kept", "n2", "default/keep")
    assert message.startswith("The disruption budget keep ")


def test_a_removed_node_loses_its_pods_whatever_their_budgets(world):
    shown = lines("--cluster", world, "--remove-node", "n1", "--remove-node", "n2")
    assert [row[:3] for row in table(shown, ["NODE", "STATE", "EVICTED"])] == [
        ["n1", "removed", "2"],
        ["n2", "removed", "1"],
    ]
    assert table(shown, ["REPLACEMENT"]) == [["default/web-1-bbbbb", "default/web-1-a", "node removed", "n1", "<none>"]]


def test_nobody_replaces_evicted_pods_if_asked_to(world):
    shown = lines("--cluster", world, "--drain", "n1", "--no-replacements")
    assert not any("REPLACEMENT" in line for line in shown)


def test_nodes_are_added_and_cordoned_before_pods_arrive(world, write):
    added, arriving = write(node("m", cpu="1").raw, name="node.yaml"), write(incoming("a"), incoming("b"))
    options = ["--cordon", "n2", "--add-node", added, "--count", "2", "--pod", arriving]
    shown = lines("--cluster", world, *options)
    assert shown[0] == "2 nodes added; 1 node cordoned; both pods fit"
    assert facts(shown, "added") == ["m-1, m-2"]
    assert facts(shown, "cordoned") == ["n2"]
    assert [line.rpartition(" ")[2] for line in shown if "Scheduled" in line] == ["m-1", "m-2"]


# --- pods -------------------------------------------------------------------------------------------------------------


def test_a_deployment_is_scheduled_as_its_replicas(world, write):
    shown = lines("--cluster", world, "--pod", write(deployment(2)))
    assert table(shown, ["WORKLOAD"]) == [["Deployment default/api", "0", "2", "0", "0"]]
    assert shown[0].startswith("1 of 2 pods of Deployment default/api fits; default/api-")
    assert shown[0].endswith(" does not: Insufficient cpu on 2 of 2 nodes")
    assert facts(shown, "pods") == ["1 scheduled, 1 pending, 0 skipped, 0 preempted, 0 PDB violations"]


def test_pods_with_the_same_event_share_a_line(world, write):
    shown = lines("--cluster", world, "--pod", write(deployment(13)))
    failed = [row[3] for row in events(shown) if "FailedScheduling" in row]
    pods = failed + [row[0] for row in table(shown, ["PENDING"])]
    assert [re.sub("api-[a-z0-9]+-", "api-", one) for one in pods] == [
        "pod/api-bbbbc and 11 more",
        "default/api-bbbbc, default/api-bbbbd and 10 more",
    ]


def test_many_pods_of_a_workload_that_are_scheduled_share_a_line(world, write):
    added = write(node("m", cpu="32").raw, name="node.yaml")
    shown = lines("--cluster", world, "--pod", write(deployment(13)), "--add-node", added)
    (scheduled,) = events(shown)
    assert scheduled[3].endswith("-bbbbb and 12 more")
    assert scheduled[4] == "Successfully assigned 13 pods of Deployment default/api to 2 nodes"


def test_workloads_are_read_from_lists_beside_pods(world, write):
    item = {key: value for key, value in deployment(1).items() if key in ("metadata", "spec")}
    objects = {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [item]}
    shown = lines("--cluster", world, "--pod", write(objects, incoming("a", cpu=None)))
    assert shown[0] == "both pods fit"


def test_until_full_says_how_many_fit_and_what_stops_the_next_one(world, write):
    shown = lines("--cluster", world, "--pod", write(incoming("a", cpu="500m")), "--until-full")
    assert shown[0] == "2 more of default/a fit; the next does not: Insufficient cpu on 2 of 2 nodes"
    assert facts(shown, "the next one") == [
        (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n1, "
            "preempting 1 victims"
        )
    ]
    assert table(shown, ["FITS ON"]) == [["n2", "2"]]
    assert facts(shown, "pods") == [], "the answer, and then counts of 0"


def test_a_gang_is_scheduled_as_a_whole_or_not_at_all(world, write):
    whole = lines("--cluster", world, "--pod", write(incoming("a")), "--gang")
    assert whole[0] == "the gang of 1 pod fits"
    part = lines("--cluster", world, "--pod", write(deployment(4)), "--gang")
    assert part[0].startswith("the gang of 4 pods does not fit as a whole: default/api-")
    assert part[0].endswith(" does not fit: Insufficient cpu on 2 of 2 nodes")


def test_a_comparison_has_the_counts_of_the_scenario(world, write):
    shown = lines("--cluster", world, "--drain", "n2", "--compare", "upstream", "strict")
    assert shown[0] == "upstream and strict decide alike: the drain of n2 hangs: budget default/keep allows 0"
    assert ["=", "blocked by drains", "1", "1"] in table(shown, ["upstream", "strict"])
    arriving = write(incoming("a", cpu="500m"))
    shown = lines("--cluster", world, "--pod", arriving, "--until-full", "--compare", "upstream", "strict")
    assert ["=", "fit until full", "2", "2"] in table(shown, ["upstream", "strict"])
    assert table(shown, ["POD"])[0][1:3] == ["default/a-3", "nominated; evicts default/alone"]


def test_an_upgrade_after_which_another_number_fits_decides_otherwise(world, write, tmp_path):
    """From 1.33 on a pod that is resized takes what it was allocated."""
    held = {"name": "main", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}
    resized = pod("resized", cpu="1", priority=9000, status={"phase": "Running", "containerStatuses": [held]})
    path = tmp_path / "resized.json"
    path.write_text(json.dumps(cluster({node("n1", cpu="4"): [resized]})))
    options = ("--pod", write(incoming("a")), "--until-full", "--compare-versions", "1.32", "1.33")
    result = run("--cluster", path, *options)
    shown = result.stdout.splitlines()
    assert ["≠", "fit until full", "3", "1"] in table(shown, ["1.32", "1.33"])
    assert shown[0].startswith("1.32 and 1.33 decide 2 of 2 pods (default/a-4, default/a-2) differently: ")
    assert result.exit_code == 1


def test_a_replacement_preempts_by_its_name(tmp_path):
    path = tmp_path / "cluster.json"
    nodes = {node("n1"): [replica("web-1-abcde", priority=2000)], node("n2", cpu="1"): [pod("b", priority=1)]}
    path.write_text(json.dumps(cluster(nodes)))
    assert "Preempted by pod default/web-1-bbbbb on node n2" in run("--cluster", path, "--drain", "n1").stdout


def test_json_is_what_the_python_api_says(world):
    shown = json.loads(run("--cluster", world, "--drain", "n1", "-o", "json").stdout)
    result = extender.simulate(load_cluster(world), drain=["n1"])
    assert shown == msgspec.to_builtins(result) | {"policies": "configured", "source": shown["source"]}


def test_nothing_in_a_name_steers_the_terminal(tmp_path):
    path, hostile = tmp_path / "cluster.json", "n\x1b[31m[bold]\u202e\x07"
    nodes = {node(hostile, cpu="2"): [replica("r\x1b[31m"), pod("b\x07", status=READY)], node("other"): []}
    path.write_text(json.dumps(cluster(nodes, budgets=[budget("k\x1b", app="b\x07")])))
    for options in (["--drain", hostile], ["--remove-node", hostile], ["--cordon", hostile]):
        shown = run("--cluster", path, *options).stdout
        assert "[31m[bold]" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(["--drain", "n9"], "drain: no node 'n9' in the cluster", id="an unknown node"),
        pytest.param(["--drain", "n1", "--cordon", "n1"], "drain: node 'n1' is named in cordon too", id="twice"),
        pytest.param(["--pending", "--gang"], "gang: requires pods or workloads", id="a gang of no pods"),
        pytest.param(["--pending", "--until-full"], "untilFull: requires exactly one pod or one workload", id="no pod"),
        pytest.param(["--add-node", "/none.yaml"], "none.yaml: No such file or directory", id="no file"),
    ],
)
def test_a_scenario_is_refused_with(world, monkeypatch, capsys, options, problem):
    assert problem in failure(monkeypatch, capsys, "--cluster", world, *options)


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("--add-node", "kind: Pod\nmetadata: {name: a}", "objects.yaml: 'Pod' is not a Node"),
        ("--add-node", "kind: List\nitems: []", "objects.yaml: contains no nodes"),
        ("--pod", "apiVersion: batch.volcano.sh/v1\nkind: Job", "objects.yaml: Job is not one of apps/v1 Deployment"),
        ("--pod", "kind: Deployment\nspec: 3", "objects.yaml: Deployment is invalid: spec: expected an object, got 3"),
    ],
)
def test_a_file_is_refused_with(world, tmp_path, monkeypatch, capsys, option, text, problem):
    (tmp_path / "objects.yaml").write_text(text)
    error = failure(monkeypatch, capsys, "--cluster", world, option, tmp_path / "objects.yaml")
    assert error.startswith(f"extender: {problem}")


def test_a_count_needs_a_node_to_add():
    result = run("--pending", "--count", "2")
    assert result.exit_code == 2
    assert "--count needs --add-node FILE" in result.output
