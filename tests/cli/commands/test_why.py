"""`extender why`: text, JSON and YAML, exit codes, what can be asked of a file and of a live cluster, and bad input."""

import json
import re
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender import cli
from extender.cluster.apiserver.credentials import CredentialsError
from extender.errors import ClusterLost
from extender.report.pod_schema import EXIT_CODES, NOT_TRIED_EXIT_CODE
from tests.builders import JSON, STARTED, NodeObject, budget, cluster, incoming, namespace, node, placed, pod, thing
from tests.cluster.apiserver.credentials.kubeconfigs import forget_everything, kubeconfig
from tests.device_builders import undecided_claim, using_claims
from tests.fakes.api_server import Answer, FakeAPI, Fault

Nodes = dict[NodeObject, list[JSON]]
FITTING: Nodes = {node("n1", cpu="2"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=5000)]}
FULL: Nodes = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=5000)]}
ESC = "\x1b[31m"


def run(*arguments, stdin=None):
    return CliRunner().invoke(cli.app, ["why", *map(str, arguments)], input=stdin, env={})


@pytest.fixture
def asked(tmp_path):
    """Ask about a pod of this cluster."""

    def ask(nodes, *arguments, **objects):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps(cluster(nodes, **objects)))
        return run(*arguments, "--cluster", path)

    return ask


def failure(monkeypatch, capsys, *arguments):
    """What stands on stderr, the command being the console's."""
    monkeypatch.setattr(sys, "argv", ["extender", "why", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    return err


def test_the_order_of_the_file_does_not_show(tmp_path):
    keep_away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "incoming"}}, "topologyKey": "zone"}
            ]
        }
    }
    zones = {name: node(name, labels={"zone": zone}) for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "b"))}
    pods = {zones[at]: [pod(f"{at}-{letter}", cpu="100m", affinity=keep_away) for letter in "cab"] for at in zones}
    given, printed = cluster(pods, waiting=[incoming()]), []
    for items in (given["items"], given["items"][::-1]):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({**given, "items": items}))
        printed.append(run("incoming", "--cluster", path, "--node", "n3", "-o", "json"))
    one, other = (json.loads(result.stdout)["nodes"] for result in printed)
    assert one == other
    ((fact,),) = (at["facts"] for at in one)
    assert (fact["pods"], fact["count"]) == (["default/n2-a", "default/n2-b", "default/n2-c"], 6)


# --- text -----------------------------------------------------------------------------------------------------------


def test_first_comes_the_sentence_then_facts_reasons_and_the_preemption(asked, tmp_path):
    result = asked(FULL, "incoming", waiting=[incoming()], budgets=[budget(app="a")])
    assert result.exit_code == EXIT_CODES["FitsAfterPreemption"] == 3
    printed = re.sub(r"\d{4}-\d\d-\d\dT[0-9:]+Z", "TIME", result.stdout)
    shown = [" ".join(line.split()) for line in printed.splitlines() if line.strip() and "──" not in line]
    assert shown == [
        (
            "default/incoming fits on none of 2 nodes: 2 with too little cpu (requests 1 cpu, most free: 0 on n1); "
            "evicting default/a from n1 (1 against a disruption budget) would make room"
        ),
        "pod default/incoming, priority 1000, requests 1 cpu",
        (
            "message 0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on "
            "node n1, preempting 1 victims"
        ),
        "scheduler kube-scheduler 1.37, assumed: its version is not known",
        f"cluster {tmp_path / 'cluster.json'}, written TIME: 2 nodes, 3 pods",
        "reasons, of 2 nodes",
        "NODES PLUGIN REASON PREEMPTION EXAMPLES",
        "2 NodeResourcesFit Insufficient cpu makes room on 1 n1, n2",
        "facts, by reason",
        "Insufficient cpu",
        "2 nodes: requests 1 cpu, most free: 0 on n1; no node has more free",
        "preemption",
        "1 candidate; would evict 1 pod from n1; 1 of them violate disruption budgets",
        "VICTIM PRIORITY BUDGETS NOTES",
        "default/a 0 default/budget",
        "--node NAME shows one node in full, --all every node",
    ]


def test_a_pod_that_fits_is_shown_with_the_scores_of_the_best_nodes(asked):
    result = asked(FITTING, "incoming", waiting=[incoming()])
    assert result.exit_code == EXIT_CODES["Fits"] == 0
    assert "scores, of 1 node on which the pod fits" in result.stdout


