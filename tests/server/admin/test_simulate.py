"""What would happen if: questions in JSON, answers as plain values, and what is wrong with a question."""

import json

import msgspec
import pytest

from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler, Limits, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.time import MINUTE
from extender.report.simulation_schema import Simulation
from extender.server.admin import fork_worker, simulate
from extender.server.admin.simulate import MAX_SIMULATED_PODS
from extender.whatif.policies import SimulatedPolicy, run_simulation
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import SimulationProgress
from tests.builders import JSON, budget, cluster, incoming, node, pod, stored_cluster, typed
from tests.device_builders import claim, device_class, devices, request, resource_slice, using_claims

WORLD = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=500)]}
BUDGETS = [budget(app="a"), budget("other", app="b")]

SPEC: JSON = {"containers": [{"name": "main"}]}
"""Spec of a pod as a person writes it."""

STRICT = {"disruptionBudgets": "Strict"}


def asked(body, nodes=None, base=None, history=None, **objects):
    here = stored_cluster(cluster(nodes or WORLD, **objects))
    result = simulate.simulate_request(here, KubeScheduler((base or Profile(),)), json.dumps(body).encode(), history)
    return msgspec.to_builtins(result)


def outcomes(result):
    return [(one["pod"], one["outcome"], one["node"]) for one in result["cycles"]]


def refusal(body, **objects):
    with pytest.raises(RequestError) as refused:
        asked(body, **objects)
    return str(refused.value)


# --- answers ------------------------------------------------------------------------------------------------------


ONE_OR_TWO = pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param(
            {"compare": ["upstream", "strict"]},
            marks=pytest.mark.skipif(not fork_worker.IS_FORK_SUPPORTED, reason="the first runs in a forked child"),
        ),
    ],
)


@ONE_OR_TWO
def test_a_snapshot_gives_the_answer_of_its_objects(options):
    """The child process simulates on its own copy of the snapshot, without reading all objects of a large cluster."""
    objects = stored_cluster(cluster(WORLD, budgets=BUDGETS, waiting=[incoming("waiting")]))
    body = json.dumps({"pods": [incoming("new"), incoming("other")], "pending": True} | options).encode()
    history = EvictionHistory(0)
    expected = simulate.simulate_request(objects, KubeScheduler(), body, history)
    assert simulate.simulate_request(Snapshot.build(objects), KubeScheduler(), body, history) == expected


@ONE_OR_TWO
def test_the_progress_counts_each_pod_once_with_each_policy(options):
    """Also what the child process simulates, and a pod that is tried twice."""
    here = Snapshot.build(stored_cluster(cluster(WORLD, waiting=[incoming("waiting")])))
    progress = SimulationProgress()
    body = json.dumps({"pods": [incoming("new"), incoming("other")], "pending": True} | options).encode()
    simulate.simulate_request(here, KubeScheduler(), body, progress=progress)
    assert progress.tried == progress.pods
    assert progress.pods % (6 if options else 3) == 0


def test_evicted_pods_that_come_back_are_to_be_tried_once_they_are_evicted():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    nodes = {node("n1", cpu="2"): [pod("a", metadata={"ownerReferences": [owner]}), pod("lost")]}
    here = Snapshot.build(stored_cluster(cluster(nodes)))
    progress, seen = SimulationProgress(), list[tuple[int, int]]()
    scenario = Scenario([typed(incoming("new", cpu="2", priority=1000))])
    progress.begin(scenario, here, 1)

    def watch(step):
        progress.count(step)
        seen.append((progress.tried, progress.pods))

    run_simulation(here, SimulatedPolicy("", KubeScheduler()), scenario, EvictionHistory(0), watch)
    assert seen == [(1, 2), (2, 2), (2, 2)]


def test_how_many_copies_will_fit_is_not_known_but_how_many_were_tried():
    progress = SimulationProgress()
    body = json.dumps({"pods": [incoming("new", cpu="1m")], "untilFull": True}).encode()
    found = simulate.simulate_request(stored_cluster(cluster(WORLD)), KubeScheduler(), body, progress=progress)
    assert isinstance(found, Simulation)
    assert found.scenario is not None
    assert found.scenario.until_full is not None
    assert (progress.tried, progress.pods) == (found.scenario.until_full.fits + 1, 0)


@ONE_OR_TWO
def test_a_snapshot_gives_the_error_of_its_objects(options):
    body = json.dumps({"pods": [incoming("new"), incoming("new")]} | options).encode()
    with pytest.raises(RequestError, match="duplicate pod 'default/new'"):
        simulate.simulate_request(Snapshot.build(stored_cluster(cluster(WORLD))), KubeScheduler(), body)


