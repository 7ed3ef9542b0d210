"""`extender simulate`: files and stdin in, events, tables and JSON out, and what is said of bad input."""

import json
import os
import re
import subprocess
import sys

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

import extender
from extender import cli
from extender.cluster.files.dump import encode_list, write_file
from extender.cluster.files.manifests import example_cluster, load_cluster
from extender.core.profile import KubeScheduler
from extender.errors import printable
from tests.builders import budget, cluster, incoming, node, pod
from tests.cluster.apiserver.credentials.kubeconfigs import forget_everything, kubeconfig
from tests.device_builders import undecided_claim, using_claims
from tests.fakes.api_server import FakeAPI

WORLD = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=500)]}


def run(*arguments, stdin=None):
    return CliRunner().invoke(cli.app, ["simulate", *map(str, arguments)], input=stdin, env={})


def lines(*arguments, stdin=None):
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def table(shown, head):
    """Cells of the rows of the table whose header begins with these cells."""
    cells = [re.split(r"  +", line.strip()) for line in shown]
    (start,) = [place for place, line in enumerate(cells) if line[: len(head)] == head]
    end = next((place for place, line in enumerate(cells[start:], start) if line == [""]), len(cells))
    return cells[start + 1 : end]


def events(shown):
    return table(shown, ["NAMESPACE", "TYPE"])


def facts(shown, name):
    """What stands after this name in the facts below the sentence."""
    return [line.strip().partition("  ")[2].strip() for line in shown if line.startswith(f"  {name}  ")]