def test_every_node_has_its_code_reasons_scores_and_victims(asked):
    shown = asked(FULL, "incoming", "--all", waiting=[incoming()]).stdout
    rows = [line.split() for line in shown.splitlines() if line.lstrip().startswith(("n1 ", "n2 "))]
    facts = ["requests", "1", "cpu,", "0", "of", "1", "free"]
    assert rows[0] == ["n1", "Unschedulable", "NodeResourcesFit", "Insufficient", "cpu", *facts, "evicts", "default/a"]
    assert rows[1][-8:] == ["no:", "No", "preemption", "victims", "found", "for", "incoming", "pod"]


def test_one_node_is_shown_in_full(asked):
    shown = asked(FULL, "incoming", "--node", "n1", waiting=[incoming()]).stdout
    for part in ("preemption: evicts default/a", "AVAILABLE", "pods on n1, most important first", "victim"):
        assert part in shown
    shown = asked(FITTING, "incoming", "--node", "n1", waiting=[incoming()]).stdout
    for part in ("the pod fits", "scores, rank 1 of 1", "AVAILABLE"):
        assert part in shown


def test_a_wide_table_names_more_nodes(asked):
    nodes: Nodes = {node(f"n{number}", cpu="500m"): [] for number in range(9)}
    waiting = [incoming()]
    assert "n0, n1, n2 and 6 more" in asked(nodes, "incoming", waiting=waiting).stdout
    wide = asked(nodes, "incoming", "-o", "wide", waiting=waiting).stdout
    assert "Insufficient cpu  UnschedulableAndUnresolvable  no" in wide
    assert "  n0, n1, n2, n3, n4, n5, n6, n7, n8\n" in wide


def test_a_list_of_a_namespace_that_does_not_exist_ends_with_5(asked):
    for output in ("text", "json"):
        result = asked(FULL, "-n", "defualt", "-o", output)
        assert result.exit_code == 5
        assert "the cluster has no namespace defualt (did you mean default?)" in result.stdout
    assert asked(FULL, "-n", "default").exit_code == 0


def test_rows_of_a_table_that_differ_only_in_their_hidden_code_are_one(asked):
    nodes: Nodes = {node("n1", cpu="1"): [pod("full", priority=9000)], node("n2", cpu="100m"): []}
    rows = [" ".join(line.split()) for line in asked(nodes, "incoming", waiting=[incoming()]).stdout.splitlines()]
    assert "2 NodeResourcesFit Insufficient cpu no room n1, n2" in rows
    wide = asked(nodes, "incoming", "-o", "wide", waiting=[incoming()]).stdout
    assert "Insufficient cpu  Unschedulable " in wide
    assert "Insufficient cpu  UnschedulableAndUnresolvable " in wide


def test_names_cannot_control_the_terminal(asked):
    nodes: Nodes = {node(f"n1{ESC}", cpu="500m"): []}
    waiting = [incoming(metadata={"name": f"x{ESC}"}, schedulingGates=[{"name": ESC}])]
    result = asked(nodes, f"x{ESC}", "--all", waiting=waiting)
    assert result.exit_code == NOT_TRIED_EXIT_CODE
    assert "\x1b" not in result.output
    for output in ("json", "yaml"):
        assert "\x1b" not in asked(nodes, f"x{ESC}", "--all", "-o", output, waiting=waiting).output


def test_plugins_that_are_not_evaluated_are_named_and_the_verdict_is_unknown(asked):
    result = asked(FITTING, "incoming", waiting=[incoming(**using_claims("gpu"))], others=undecided_claim("gpu"))
    assert result.exit_code == EXIT_CODES["Unknown"] == 4
    assert "DynamicResources: kube-scheduler may decide otherwise" in result.stdout


# --- JSON and YAML --------------------------------------------------------------------------------------------------