def test_the_result_is_plain_values():
    result = asked({"pod": incoming("new")})
    assert outcomes(result) == [("default/new", "Nominated", None), ("default/new", "Scheduled", "n1")]
    assert result["cycles"][0]["postFilter"] == {
        "code": "Success",
        "reasons": ["preemption: found a potential placement for pod on node n1, preempting 1 victims"],
    }
    assert result["evicted"] == [
        {
            "pod": "default/a",
            "uid": "uid-a",
            "priority": 0,
            "node": "n1",
            "budgets": [],
            "preemptor": "default/new",
            "terminating": False,
        }
    ]
    assert (result["cluster"], result["policies"], result["seed"]) == ({"nodes": 2, "pods": 2}, "configured", None)
    assert json.loads(json.dumps(result)) == result


def test_several_pods_and_those_that_wait_are_placed_in_the_order_of_the_queue():
    body = {"pods": [incoming("x", cpu="100m", priority=1), incoming("y", cpu="100m", priority=3)], "pending": True}
    roomy: dict = {node("n1"): []}
    result = asked(body, roomy, waiting=[incoming("w", cpu="100m", priority=2)])
    assert [one["pod"] for one in result["cycles"]] == ["default/y", "default/w", "default/x"]


def test_the_cluster_that_is_asked_about_does_not_change():
    objects = stored_cluster(cluster(WORLD, budgets=BUDGETS))
    before = ClusterObjects(**{name: getattr(objects, name) for name in objects.__struct_fields__})
    simulate.simulate_request(objects, KubeScheduler(), json.dumps({"pod": incoming("new")}).encode())
    assert objects == before


def test_the_policies_are_those_in_effect_unless_the_question_names_others():
    strict = Profile(preemption=PreemptionPolicy(disruption_budgets="Strict"))
    question = {"pod": incoming("new")}

    def evicted(body, base):
        return asked(body, base=base, budgets=BUDGETS)["summary"]["evicted"]

    assert evicted(question, strict) == 0
    assert evicted(question | {"preset": "upstream"}, strict) == 1
    assert evicted(question | {"preset": "configured"}, strict) == 0
    assert evicted(question, Profile()) == 1
    assert evicted(question | {"preset": "strict"}, Profile()) == 0
    assert evicted(question | {"preemption": STRICT}, Profile()) == 0
    assert evicted(question | {"preemption": {"keepCandidates": 1}, "preset": "strict"}, Profile()) == 0
    assert evicted(question | {"preemption": {"disruptionBudgets": "BestEffort"}, "preset": "strict"}, strict) == 1


def test_other_policies_leave_filters_and_scores_as_they_are_configured():
    without_cpu = Profile(filter_plugins=("NodeUnschedulable",))
    assert outcomes(asked({"pod": incoming("new"), "preset": "strict"}, base=without_cpu))[0][1] == "Scheduled"


def test_of_a_seed_equal_nodes_are_drawn():
    roomy: dict = {node(f"n{place}"): [] for place in range(9)}
    drawn = {asked({"pod": incoming("new"), "seed": seed}, roomy)["cycles"][0]["node"] for seed in range(12)}
    assert len(drawn) > 2
    assert asked({"pod": incoming("new"), "seed": 3}, roomy) == asked({"pod": incoming("new"), "seed": 3}, roomy)


def test_the_moment_is_the_given_one_or_now():
    base = Profile(preemption=PreemptionPolicy(min_pending_duration=MINUTE))
    young = {"pod": incoming("new", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})}
    assert asked(young, base=base)["summary"]["evicted"] == 1
    then = EvictionHistory(1_767_225_600 * 10**9 + MINUTE - 1)
    assert asked(young, base=base, history=then)["pending"][0]["vetoed"].startswith("pending for less than")


# --- two policies -------------------------------------------------------------------------------------------------


def test_two_policies_are_compared_pod_by_pod():
    question = {"pods": [incoming("new"), incoming("small", cpu="1m", priority=1)], "compare": ["upstream", "strict"]}
    result = asked(question, {node("n1", cpu="1001m"): [pod("a")]}, budgets=BUDGETS)
    assert result["compared"] == ["upstream", "strict"]
    assert [one["policies"] for one in result["results"]] == ["upstream", "strict"]
    (difference,) = result["differences"]
    assert difference["pod"] == "default/new"
    upstream, strict = difference["outcomes"]
    assert (upstream["outcome"], upstream["node"], upstream["evicts"], upstream["numPDBViolations"]) == (
        "Scheduled",
        "n1",
        ["default/a"],
        1,
    )
    assert (strict["outcome"], strict["node"], strict["evicts"], strict["numPDBViolations"]) == (
        "Unschedulable",
        None,
        [],
        0,
    )
    assert strict["vetoed"] == "1 node: would break disruption budget default/budget"