def failure(monkeypatch, capsys, *arguments):
    """What stands on stderr, the command being the console's."""
    monkeypatch.setattr(sys, "argv", ["extender", "simulate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    return err


@pytest.fixture
def world(tmp_path):
    """A cluster file."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(WORLD, budgets=[budget(app="a"), budget("b", app="b")])))
    return path


@pytest.fixture
def arriving(tmp_path):
    """A file with a pod."""
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(incoming("new")))
    return path


# --- text ---------------------------------------------------------------------------------------------------------


def test_events_are_worded_as_kube_scheduler_words_them(world, arriving):
    shown = lines("--cluster", world, "--pod", arriving)
    assert events(shown) == [
        [
            *("default", "Warning", "FailedScheduling", "pod/new"),
            (
                "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node "
                "n1, preempting 1 victims"
            ),
        ],
        ["default", "Normal", "Preempted", "pod/a", "Preempted by pod uid-new on node n1"],
        ["default", "Normal", "Scheduled", "pod/new", "Successfully assigned default/new to n1"],
    ]


def test_the_summary_says_who_went_and_what_the_nodes_hold(world, arriving):
    shown = lines("--cluster", world, "--pod", arriving)
    assert shown[0] == "default/new fits on n1; default/a is preempted (1 against a disruption budget)"
    assert facts(shown, "pods") == ["1 scheduled, 0 pending, 0 skipped, 1 preempted, 1 PDB violations"]
    assert facts(shown, "policies") == ["configured"]
    assert shown[-6:] == [
        "",
        "  EVICTED    PRIORITY  NODE  PREEMPTOR    BUDGETS",
        "  default/a  0         n1    default/new  default/budget",
        "",
        "  NODE  CPU          MEMORY         PODS",
        "  n1    1 -> 1 of 1  0 -> 0 of 8Gi  1 -> 1 of 110",
    ]


def test_a_veto_is_said_below_the_event_and_pending_pods_in_the_summary(world, arriving):
    shown = lines("--cluster", world, "--pod", arriving, "--preset", "strict")
    failed, (vetoed,) = events(shown)
    assert failed[-1].endswith("preemption: no candidate node for preemption")
    reasons = vetoed.removeprefix("preemption vetoed: ").split("; ")
    assert sorted(reasons) == [
        "1 node: would break disruption budget default/b",
        "1 node: would break disruption budget default/budget",
    ]
    assert shown[0].startswith(
        "default/new does not fit: Insufficient cpu on 2 of 2 nodes; the policies allow no eviction: 1 node: "
    )
    assert facts(shown, "pods") == ["0 scheduled, 1 pending, 0 skipped, 0 preempted, 0 PDB violations"]
    ((pod_, priority, nominated, message),) = table(shown, ["PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"])
    assert (pod_, priority, nominated) == ("default/new", "1000", "<none>")
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_plugins_that_are_not_evaluated_are_said_below_the_event(tmp_path):
    claimed, claiming = tmp_path / "claimed.json", tmp_path / "claiming.json"
    claimed.write_text(json.dumps(cluster(WORLD, others=undecided_claim("gpu"))))
    claiming.write_text(json.dumps(incoming("new", **using_claims("gpu"))))
    shown = lines("--cluster", claimed, "--pod", claiming)
    assert shown[0].endswith("; that is also up to DynamicResources, not evaluated here")
    assert events(shown)[1] == ["not evaluated here, kube-scheduler may decide otherwise: DynamicResources"]


def test_a_message_longer_than_an_event_s_is_cut_off_as_kube_scheduler_does(world, arriving):
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "x" * 1100}}
    arriving.write_text(json.dumps(incoming("new", volumes=[volume])))
    message = events(lines("--cluster", world, "--pod", arriving))[0][-1]
    assert (len(message), message[-7:]) == (1024, "xxx ...")


def test_skipped_pods_are_told_with_their_reason(world, tmp_path):
    gated = tmp_path / "gated.json"
    gated.write_text(json.dumps(incoming("new", schedulingGates=[{"name": "quota"}])))
    shown = lines("--cluster", world, "--pod", gated)
    assert shown[0] == "default/new not tried: waiting for scheduling gates: [quota]"
    assert events(shown) == [
        ["default", "Normal", "Skipped", "pod/new", "not tried: waiting for scheduling gates: [quota]"]
    ]


def test_of_long_tables_twenty_rows_are_shown(tmp_path):
    nodes: dict = {node(f"n{place:02}", cpu="1"): [] for place in range(25)}
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(nodes, waiting=[incoming(f"p{place:02}") for place in range(25)])))
    shown = lines("--cluster", path, "--pending")
    assert shown[0] == "all 25 pods fit"
    assert shown[-1] == "  and 5 more (-o json shows all)"
    assert [row[3:] for row in events(shown)] == [["pod/p00 and 24 more", "Successfully assigned 25 pods to 25 nodes"]]


def test_the_example_is_asked_only_by_its_name(monkeypatch, tmp_path, capsys):
    shown = lines("--example", "--pending")
    assert shown[0] == "shop/payments-84c5bb6f9d-new fits on spot-a1"
    assert facts(shown, "cluster") == ["the example cluster that ships with the package: 12 nodes, 45 pods"]
    forget_everything(monkeypatch, tmp_path)
    assert failure(monkeypatch, capsys, "--pending") == (
        "extender: kubeconfig ~/.kube/config: no such file, and this is not a pod with a service account\n"
        "extender: --cluster PATH reads a file or a directory, --example the cluster that ships with the package\n"
    )


def test_nothing_in_a_name_steers_the_terminal(tmp_path):
    path, hostile = tmp_path / "cluster.json", "\x1b[31m[bold]\u202e\x07"
    path.write_text(json.dumps(cluster({node(f"n{hostile}", cpu="1"): [pod(f"v{hostile}")]})))
    arriving = tmp_path / "pod.json"
    arriving.write_text(json.dumps(incoming(f"p{hostile}")))
    for options in (["--no-color"], [], ["--compare", "upstream", "strict"], ["-o", "json"]):
        shown = run("--cluster", path, "--pod", arriving, *options).stdout
        assert "[31m[bold]" in shown
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert printable("a\x1bé\u202e") == "a\\x1bé\\u202e"


# --- two policies -------------------------------------------------------------------------------------------------


def test_two_policies_stand_side_by_side_with_differences_marked(world, arriving):
    small = incoming("small", cpu=None, priority=1)
    arriving.write_text(yaml.safe_dump_all([incoming("new"), small]))
    shown = lines("--cluster", world, "--pod", arriving, "--compare", "upstream", "strict")
    assert shown[0] == (
        "upstream and strict decide 1 of 2 pods (default/new) differently: 2 and 1 scheduled, 0 and 1 pending, "
        "1 and 0 preempted, 1 and 0 PDB violations"
    )
    rows = table(shown, ["POD", "upstream", "strict"])
    assert rows[0][:3] == ["≠", "default/new", "n1; evicts default/a; violates 1 budget"]
    assert rows[0][3].startswith("unschedulable; preemption vetoed: ")
    assert rows[1] == ["=", "default/small", "n1", "n1"]
    assert table(shown, ["upstream", "strict"]) == [
        ["≠", "scheduled", "2", "1"],
        ["≠", "pending", "0", "1"],
        ["=", "skipped", "0", "0"],
        ["≠", "preempted", "1", "0"],
        ["≠", "PDB violations", "1", "0"],
    ]


# --- kube-scheduler's own configuration and version -----------------------------------------------------------------


TWO_PROFILES = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 50,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
            "pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 5}}],
        },
        {
            "schedulerName": "bin-packing",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
                    },
                }
            ],
            "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        },
    ],
}
HALF_FULL = {node("n1"): [], node("n2"): [pod("a", cpu="2")]}


@pytest.fixture
def two_profiles(tmp_path):
    """The file of a kube-scheduler with two profiles."""
    path = tmp_path / "scheduler-config.yaml"
    path.write_text(yaml.safe_dump(TWO_PROFILES))
    return path


def scheduled_on(message):
    return message.rpartition(" ")[2]


def test_each_pod_is_judged_by_the_profile_of_its_scheduler_name(tmp_path, two_profiles):
    world, arriving = tmp_path / "cluster.json", tmp_path / "pods.yaml"
    world.write_text(json.dumps(cluster(HALF_FULL)))
    names = {"spread": "default-scheduler", "packed": "bin-packing", "foreign": "other"}
    arriving.write_text(yaml.safe_dump_all([incoming(name, schedulerName=own) for name, own in names.items()]))
    arguments = ("--cluster", world, "--pod", arriving, "--scheduler-config", two_profiles, "-o", "json")
    found = json.loads(run(*arguments).stdout)
    assert {one["pod"]: one["node"] for one in found["cycles"]} == {
        "default/spread": "n1",
        "default/packed": "n2",
        "default/foreign": None,
    }
    (skipped,) = [one for one in found["cycles"] if one["outcome"] == "Skipped"]
    assert skipped["message"] == 'not tried: not ours: no profile has schedulerName "other"'


def test_what_the_file_says_and_a_simulation_leaves_out_is_noted(world, arriving, two_profiles):
    shown = lines("--cluster", world, "--pod", arriving, "--scheduler-config", two_profiles)
    sampled = "percentageOfNodesToScore is 50: kube-scheduler stops once it has found enough feasible nodes"
    limits = "minCandidateNodesPercentage is 10 and minCandidateNodesAbsolute 5"
    assert [note.removeprefix("profile ") for note in facts(shown, "note")] == [
        f"default-scheduler: {sampled}; here all are judged",
        f"default-scheduler: {limits}: kube-scheduler's dry run tries that many nodes; here all are tried",
        "default-scheduler: plugins that are not evaluated: Coscheduling",
        f"bin-packing: {sampled}; here all are judged",
    ]


def test_the_version_is_set_or_found_in_the_cluster(tmp_path, arriving):
    path = tmp_path / "cluster.json"
    labels = {"component": "kube-scheduler"}
    spec = {"containers": [{"name": "kube-scheduler", "image": "registry.example/kube-scheduler:v1.31.2"}]}
    own = {"kind": "Pod", "metadata": {"name": "kube-scheduler-cp", "namespace": "kube-system", "labels": labels}}
    path.write_text(json.dumps({"kind": "List", "items": [*cluster(WORLD)["items"], {**own, "spec": spec}]}))

    def version(*options):
        found = json.loads(run("--cluster", path, "--pod", arriving, "-o", "json", *options).stdout)
        return found["version"], found["versionSource"]

    assert version() == ("1.31", "image tag v1.31.2 of pod kube-system/kube-scheduler-cp")
    assert version("--scheduler-version", "1.33") == ("1.33", "configured")


def test_an_upgrade_is_shown_pod_by_pod_with_decisions_first(tmp_path):
    """BalancedAllocation scores the change that a pod makes from 1.36 on; the message names taints up to 1.33."""
    nodes = {
        node("n1", cpu="8"): [pod("a", cpu="4", priority=9000)],
        node("n2", cpu="8"): [pod("b", memory="4Gi", priority=9000)],
    }
    tainted: dict = {node("n3", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]): []}
    world, arriving = tmp_path / "cluster.json", tmp_path / "pods.yaml"
    world.write_text(json.dumps(cluster({**nodes, **tainted})))
    huge = incoming("huge", cpu="8", priority=2000)
    arriving.write_text(yaml.safe_dump_all([huge, incoming("small", cpu="1", memory="1Gi")]))
    result = run("--cluster", world, "--pod", arriving, "--compare-versions", "1.33", "1.36")
    assert result.exit_code == 1
    shown = result.stdout.splitlines()
    assert shown[0] == (
        "1.33 and 1.36 decide 1 of 2 pods (default/small) differently; 1 for the same reason in other words"
    )
    assert facts(shown, "cluster")[0].endswith(": 3 nodes, 2 pods")
    start = shown.index("≠ default/small")
    assert shown[start + 1 : start + 4] == [
        "  node: n2 -> n1",
        "",
        "1 pod: the same outcome, in other words: default/huge",
    ]
    assert "untolerated taint {k: v}" in shown[start + 4]
    assert "untolerated taint(s)" in shown[start + 5]
    found = json.loads(
        run("--cluster", world, "--pod", arriving, "--compare-versions", "1.33", "1.36", "-o", "json").stdout
    )
    assert found["compared"] == ["1.33", "1.36"]
    assert found["summary"] == {"pods": 2, "decidedOtherwise": 1, "otherReason": 0, "otherWords": 1}
    assert [(one["pod"], one["changes"], one["inWordsOnly"]) for one in found["differences"]] == [
        ("default/small", ["node"], False),
        ("default/huge", ["message"], True),
    ]


def test_fifty_replicas_whose_message_has_other_words_are_one_line(tmp_path, world):
    """No replica fits, and 1.33 names the taint."""
    tainted: dict = {node("n3", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]): []}
    (tmp_path / "tainted.json").write_text(
        json.dumps(cluster({node("n1", cpu="1"): [pod("a", priority=9000)], **tainted}))
    )
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"] | {"priority": None}}
    spec = {"replicas": 50, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    (tmp_path / "web.json").write_text(json.dumps(web))
    where = ("--cluster", tmp_path / "tainted.json", "--pod", tmp_path / "web.json")
    shown = lines(*where, "--compare-versions", "1.33", "1.36")
    assert shown[0] == "1.33 and 1.36 decide all 50 pods alike; 50 for the same reason in other words"
    assert shown[4].startswith("50 pods: the same outcome, in other words: default/web-")
    assert shown[4].endswith(" and 48 more")
    assert len(shown) < 20
    single = lines(*where)
    assert single[0] == (
        "none of 50 pods of Deployment default/web fits: Insufficient cpu on 1 of 2 nodes, 1 had untolerated taint(s)"
    )
    assert len(events(single)) == 1


def test_an_upgrade_without_effect_is_exit_code_0(world, arriving):
    shown = lines("--cluster", world, "--pod", arriving, "--compare-versions", "1.35", "1.36")
    assert shown[0] == "1.35 and 1.36 decide the only pod alike"


def test_a_feature_gate_that_one_of_the_versions_does_not_have_is_named(world, arriving, monkeypatch, capsys):
    monkeypatch.setenv("EXTENDER_SCHEDULER__FEATURE_GATES", "{PodLevelResources: true}")
    error = failure(monkeypatch, capsys, "--cluster", world, "--pod", arriving, "--compare-versions", "1.30", "1.36")
    assert "1.30 does not have the feature gate PodLevelResources" in error


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--scheduler-version", "1.12"), '--scheduler-version: scheduler.version: "1.12" is not supported'),
        (("--compare-versions", "1.33", "2.0"), '--compare-versions: scheduler.version: "2.0" is not a version'),
        (("--scheduler-config", "absent.yaml"), "absent.yaml: No such file or directory"),
    ],
)
def test_what_is_wrong_with_kube_scheduler_is_said_with_its_place(monkeypatch, capsys, options, problem):
    assert failure(monkeypatch, capsys, "--example", "--pending", *options).startswith(f"extender: {problem}")


# --- json ---------------------------------------------------------------------------------------------------------


def test_json_is_what_the_python_api_says(world, arriving):
    shown = json.loads(run("--cluster", world, "--pod", arriving, "-o", "json").stdout)
    result = extender.simulate(load_cluster(world), [incoming("new")])
    assert shown == msgspec.to_builtins(result) | {"policies": "configured", "source": shown["source"]}
    assert shown["sentence"].startswith("default/new fits on n1; default/a is preempted")
    assert shown["source"]["files"][0]["path"] == str(world)


def test_json_of_two_policies_has_both_results(world, arriving):
    shown = json.loads(
        run("--cluster", world, "--pod", arriving, "-o", "json", "--compare", "upstream", "strict").stdout
    )
    assert shown["compared"] == ["upstream", "strict"]
    assert [one["summary"]["evicted"] for one in shown["results"]] == [1, 0]
    assert [one["pod"] for one in shown["differences"]] == ["default/new"]


def test_a_seed_is_drawn_from(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster({node(f"n{place}"): [] for place in range(9)}, waiting=[incoming("p")])))
    drawn = {
        json.loads(run("--cluster", path, "--pending", "--seed", seed, "-o", "json").stdout)["cycles"][0]["node"]
        for seed in range(6)
    }
    assert len(drawn) > 1


# --- what goes in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(incoming("new")), id="JSON"),
        pytest.param(yaml.safe_dump(incoming("new")), id="YAML"),
        pytest.param(json.dumps({"kind": "List", "items": [incoming("new")]}), id="a List"),
        pytest.param("---\n" + yaml.safe_dump(incoming("new")) + "---\n", id="YAML documents"),
    ],
)
def test_a_pod_is_read_from_stdin_as(world, text):
    assert "Successfully assigned default/new to n1" in events(lines("--cluster", world, "--pod", "-", stdin=text))[2]


def test_pods_of_several_files_arrive_together(world, arriving, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(incoming("other", cpu=None, priority=5000)))
    shown = lines("--cluster", world, "--pod", arriving, "--pod", other)
    assert [row[3] for row in events(shown)][:2] == ["pod/other", "pod/new"]


def test_a_dumped_cluster_is_read_again(tmp_path):
    path = tmp_path / "cluster.json.gz"
    write_file(encode_list(example_cluster()), path)
    dumped, example = lines("--cluster", path, "--pending"), lines("--example", "--pending")
    assert [line for line in dumped if "  cluster  " not in line] == [
        line for line in example if "  cluster  " not in line
    ]


def test_the_configuration_s_policies_and_cluster_are_taken(world, arriving, tmp_path):
    config = tmp_path / "extender.yaml"
    config.write_text(f"cluster: {{path: {world}}}\npreemption: {{disruptionBudgets: Strict}}\n")
    assert "0 preempted" in "".join(lines("--config", config, "--pod", arriving))
    assert "1 preempted" in "".join(lines("--config", config, "--pod", arriving, "--preset", "upstream"))
    shown = lines("--config", config, "--pod", arriving, "--compare", "configured", "upstream")
    assert table(shown, ["POD", "configured", "upstream"])[0][0] == "≠"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "pod.yaml: the file is empty", id="nothing"),
        pytest.param("kind: List\nitems: []", "pod.yaml: contains no pods and no workloads", id="no pod"),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
            "pod.yaml: contains no pods and no workloads; kinds that are not read: 'ConfigMap'",
            id="another kind",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}",
            "pod.yaml: DaemonSet web is invalid: spec.selector: Required value; spec.template.metadata.labels: Invalid "
            "value: {}: `selector` does not match template `labels`; spec.template.spec.containers: Required value",
            id="a DaemonSet that is not admitted",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: n1}",
            "pod.yaml, document 2: a Node is not a pod: use --add-node of extender simulate",
            id="a node beside a pod",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}\nspec: {priority: high}",
            'pod.yaml: Pod a is invalid: spec.priority: expected an integer, got "high"',
            id="a word for a number",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: none, containers: [{name: main}]}",
            "pod.yaml: Pod a is forbidden: no PriorityClass with name none was found",
            id="no such class",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}\nspec: {priority: 5, containers: [{name: main}]}",
            "pod.yaml: Pod a is forbidden: the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
            id="a priority without a class",
        ),
    ],
)
def test_a_pod_file_is_refused_with(world, arriving, monkeypatch, capsys, text, problem):
    arriving.write_text(text)
    assert failure(monkeypatch, capsys, "--cluster", world, "--pod", arriving) == f"extender: {problem}\n"


def test_what_is_wrong_with_stdin_is_said_of_stdin(monkeypatch, capsys, world):
    result = run("--cluster", world, "--pod", "-", stdin="kind: Node\nmetadata: {name: n1}")
    assert str(result.exception).startswith("standard input: a Node is not a pod")
    result = run("--cluster", world, "--pod", "-", stdin="kind: List\nitems: []")
    assert str(result.exception) == "standard input: contains no pods and no workloads"


def test_files_that_are_not_there_and_presets_that_nobody_knows_are_named(monkeypatch, capsys, world, arriving):
    assert (
        failure(monkeypatch, capsys, "--example", "--pod", "/none.yaml")
        == "extender: none.yaml: No such file or directory\n"
    )
    assert failure(monkeypatch, capsys, "--example", "--pending", "--preset", "stric").startswith(
        "extender: unknown preset 'stric' (did"
    )
    assert failure(monkeypatch, capsys, "--example", "--pending", "--compare", "upstream", "x").startswith(
        "extender: unknown preset 'x'"
    )
    assert "no such file" in failure(monkeypatch, capsys, "--pending", "--kubeconfig", "/none")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param([], "nothing to schedule", id="no pod"),
        pytest.param(
            ["--pending", "--preset", "strict", "--compare", "a", "b"], "--preset and --compare are", id="both"
        ),
        pytest.param(
            ["--pending", "--compare", "a", "b", "--compare-versions", "1.33", "1.36"],
            "--compare and --compare-versions are",
            id="two comparisons",
        ),
        pytest.param(
            ["--pending", "--scheduler-version", "1.33", "--compare-versions", "1.33", "1.36"],
            "--scheduler-version and --compare-versions are",
            id="a version and two",
        ),
        pytest.param(["--pending", "--cluster", "x", "--example"], "--example: cannot be", id="two clusters"),
        pytest.param(
            ["--pending", "--cluster", "x", "--context", "y"], "--cluster: cannot be", id="a file and a context"
        ),
        pytest.param(["--pending", "-o", "yaml"], "yaml", id="an output that is none"),
    ],
)
def test_options_that_do_not_go_together_end_with_exit_code_2(options, problem):
    result = run(*options)
    assert result.exit_code == 2
    assert problem in result.output


# --- the Python API -----------------------------------------------------------------------------------------------


def test_the_python_api_takes_what_evaluate_takes_and_changes_nothing():
    raw = cluster(WORLD)
    typed_cluster = load_cluster(raw)
    here = extender.Snapshot.build(typed_cluster)
    results = [extender.simulate(given, [incoming("new")]) for given in (raw, typed_cluster, here)]
    assert results[0] == results[1] == results[2]
    assert results[0].summary.evicted == 1
    assert [one.metadata.name for one in here.pods_on("n1")] == ["a"]


def test_the_python_api_places_pending_pods_by_a_scheduler_and_a_seed():
    raw = cluster({node(f"n{place}"): [] for place in range(9)}, waiting=[incoming("p")])
    seeded = extender.simulate(raw, pending=True, scheduler=KubeScheduler(), seed=5)
    assert seeded.seed == 5
    assert seeded.cycles[0].node != extender.simulate(raw, pending=True).cycles[0].node == "n0"


def test_a_pod_by_the_python_api_needs_no_namespace_and_no_uid():
    spec = {"containers": [{"name": "main"}]}
    result = extender.simulate(cluster(WORLD), [{"metadata": {"name": f"{one}-new"}, "spec": spec} for one in "ab"])
    assert [one.uid for one in result.cycles] == ["default/a-new", "default/b-new"]


# --- a live cluster -----------------------------------------------------------------------------------------------


def test_a_live_cluster_is_read_once_and_nothing_is_written_to_it(tmp_path, monkeypatch, arriving):
    forget_everything(monkeypatch, tmp_path)
    with FakeAPI() as api:
        for item in cluster(WORLD)["items"]:
            api.put(item["kind"], item)
        api.forbid("PersistentVolume")
        access = kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": api.url})
        result = run("--kubeconfig", access, "--pod", arriving)
        assert (result.exit_code, result.exception) == (0, None)
        assert {request.method for request in api.requests} == {"GET"}
    assert "Successfully assigned default/new to n1" in result.stdout
    assert "no permission to list PersistentVolume:" in result.stderr


def test_a_manifest_without_a_namespace_is_of_the_namespace_of_the_context(tmp_path, monkeypatch, world):
    forget_everything(monkeypatch, tmp_path)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": pod("alone")["spec"]}
    elsewhere = {**alone, "metadata": {"name": "elsewhere", "namespace": "batch"}}
    manifest = tmp_path / "new.yaml"
    manifest.write_text(yaml.safe_dump_all([alone, elsewhere, web]))
    context = {"name": "main", "context": {"cluster": "main", "user": "main", "namespace": "shop"}}
    with FakeAPI() as api:
        for item in cluster(WORLD)["items"]:
            api.put(item["kind"], item)
        access = kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": api.url}, contexts=[context])
        of_context = run("--kubeconfig", access, "--pod", manifest, "-o", "json")
    of_file = run("--cluster", world, "--pod", manifest, "-o", "json")
    for result, namespace in ((of_context, "shop"), (of_file, "default")):
        found = json.loads(result.stdout)
        assert [one["pod"] for one in found["cycles"][:2]] == [f"{namespace}/alone", "batch/elsewhere"]
        assert found["scenario"]["workloads"][0]["workload"] == f"Deployment {namespace}/web"


def test_the_version_of_a_live_cluster_is_that_of_its_kube_scheduler(tmp_path, monkeypatch, arriving):
    forget_everything(monkeypatch, tmp_path)
    labels, image = {"component": "kube-scheduler"}, "registry.example/kube-scheduler:v1.31.2"
    control = pod("kube-scheduler-cp", namespace="kube-system", labels=labels)
    control["spec"]["containers"][0] |= {"name": "kube-scheduler", "image": image}
    with FakeAPI() as api:
        for item in (*cluster(WORLD)["items"], {**control, "kind": "Pod"}):
            api.put(item["kind"], item)
        access = kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": api.url})
        result = run("--kubeconfig", access, "--pod", arriving, "-o", "json")
    found = json.loads(result.stdout)
    assert (found["version"], found["versionSource"]) == (
        "1.31",
        "image tag v1.31.2 of pod kube-system/kube-scheduler-cp",
    )


def test_a_live_cluster_that_does_not_answer_is_named(tmp_path, monkeypatch):
    forget_everything(monkeypatch, tmp_path)
    with FakeAPI() as gone:
        url = gone.url
    access = kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": url})
    result = run("--kubeconfig", access, "--pending")
    assert str(result.exception).startswith("cannot list ")
    assert str(result.exception).endswith(f"{url.removeprefix('http://')}: [Errno 111] Connection refused")


# --- the bar --------------------------------------------------------------------------------------------------------


def watched(world, after_seconds, tmp_path, *options):
    """stdout, and what a terminal on stderr shows, of a simulation of 50 pods; one is that of a Job."""
    pods = [incoming(f"p{place}", cpu="1m") for place in range(49)]
    spec = {"containers": [{"name": "main"}], "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": spec}}}
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": [*pods, job]}))
    code = f"from extender.cli.commands import simulate; simulate.PROGRESS_AFTER_SECONDS = {after_seconds}; "
    command = [sys.executable, "-c", code + "from extender.cli import main; main()", "simulate"]
    command += ["--cluster", str(world), "--pod", str(tmp_path / "pods.json"), *options]
    seen, terminal = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=env, text=True) as running:
        os.close(terminal)
        shown = running.stdout.read() if running.stdout else ""
    try:
        bar = os.read(seen, 100_000)
    except OSError:  # nothing was written, and nothing can be any more
        bar = b""
    os.close(seen)
    assert running.returncode == 0
    return shown, bar.decode()


def test_a_long_run_shows_its_progress_on_a_terminal_and_only_there(world, tmp_path):
    shown, bar = watched(world, 0, tmp_path, "--compare", "upstream", "strict")
    assert "simulating pods" in bar
    assert "100/100" in bar, "50 pods with each of the policies"
    assert "\x1b" not in shown
    assert "simulating pods" not in shown


@pytest.mark.slow
def test_a_short_run_shows_nothing(world, tmp_path):
    assert watched(world, 3600, tmp_path)[1] == ""