def test_json_and_yaml_are_the_same_and_list_the_nodes_that_are_asked_for(asked):
    given = {"waiting": [incoming()]}
    found = json.loads(asked(FULL, "incoming", "-o", "json", **given).stdout)
    assert (found["verdict"], found["message"]) == (
        "FitsAfterPreemption",
        (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n1, "
            "preempting 1 victims"
        ),
    )
    assert (found["preemption"]["node"], found["nodes"], found["details"]) == ("n1", [], None)
    plain = yaml.safe_load(asked(FULL, "incoming", "-o", "yaml", **given).stdout)
    assert plain | {"source": None} == found | {"source": None}  # the file was written again
    every = json.loads(asked(FULL, "incoming", "-o", "json", "--all", **given).stdout)
    assert [one["name"] for one in every["nodes"]] == ["n1", "n2"]
    one = json.loads(asked(FULL, "incoming", "-o", "json", "--node", "n2", **given).stdout)
    assert ([one["name"] for one in one["nodes"]], one["details"]["name"]) == (["n2"], "n2")


def test_the_cluster_and_the_policies_of_a_configuration_are_used(tmp_path):
    here, settings = tmp_path / "cluster.json", tmp_path / "extender.yaml"
    here.write_text(json.dumps(cluster(FULL, waiting=[incoming()], budgets=[budget(app="a")])))
    settings.write_text(yaml.safe_dump({"cluster": {"path": str(here)}, "preemption": {"preset": "strict"}}))
    result = run("incoming", "--config", settings)
    assert result.exit_code == 1
    assert "your policies allow no eviction for it" in result.stdout
    assert run("shop/cart-0", "--example", "--config", settings).exit_code == 0


# --- the pod --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["shop/a"], ["a", "-n", "shop"], ["shop/a", "--namespace", "shop"]], ids=lambda one: " ".join(one)
)
def test_a_pod_is_named_with_its_namespace(asked, arguments):
    nodes = {node("n1"): [pod("a", namespace="shop")]}
    assert asked(nodes, *arguments).stdout.startswith("shop/a is on n1, the only node of the cluster\n")


def test_a_pod_that_the_cluster_does_not_have(asked):
    result = asked(FULL, "shop/x")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (5, "the cluster has no pod shop/x")


def test_a_pod_that_does_not_exist_yet_is_read_from_a_manifest(tmp_path, asked):
    manifest = tmp_path / "pod.yaml"
    arriving = incoming("new")
    del arriving["spec"]["priority"], arriving["metadata"]["uid"]
    arriving["spec"]["priorityClassName"] = "urgent"
    urgent = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7000}
    manifest.write_text(yaml.safe_dump(arriving))
    found = asked(FULL, "--pod", manifest, "-o", "json", others=[urgent])
    assert (found.exit_code, json.loads(found.stdout)["priority"]) == (3, 7000)