def test_the_configured_policies_may_be_one_of_them():
    base = Profile(preemption=PreemptionPolicy(limits=Limits(max_victims=1)))
    result = asked({"pod": incoming("new"), "compare": ["configured", "upstream"]}, base=base)
    assert result["compared"] == ["configured", "upstream"]
    assert result["differences"] == []


# --- scenarios ----------------------------------------------------------------------------------------------------

OWNER: JSON = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
OWNED = {node("n1", cpu="1"): [pod("web-abcde", metadata={"ownerReferences": [OWNER]})], node("n2", cpu="2"): []}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
DEPLOYMENT: JSON = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
}
MANY: JSON = DEPLOYMENT["spec"] | {"replicas": 1001}


def test_a_scenario_is_in_the_answer():
    added = {"node": {"metadata": {"name": "new"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}, "count": 2}
    body = {"drain": ["n1"], "cordon": ["n2"], "addNodes": [added], "workloads": [DEPLOYMENT]}
    result = asked(body, OWNED)
    scenario = result["scenario"]
    assert (scenario["added"], scenario["cordoned"], scenario["removed"]) == (["new-1", "new-2"], ["n2"], [])
    assert scenario["drained"] == [
        {"node": "n1", "evicted": ["default/web-abcde"], "ignored": [], "blocked": [], "lost": []}
    ]
    (workload,) = scenario["workloads"]
    assert (workload["workload"], workload["existing"], len(workload["created"])) == ("Deployment default/x", 0, 2)
    assert (scenario["untilFull"], scenario["gang"]) == (None, None)
    assert result["replacements"] == [
        {
            "pod": "default/web-bbbbb",
            "of": "default/web-abcde",
            "cause": "Drained",
            "oldNode": "n1",
            "outcome": "Scheduled",
            "node": "new-1",
            "message": "",
        }
    ]
    assert {one["name"]: one["state"] for one in result["summary"]["nodes"]} == {
        "n1": "drained",
        "n2": "cordoned",
        "new-1": "added",
        "new-2": "added",
    }
    assert asked(body | {"replaceEvicted": False}, OWNED)["replacements"] == []


def test_until_full_and_gang_are_in_the_answer():
    full = asked({"pod": incoming("new"), "untilFull": True, "removeNodes": ["n2"]}, OWNED)["scenario"]["untilFull"]
    assert (full["fits"], full["nodes"], full["next"]["pod"], full["limitReached"]) == (0, [], "default/new-1", False)
    gang = asked({"pods": [incoming("a"), incoming("b", cpu="9")], "gang": True}, OWNED)["scenario"]["gang"]
    assert (gang["scheduled"], gang["pods"]) == (False, 2)
    assert asked({"pod": incoming("new")})["scenario"] is None


@ONE_OR_TWO
def test_a_snapshot_gives_the_scenario_of_its_objects(options):
    objects = stored_cluster(cluster(OWNED))
    body = json.dumps({"drain": ["n1"], "workloads": [DEPLOYMENT]} | options).encode()
    expected = simulate.simulate_request(objects, KubeScheduler(), body, EvictionHistory(0))
    assert simulate.simulate_request(Snapshot.build(objects), KubeScheduler(), body, EvictionHistory(0)) == expected


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"drain": "n1"}, "invalid body: expected array, got str at $.drain"),
        ({"drain": [1]}, "invalid body: expected str, got int at $.drain[0]"),
        ({"drain": ["nx"]}, "drain: no node 'nx' in the cluster"),
        ({"addNodes": [{"node": 7}]}, "added node 1 of the request: expected an object with metadata and spec"),
        ({"addNodes": [{"node": {"kind": "Pod"}}]}, "added node 1 of the request: expected a Node with metadata and "),
        ({"addNodes": [{"node": {"metadata": {"name": "x"}}}]}, "addNodes: node 'x': status.allocatable is missing"),
        ({"addNodes": [{"node": {}, "count": 0}]}, "invalid body: expected int >= 1 at $.addNodes[0].count"),
        ({"addNodes": [{"node": {"metadata": {"name": "x"}}, "count": 1001}]}, "1001 added nodes exceed the limit of"),
        ({"workloads": [DEPLOYMENT, 7]}, "workload 2 of the request: expected an object with metadata and spec"),
        ({"workloads": [DEPLOYMENT, {}]}, "workload 2 of the request: an object without kind is not one of"),
        (
            {"workloads": [DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replicas": 2**31 - 1}}]},
            "2147483647 pods exceed the limit of 1000 per request",
        ),
        (
            {"workloads": [DEPLOYMENT | {"metadata": {"generateName": "x-"}, "spec": MANY}]},
            "1001 pods exceed the limit of 1000 per request",
        ),
        (
            {"workloads": [DEPLOYMENT | {"metadata": {"name": "x", "generation": None}, "spec": MANY}]},
            "1001 pods exceed the limit of 1000 per request",
        ),
        (
            {"workloads": [{"kind": "CronJob", "metadata": {"name": "x"}, "spec": "y"}]},
            "workload 1 of the request: Cro",
        ),
        (
            {"workloads": [{"kind": "Job", "metadata": {"name": "x"}, "spec": {"parallelism": 0}}] * 1001},
            "1001 workloads exceed the limit of 1000 per request",
        ),
        ({"pending": True, "untilFull": True}, "untilFull: requires exactly one pod or one workload"),
    ],
)
def test_a_scenario_is_refused_that_is(body, problem):
    assert refusal(body).startswith(problem)