def test_a_manifest_comes_from_standard_input():
    result = run("--pod", "-", "--example", stdin=yaml.safe_dump(incoming("new")))
    assert result.stdout.startswith("default/new fits on ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(yaml.safe_dump_all([incoming("x"), incoming("z")]), "holds 2 pods", id="two pods"),
        pytest.param(yaml.safe_dump(node("n1").raw), "a Node is not a pod", id="a node"),
        pytest.param(
            yaml.safe_dump({"kind": "Deployment", "metadata": {"name": "d"}}),
            "Deployment d is invalid: spec.selector: Required value",
            id="a workload that is not admitted",
        ),
        pytest.param("{", "expected", id="broken"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_an_error(tmp_path, monkeypatch, capsys, text, message):
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    error = failure(monkeypatch, capsys, "--pod", path, "--example")
    assert "pod.yaml" in error
    assert message in error


def test_a_manifest_of_a_pod_that_runs_already_is_an_error(tmp_path, monkeypatch, capsys):
    given, manifest = tmp_path / "cluster.json", tmp_path / "pod.json"
    given.write_text(json.dumps(cluster(FULL)))
    manifest.write_text(json.dumps(incoming("a", metadata={"uid": "another"})))
    error = failure(monkeypatch, capsys, "--pod", manifest, "--cluster", given)
    assert "pod 'default/a' already exists on node 'n1'" in error


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a", "--pod", "x.yaml"], "cannot be combined with --pod FILE", id="two pods"),
        pytest.param(["a", "--cluster", "x", "--example"], "--example: cannot be combined", id="two clusters"),
        pytest.param(["--node", "n1"], "--node: applies to one pod", id="a node without a pod"),
        pytest.param(["--wait"], "--wait: applies to one pod", id="waiting for all pods"),
        pytest.param(["a", "-A"], "--all-namespaces: lists pending pods", id="a pod of all namespaces"),
        pytest.param(["a", "-w"], "--watch: lists pending pods", id="watching one pod"),
        pytest.param(["-A", "-n", "shop"], "--all-namespaces: cannot be combined", id="one namespace and all"),
        pytest.param(["-w", "--example"], "--watch: needs a live cluster", id="watching the example"),
        pytest.param(["-w", "-o", "yaml"], "--watch: prints text or JSON", id="watching in YAML"),
        pytest.param(["a", "--example", "--wait"], "needs a live cluster", id="waiting for the example"),
        pytest.param(["a", "--cluster", "x", "--wait"], "needs a live cluster", id="waiting for a file"),
        pytest.param(
            ["a", "--cluster", "x", "--context", "y"], "--cluster: cannot be combined", id="a file and a context"
        ),
        pytest.param(["shop/a", "--timeout", "inf"], "--timeout", id="no time limit"),
        pytest.param(["shop/a", "-n", "batch"], "contradicts shop/a", id="two namespaces"),
        pytest.param(["a/b/c"], "expected POD or NAMESPACE/POD", id="three parts"),
        pytest.param(["/a"], "expected POD or NAMESPACE/POD", id="an empty namespace"),
        pytest.param(["shop/"], "expected POD or NAMESPACE/POD", id="an empty name"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_what_cannot_be_read_is_an_error(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert "the name of a file is empty" in failure(monkeypatch, capsys, "--pod", "", "--example")
    assert "no such file" in failure(monkeypatch, capsys, "a", "--kubeconfig", "/none").lower()
    assert "missing.json" in failure(monkeypatch, capsys, "a", "--cluster", tmp_path / "missing.json")
    assert "node 'n9' does not exist" in failure(monkeypatch, capsys, "shop/cart-0", "--example", "--node", "n9")


# --- a live cluster -------------------------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path, monkeypatch):
    """An API server with nodes, and the options that reach it; the context's namespace is shop."""
    forget_everything(monkeypatch, tmp_path)
    with FakeAPI() as api:
        context = {"name": "main", "context": {"cluster": "main", "user": "main", "namespace": "shop"}}
        access = kubeconfig(tmp_path / "config", {"token": "t"}, {"server": api.url}, contexts=[context])
        for item in cluster({node("n1", cpu="1"): [pod("a")]})["items"]:
            api.put(item["kind"], item)
        yield api, ("--kubeconfig", access)


def test_a_live_cluster_is_only_read(live):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop"))
    result = run("new", *access)
    assert (result.exit_code, result.exception.__class__) == (3, SystemExit)
    assert result.stdout.startswith("shop/new does not fit on n1: ")
    assert {request.method for request in api.requests} == {"GET"}


def test_what_may_not_be_read_is_named_and_the_verdict_is_unknown(live):
    api, access = live
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    api.put("Pod", incoming("new", cpu=None, namespace="shop", volumes=[volume]))
    api.forbid("PersistentVolumeClaim")
    result = run("new", *access)
    assert result.exit_code == 4
    assert "no permission to list PersistentVolumeClaim" in result.stderr
    assert "VolumeBinding" in result.stdout


MANIFEST = {"kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_manifest_is_admitted_by_what_the_live_cluster_has(live):
    api, access = live
    assert run("--pod", "-", *access, stdin=json.dumps(MANIFEST)).exit_code == 0
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "64"}}]}
    api.put("LimitRange", thing("LimitRange", "limits", namespace="shop", spec=limits))
    result = run("--pod", "-", *access, stdin=json.dumps(MANIFEST))
    assert result.exit_code == 1, result.output
    assert "Insufficient cpu" in result.stdout
    api.requests.clear()
    stored = MANIFEST | {"metadata": {"name": "new", "uid": "u"}}
    assert run("--pod", "-", *access, stdin=json.dumps(stored)).exit_code == 0
    assert not [one for one in api.requests if one.kind in ("LimitRange", "ResourceQuota", "RuntimeClass")]


def test_a_manifest_is_admitted_by_the_api_server_on_request(live):
    api, access = live

    def admit(sent):
        sent["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
        return ['unknown field "spec.hostnetwork"', "this class is deprecated"]

    api.admit = admit
    result = run("--pod", "-", "--admission", "server", *access, "-o", "json", stdin=json.dumps(MANIFEST))
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)["admission"]
    assert found["mode"] == "server"
    assert "spec.hostnetwork" in str(found["pruned"])
    assert "this class is deprecated" in str(found["warnings"])
    assert [one.kind for one in api.requests if one.method != "GET"] == ["Pod"]
    assert not [one for one in api.requests if one.kind in ("LimitRange", "ResourceQuota", "RuntimeClass")]
    api.forbid("Pod", "create")
    result = run("--pod", "-", "--admission", "server", *access, stdin=json.dumps(MANIFEST))
    assert isinstance(result.exception, ClusterLost)
    assert "permission to create pods in namespace shop" in str(result.exception)


@pytest.mark.slow
def test_an_event_of_kube_scheduler_stands_beside_the_message(live):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop", priority=0))
    said = json.loads(run("new", *access, "-o", "json").stdout)["message"]
    about = {"kind": "Pod", "namespace": "shop", "name": "new", "uid": "uid-new"}
    event = thing("Event", "new.1", namespace="shop", involvedObject=about, reason="FailedScheduling", message=said)
    api.put("Event", event | {"source": {"component": "default-scheduler"}, "lastTimestamp": STARTED, "count": 3})
    assert (
        "the last FailedScheduling, of default-scheduler at 2026-01-01 00:00:00, says the same"
        in run("new", *access).stdout
    )
    api.put("Event", event | {"message": "0/9 nodes are available"})
    assert "said: 0/9 nodes are available" in run("new", *access).stdout


def test_waiting_ends_when_the_pod_has_its_node(live, monkeypatch):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop"))

    def bind(_seconds):
        api.put("Pod", placed(pod("new", namespace="shop", priority=1000), "n1"))

    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "sleep", bind)
    result = run("new", *access, "--wait")
    assert result.exit_code == 0
    assert result.stdout.startswith("shop/new is on n1")


def test_waiting_ends_with_the_last_verdict_when_its_time_is_over_or_the_pod_is_gone(live, monkeypatch):
    api, access = live
    assert run("x", *access, "--wait").exit_code == 5
    api.put("Pod", incoming("new", namespace="shop"))
    result = run("new", *access, "--wait", "--wait-timeout", "0")
    assert result.exit_code == 3
    assert "extender: shop/new does not fit after 0 s" in result.stderr


@pytest.mark.slow
def test_waiting_outlives_reads_that_fail_but_not_its_time(live, monkeypatch):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop"))
    steps = iter((True, True, False))

    def fail_or_bind(_seconds):
        if next(steps):
            api.faults.add(Fault("list", "Node", Answer(400, "restarting")))
        else:
            api.put("Pod", placed(pod("new", namespace="shop", priority=1000), "n1"))

    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "sleep", fail_or_bind)
    result = run("new", *access, "--wait")
    assert (result.exit_code, result.stderr.count("cannot list nodes: 400")) == (0, 1)
    api.put("Pod", incoming("new", namespace="shop"))
    api.faults.add(Fault("list", "Node", Answer(400, "broken"), times=None, skip=1))
    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "sleep", time.sleep)
    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "WAIT_INTERVAL_SECONDS", 0.02)
    assert isinstance(run("new", *access, "--wait", "--wait-timeout", "0.1").exception, ClusterLost)


@pytest.mark.slow
def test_a_manifest_is_of_the_namespace_that_it_names_or_that_of_the_option_or_of_the_context(live, tmp_path):
    _, access = live
    given, manifest = incoming("new"), tmp_path / "pod.yaml"
    del given["metadata"]["namespace"]
    manifest.write_text(yaml.safe_dump(given))
    ask = ("--pod", manifest, "-o", "json")
    assert json.loads(run(*ask, *access).stdout)["pod"] == "shop/new"
    assert json.loads(run(*ask, *access, "-n", "batch").stdout)["pod"] == "batch/new"
    assert json.loads(run(*ask, "--example").stdout)["pod"] == "default/new"
    manifest.write_text(yaml.safe_dump(incoming("new", namespace="web")))
    assert json.loads(run(*ask, *access).stdout)["pod"] == "web/new"
    assert "namespace batch contradicts web/new" in run(*ask, *access, "-n", "batch").stderr


def test_a_warning_is_printed_once_however_often_the_cluster_is_read(live, monkeypatch):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop", priority=0))
    api.forbid("Namespace")
    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "WAIT_INTERVAL_SECONDS", 0.02)
    result = run("new", *access, "--wait", "--wait-timeout", "0.1")
    assert sum(one.path == "/api/v1/nodes" for one in api.requests) > 1
    assert result.stderr.count("no permission to list Namespace") == 1