def test_the_pods_of_drained_and_removed_nodes_are_limited(monkeypatch):
    monkeypatch.setattr(simulate, "MAX_DISPLACED_PODS", 1)
    body = {"drain": ["n1"], "removeNodes": ["n2"]}
    problem = "2 pods on removed and drained nodes exceed the limit of 1 per request"
    assert refusal(body) == problem
    with pytest.raises(RequestError, match=problem):
        simulate.simulate_request(
            Snapshot.build(stored_cluster(cluster(WORLD))), KubeScheduler(), json.dumps(body).encode()
        )


# --- questions that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            {},
            "nothing to schedule: specify `pod`, `pods`, `workloads`, `pending: true` or a change of nodes",
            id="nothing",
        ),
        pytest.param([], "invalid body: expected object, got array", id="a list"),
        pytest.param({"pendin": True}, "invalid body: object contains unknown field pendin", id="a typo"),
        pytest.param({"pending": 1}, "invalid body: expected bool, got int at $.pending", id="not a boolean"),
        pytest.param({"pod": {}, "pods": [{}]}, "specify `pod` or `pods`, not both", id="one pod and several"),
        pytest.param(
            {"pod": 5}, "pod 1 of the request: expected an object with metadata and spec", id="a number for a pod"
        ),
        pytest.param({"pod": {"spec": {}}}, "pod 1 of the request: ", id="a pod without metadata"),
        pytest.param(
            {"pods": [{"metadata": {"name": "a"}}, {"kind": "Job", "metadata": {"name": "b"}}]},
            "pod 2 of the request: 'Job' is not a Pod: put it into `workloads`",
            id="a workload",
        ),
        pytest.param(
            {"pod": {"metadata": {"name": "x"}, "spec": {"priority": "high"}}},
            'pod 1 of the request: Pod x is invalid: spec.priority: expected an integer, got "high"',
            id="a word for a number",
        ),
        pytest.param(
            {"pod": incoming("x", cpu="many")},
            "pod 1 of the request: Pod default/x: 'many' is not a quantity: it must be a number with at most one "
            "suffix, such as 2, 500m, 1.5Gi or 1e3 at $.spec.containers[0].resources.requests.cpu",
            id="no quantity",
        ),
        pytest.param(
            {"pods": [incoming("x"), incoming("x")]},
            "pod 2 of the request: duplicate pod 'default/x'",
            id="two pods of a name",
        ),
        pytest.param(
            {"pod": {"metadata": {"name": "x"}, "spec": SPEC | {"priorityClassName": "none"}}},
            "pod 1 of the request: Pod x is forbidden: no PriorityClass with name none was found",
            id="no such class",
        ),
        pytest.param(
            {"pod": {"metadata": {"name": "x"}, "spec": SPEC | {"priority": 5}}},
            "pod 1 of the request: Pod x is forbidden: the integer value of priority (5) must not be provided",
            id="a priority without a class",
        ),
        pytest.param(
            {"pod": incoming("x") | {"spec": {"priorityClassName": [5]}}},
            "pod 1 of the request: Pod default/x: expected str, got array at $.spec.priorityClassName",
            id="a stored pod with a list for a class",
        ),
        pytest.param(
            {"pod": incoming("x") | {"spec": None}},
            "pod 1 of the request: Pod default/x: expected object, got null at $.spec",
            id="a stored pod with null for a spec",
        ),
        pytest.param(
            {"pod": {"metadata": {"name": "x"}}},
            "pod 1 of the request: Pod x is invalid: spec.containers: Required value",
            id="no containers",
        ),
        pytest.param(
            {"pending": True, "preset": "stric"},
            "unknown preset 'stric' (did you mean strict?): available: upstream, careful, strict, configured",
            id="no such preset",
        ),
        pytest.param(
            {"pending": True, "preemption": {"keepCandidate": 2}},
            "body: preemption.keepCandidate: unknown key (did you mean keepCandidates?)",
            id="an unknown key of preemption",
        ),
        pytest.param(
            {"pending": True, "preemption": {"keepCandidates": 3}, "preset": "strict"},
            "body: preemption: keepCandidates must be 1 with budgetAccounting: Live, "
            "limits.workloadCooldown (preset strict): "
            "if several nodes are sent, kube-scheduler chooses one itself, and the evicted pods are unknown here",
            id="policies that do not go together",
        ),
        pytest.param(
            {"pending": True, "compare": ["upstream"]},
            "invalid body: expected array of length 2 at $.compare",
            id="one policy to compare",
        ),
        pytest.param(
            {"pending": True, "compare": ["upstream", "strict"], "preset": "strict"},
            "`compare` names both policies: omit `preset` and `preemption`",
            id="compare and preset",
        ),
        pytest.param({"pending": True, "seed": "x"}, "invalid body: expected int | null", id="no seed"),
    ],
)
def test_a_question_is_refused_that_is(body, problem):
    assert refusal(body).startswith(problem)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{}{}", b"[" * 100_000])
def test_what_is_no_json_is_refused(body):
    with pytest.raises(RequestError, match="invalid body"):
        simulate.simulate_request(stored_cluster(cluster(WORLD)), KubeScheduler(), body)


def test_more_pods_than_a_request_may_place_are_refused():
    pods = [{"metadata": {"name": f"p{number}"}} for number in range(MAX_SIMULATED_PODS + 1)]
    assert (
        refusal({"pods": pods}) == f"{MAX_SIMULATED_PODS + 1} pods exceed the limit of {MAX_SIMULATED_PODS} per request"
    )
    waiting = [incoming(f"p{number}") for number in range(MAX_SIMULATED_PODS)]
    problem = refusal({"pod": incoming("one"), "pending": True}, waiting=waiting)
    assert problem == f"{MAX_SIMULATED_PODS + 1} pods exceed the limit of {MAX_SIMULATED_PODS} per request"


def test_a_cluster_that_cannot_be_read_is_not_the_question_s_fault():
    objects = ClusterObjects(
        pods=(typed(pod("a", cpu="x", nodeName="n1")),), nodes=stored_cluster(cluster(WORLD)).nodes
    )
    with pytest.raises(ClusterFileError):
        simulate.simulate_request(objects, KubeScheduler(), json.dumps({"pending": True}).encode())


# --- resource claims ----------------------------------------------------------------------------------------------

CLAIM: JSON = claim("mine", request())


def test_claims_come_with_their_pods():
    others = [device_class(), resource_slice("s", "n1", devices(1))]
    body = {"pod": incoming("a", **using_claims("mine")), "claims": [CLAIM]}
    (cycle,) = asked(body, {node("n1"): []}, others=others)["cycles"]
    assert [(one["claim"], one["allocation"]) for one in cycle["claims"]] == [("default/mine", "new")]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param([7], "claim 1 of the request: expected an object with metadata and spec", id="no object"),
        pytest.param(
            [CLAIM | {"apiVersion": "foo/v1"}],
            "claim 1 of the request: expected a ResourceClaim, or another object that pods need, not foo/v1 ",
            id="another API",
        ),
        pytest.param(
            [CLAIM, {"kind": "Pod"}],
            "claim 2 of the request: expected a ResourceClaim, or another object that pods need, not Pod",
            id="pod",
        ),
        pytest.param(
            [{"metadata": {"name": "x"}, "spec": {"devices": 7}}], "claim 1 of the request: ResourceClaim x", id="spec"
        ),
        pytest.param([CLAIM] * 1001, "1001 claims exceed the limit of 1000 per request", id="too many"),
    ],
)
def test_claims_that_cannot_be_read_are_refused(given, problem):
    assert refusal({"pod": incoming("a"), "claims": given}).startswith(problem)