def test_what_was_not_read_is_not_counted(live):
    _, access = live
    assert "0 nodes" not in run("unknown", *access).stdout


def test_the_answer_names_context_and_server_and_another_version_of_kubelets(live):
    api, access = live
    api.put("Node", node("n1", cpu="1", nodeInfo={"kubeletVersion": "v1.99.1"}).raw)
    api.put("Pod", incoming("new", namespace="shop"))
    found = json.loads(run("new", *access, "-o", "json").stdout)["source"]
    assert (found["kind"], found["context"], found["server"], found["namespace"]) == ("live", "main", api.url, "shop")
    assert found["versionHint"].startswith("kubelets are 1.99 on 1 node, so kube-scheduler may be 1.99 rather than")
    assert f"context main ({api.url})" in run("new", *access).stdout


def test_a_missing_pod_of_a_live_cluster_gets_the_pods_that_may_be_meant(live):
    api, access = live
    owner = [{"kind": "ReplicaSet", "name": "web-5d9f", "controller": True}]
    api.put("Pod", incoming("web-5d9f-abcde", namespace="shop", metadata={"ownerReferences": owner}))
    result = run("web", *access, "-o", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["suggestions"]) == (5, ["shop/web-5d9f-abcde"])
    assert found["why"].endswith("; Deployment shop/web has the pods shop/web-5d9f-abcde")


def test_without_a_kubeconfig_other_sources_are_named(monkeypatch, tmp_path):
    forget_everything(monkeypatch, tmp_path)
    for arguments in ((), ("shop/a",)):
        result = run(*arguments)
        assert isinstance(result.exception, CredentialsError)
        assert "--example" in str(result.exception)
    assert "--example" not in str(run("shop/a", "--kubeconfig", "/none").exception)


# --- the pending pods -------------------------------------------------------------------------------------------------


def waiting_pods():
    return [
        incoming("large", cpu="3", metadata={"creationTimestamp": STARTED}),
        incoming("gated", schedulingGates=[{"name": "quota"}]),
        incoming("other", namespace="shop", schedulerName="volcano"),
    ]


def test_without_a_name_every_pending_pod_is_listed_by_cause(asked):
    result = asked(FULL, waiting=waiting_pods())
    assert result.exit_code == EXIT_CODES["DoesNotFit"]
    lines = [" ".join(line.split()) for line in result.stdout.splitlines() if "──" not in line]
    assert lines[0].startswith("3 pods are pending: 1 without a node that fits, 1 gated, 1 for another scheduler; ")
    assert "1 2026-01-01 00:00:00 nodes with too little cpu" in lines
    rows = [line for line in lines if line.startswith(("default ", "shop "))]
    assert rows == [
        'shop other unknown for another scheduler: "volcano"',
        "default large 2026-01-01 00:00:00 2 of 2 nodes with too little cpu no room",
        "default gated unknown waiting for scheduling gates: [quota]",
    ]


def test_the_list_of_one_namespace_and_its_exit_codes(asked):
    assert asked(FULL, "-n", "shop", waiting=waiting_pods()).exit_code == NOT_TRIED_EXIT_CODE == 6
    assert asked(FULL, "-A", waiting=[incoming()]).exit_code == EXIT_CODES["FitsAfterPreemption"]
    assert asked(FITTING, waiting=[incoming()]).exit_code == EXIT_CODES["Fits"]
    undecided = incoming("x", **using_claims("gpu"))
    found = asked(
        FITTING,
        waiting=[undecided, incoming("gated", schedulingGates=[{"name": "quota"}])],
        others=undecided_claim("gpu"),
    )
    assert found.exit_code == EXIT_CODES["Unknown"]
    nothing = asked(FULL, "-n", "none", waiting=waiting_pods())
    assert (nothing.exit_code, nothing.stdout.splitlines()[0]) == (5, "the cluster has no namespace none")


def test_the_list_in_json_and_yaml_is_the_report(asked):
    found = json.loads(asked(FULL, "-o", "json", waiting=waiting_pods()).stdout)
    assert [one["pod"] for one in found["pods"]] == ["shop/other", "default/large", "default/gated"]
    assert (found["namespace"], found["source"]["kind"]) == (None, "file")
    plain = yaml.safe_load(asked(FULL, "-o", "yaml", waiting=waiting_pods()).stdout)
    assert plain["pods"] == found["pods"]


class Stop(Exception):
    """The user interrupts."""


def watched(access, monkeypatch, steps, *options):
    """What is printed while the steps change the cluster, one after each reading of it."""

    def change(_seconds):
        if not steps:
            raise Stop
        steps.pop(0)()

    monkeypatch.setattr(sys.modules["extender.cli.commands.why"], "sleep", change)
    result = run(*access, "-w", *options)
    assert isinstance(result.exception, Stop)
    return result


def test_watching_prints_what_changes_as_lines(live, monkeypatch):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop"))
    steps = [
        lambda: api.put("Pod", incoming("next", namespace="shop", schedulingGates=[{"name": "quota"}])),
        lambda: api.put("Pod", placed(pod("new", namespace="shop", priority=1000), "n1")),
        lambda: api.faults.add(Fault("list", "Node", Answer(400, "restarting"))),
        lambda: api.put("Pod", incoming("next", namespace="shop", cpu="9")),
    ]
    result = watched(access, monkeypatch, steps)
    changes = [line.partition("  ")[2] for line in result.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\dZ  ", line)]
    assert changes == [
        "shop/next  new: waiting for scheduling gates: [quota]",
        "shop/new  not pending any more",
        "shop/next  1 of 1 nodes with too little cpu; before: waiting for scheduling gates: [quota]",
    ]
    assert "restarting; trying again" in result.stderr


def test_watching_in_json_prints_the_whole_list_as_a_line_at_first_and_after_each_change(live, monkeypatch):
    api, access = live
    api.put("Pod", incoming("new", namespace="shop"))
    steps = [
        lambda: None,
        lambda: api.put("Pod", incoming("next", namespace="shop", schedulingGates=[{"name": "quota"}])),
        lambda: api.put("Pod", placed(pod("new", namespace="shop", priority=1000), "n1")),
    ]
    lists = [json.loads(line) for line in watched(access, monkeypatch, steps, "-o", "json").stdout.splitlines()]
    assert [sorted(one["pod"] for one in found["pods"]) for found in lists] == [
        ["shop/new"],
        ["shop/new", "shop/next"],
        ["shop/next"],
    ]
    assert {found["source"]["kind"] for found in lists} == {"live"}


@pytest.mark.parametrize("options", [[], ["-o", "json"]], ids=["text", "JSON"])
def test_watching_a_namespace_that_does_not_exist_says_when_it_does(live, monkeypatch, options):
    api, access = live
    steps = [lambda: None, lambda: api.put("Namespace", namespace("nope"))]
    first, *_, last = watched(access, monkeypatch, steps, "-n", "nope", *options).stdout.splitlines()
    assert "the cluster has no namespace nope" in first
    assert "no pod is pending in namespace nope" in last


# --- a kubectl plugin -----------------------------------------------------------------------------------------------


def test_the_kubectl_plugin_is_the_same_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kubectl-extender_why", "shop/cart-0", "--example"])
    with pytest.raises(SystemExit) as ended:
        cli.kubectl_why()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("shop/cart-0 is on worker-c1")


def test_the_usage_of_the_kubectl_plugin_works_when_typed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kubectl-extender_why", "--help"])
    with pytest.raises(SystemExit):
        cli.kubectl_why()
    assert capsys.readouterr().out.startswith("Usage: kubectl extender-why [OPTIONS] [NAMESPACE/POD]\n")


# --- a pod of a dump that fits ----------------------------------------------------------------------------------------


def test_a_pod_of_a_dump_that_fits_is_retried_and_its_condition_says_what_stood_in_its_way():
    folder = Path(__file__).parents[1] / "cases" / "u08-fits-but-pending-in-a-dump"
    result = run("d/db-new", "--cluster", folder / "cluster.json", "-o", "json")
    hint = json.loads(result.stdout)["hint"]
    assert "after a change that may help it, and every 5 minutes by default" in hint
    assert "condition PodScheduled" in hint
    assert hint.endswith("1 node(s) didn't match pod affinity rules, 1 node(s) were unschedulable.")
    before = json.loads(run("d/db-new", "--cluster", folder / "before.yaml", "-o", "json").stdout)
    assert (before["verdict"], before["hint"]) == ("DoesNotFit", None)
