"""What may be configured, and that every mistake is named with key and line."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.config import Configuration, load_config, render
from extender.config.decoding import Section
from extender.config.preemption import BuiltinProtectionsSection, LabelSelectorSection, ProtectionRule
from extender.config.scheduler.load import load_kube_scheduler
from extender.core.profile import (
    UPSTREAM,
    KubeScheduler,
    Limits,
    PreemptionPolicy,
    Profile,
    Protection,
    ScoringStrategy,
)
from extender.errors import ConfigError
from extender.k8s.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from extender.k8s.selectors import compile_label_selector
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.k8s.well_known import EVICTION_COST


@pytest.fixture
def load(tmp_path):
    """Load a configuration from text; its file is called `c.yaml` in messages."""

    def load(text="", env=None, overrides=None):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        try:
            return load_config(path, env or {}, overrides)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), "c.yaml")) from error

    return load


def sections(of=Section):
    for section in of.__subclasses__():
        yield section
        yield from sections(section)


# --- defaults -------------------------------------------------------------------------------------------------------


def test_without_a_file_everything_is_default():
    assert load_config(None, {}) == Configuration()


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "{}", "server:\n", "cluster: {path: null}", "\ufeffkind: ExtenderConfiguration"]
)
def test_an_empty_file_and_empty_sections_are_defaults(load, text):
    assert load(text) == Configuration()


def test_the_defaults_decide_as_an_unconfigured_kube_scheduler():
    upstream = replace(UPSTREAM, scheduler_names=frozenset({"default-scheduler"}))
    assert load_kube_scheduler(Configuration()) == KubeScheduler((upstream,))


def test_the_default_cluster_is_the_example_and_the_default_address_is_this_machine():
    config = Configuration()
    assert (config.cluster.path, config.cluster.reload_interval) == (None, 2.0)
    assert (config.server.host, config.server.port, config.server.keep_alive) == ("127.0.0.1", 8888, 120.0)
    assert (config.server.max_node_names_body_bytes, config.server.max_body_bytes) == (2 * 2**20, 128 * 2**20)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        setattr(Configuration().server, "port", 1)  # noqa: B010, what mypy would not let pass


# --- the whole file -------------------------------------------------------------------------------------------------

FULL = """
apiVersion: extender/v1alpha1
kind: ExtenderConfiguration
cluster: {source: files, path: /etc/cluster.json, reloadInterval: 1m30s}
preemption:
  disruptionBudgets: Strict
  emptySelector: Everything
  candidates: AllNodes
  keepCandidates: All
  importance: [Priority, EvictionCost]
  ranking: [Workloads, PDBViolations]
  evictionCostAnnotation: Example.com/Cost
  protections:
    builtin:
      daemonSets: true
      systemPods: true
      preemptionToleration: true
      tenantLabel: example.com/tenant
      optOutAnnotations: [descheduler, karpenter, example.com/keep, example.com/keep=a=b, example.com/keep=]
    rules:
    - name: databases
      namespaces: [shop]
      selector: {matchLabels: {tier: db}, matchExpressions: [{key: app, operator: NotIn, values: [a]}]}
      priorityClasses: [high]
      ownerKinds: [StatefulSet]
      annotations: [example.com/keep]
      minRuntime: 1m
      unlessPriorityAtLeast: 0
    - name: everybody
  minPendingDuration: 1.5s
  limits: {maxVictims: 3, attemptsWithin: 1m}
killSwitch: {enabled: true, preempt: PassThrough}
mode: Observe
scheduler:
  version: "1.37"
  featureGates: {TaintTolerationComparisonOperators: true}
  percentageOfNodesToScore: 30
  profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        disabled: [{name: "*"}]
        enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: DefaultPreemption}]
      filter: {enabled: [{name: NodeResourcesFit}, {name: NodeAffinity}, {name: NodeName}]}
      score:
        enabled: [{name: NodeResourcesFit, weight: 5}, {name: NodeResourcesBalancedAllocation}, {name: TaintToleration}]
    pluginConfig:
    - name: NodeResourcesFit
      args:
        ignoredResources: [example.com/device]
        ignoredResourceGroups: [example.org]
        scoringStrategy:
          type: RequestedToCapacityRatio
          resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu}]
          requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
    - name: NodeResourcesBalancedAllocation
      args: {resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 1}]}
    - name: NodeAffinity
      args:
        addedAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 10
            preference: {matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}
  - schedulerName: other
    percentageOfNodesToScore: 100
server: {host: 0.0.0.0, allowPlainHTTP: true, port: 0, keepAlive: 500ms, maxNodeNamesBodyBytes: 1Ki, maxBodyBytes: 7}
"""


DAEMON_SETS = Protection("daemonSets", owner_kinds=frozenset({"DaemonSet"}))
MIRROR_PODS = Protection("mirrorPods", annotations=(("kubernetes.io/config.mirror", None),))
SYSTEM_PODS = (
    Protection("systemPods", namespaces=frozenset({"kube-system"})),
    Protection("systemPods", priority_classes=frozenset({"system-cluster-critical", "system-node-critical"})),
)
OWN_PODS = Protection(
    "ownPods",
    selector=compile_label_selector(LabelSelector({"app.kubernetes.io/name": "kube-scheduler-extender"})),
)
OPTED_OUT = Protection(
    "optOutAnnotations",
    annotations=(
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", None),
        ("karpenter.sh/do-not-disrupt", "true"),
        ("example.com/keep", None),
        ("example.com/keep", "a=b"),
        ("example.com/keep", ""),
    ),
)
DATABASES = Protection(
    "databases",
    namespaces=frozenset({"shop"}),
    selector=compile_label_selector(
        LabelSelector({"tier": "db"}, [LabelSelectorRequirement("app", "NotIn", ["a"])]),
    ),
    priority_classes=frozenset({"high"}),
    owner_kinds=frozenset({"StatefulSet"}),
    annotations=(("example.com/keep", None),),
    min_runtime=60 * 10**9,
    unless_priority_at_least=0,
)


SHARED = ("keep_candidates", "scheduler_names", "ungated_scheduler_names", "preemption")
"""Fields that are the same in all profiles."""


def test_the_profile_holds_every_choice_about_decisions(load):
    scheduler = load_kube_scheduler(load(FULL))
    assert scheduler.profiles[0] == Profile(
        pre_enqueue_plugins=("DefaultPreemption",),
        prefilter_plugins=(),
        filter_plugins=("NodeResourcesFit", "NodeAffinity", "NodeName"),
        post_filter_plugins=("DefaultPreemption",),
        prescore_plugins=(),
        score_weights=(("NodeResourcesFit", 5), ("NodeResourcesBalancedAllocation", 1), ("TaintToleration", 1)),
        fit_strategy=ScoringStrategy(
            type="RequestedToCapacityRatio",
            resources=(("cpu", 3), ("nvidia.com/gpu", 1)),
            shape=((0, 0), (100, 10)),
        ),
        balanced_resources=("cpu", "nvidia.com/gpu"),
        ignored_resources=frozenset({"example.com/device"}),
        ignored_resource_groups=frozenset({"example.org"}),
        added_affinity=NodeAffinity(
            required=NodeSelector(
                [
                    NodeSelectorTerm(
                        match_expressions=[NodeSelectorRequirement("zone", "In", ["a", "b"])], match_fields=[]
                    )
                ]
            ),
            preferred=[
                PreferredSchedulingTerm(
                    10,
                    NodeSelectorTerm(
                        match_expressions=[], match_fields=[NodeSelectorRequirement("metadata.name", "NotIn", ["n1"])]
                    ),
                )
            ],
        ),
        keep_candidates=None,
        percentage_of_nodes_to_score=30,
        scheduler_names=frozenset({"default-scheduler", "other"}),
        ungated_scheduler_names=frozenset({"default-scheduler"}),
        preemption=PreemptionPolicy(
            disruption_budgets="Strict",
            empty_selector="Everything",
            candidates="AllNodes",
            importance=("Priority", "EvictionCost"),
            ranking=("Workloads", "PDBViolations"),
            eviction_cost_annotation="Example.com/Cost",
            protections=(DAEMON_SETS, *SYSTEM_PODS, OPTED_OUT, DATABASES, Protection("everybody")),
            preemption_toleration=True,
            tenant_label="example.com/tenant",
            min_pending_duration=1_500_000_000,
            limits=Limits(max_victims=3, attempts_within=60 * 10**9),
        ),
    )
    assert scheduler.profiles[1] == replace(
        UPSTREAM,
        scheduler_name="other",
        percentage_of_nodes_to_score=100,
        **{name: getattr(scheduler.profiles[0], name) for name in SHARED},
    )
    assert (scheduler.minor, scheduler.version_source) == (37, "configured")
    assert scheduler.features == replace(DEFAULT_FEATURES, taint_toleration_comparison_operators=True)


def test_the_rest_of_the_file_is_read_too(load):
    config = load(FULL)
    assert (config.cluster.path, config.cluster.reload_interval) == ("/etc/cluster.json", 90.0)
    assert config.preemption.on_failure == "Veto"
    assert (config.mode, config.kill_switch.enabled, config.kill_switch.preempt) == ("Observe", True, "PassThrough")
    assert config.server.model_dump(by_alias=False) == {
        "host": "0.0.0.0",
        "port": 0,
        "allow_plain_http": True,
        "keep_alive": "500ms",
        "max_node_names_body_bytes": "1Ki",
        "max_body_bytes": 7,
        "tls": {"certificate": None, "key": None, "client_ca": None, "allowed_names": []},
        "http_timeout": "5s",
        "max_in_flight": 100,
        "drain_time": "10s",
    }


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1.5s", 1.5), ("0s", 0), ("0", 0)]
)
def test_durations_are_written_as_in_go(load, text, seconds):
    if text == "0":
        text = "'0'"
    assert load(f"cluster: {{reloadInterval: {text}}}").cluster.reload_interval == seconds


@pytest.mark.parametrize("hours", [2562048, int("9" * 400)])
def test_no_duration_is_longer_than_go_can_hold(load, hours):
    with pytest.raises(ConfigError, match=r"preemption\.minPendingDuration: must be shorter than 292 years"):
        load(f"preemption: {{minPendingDuration: {hours}h}}")


# --- presets --------------------------------------------------------------------------------------------------------

BUILT_IN = (DAEMON_SETS, MIRROR_PODS, *SYSTEM_PODS, OWN_PODS)
CAREFUL = PreemptionPolicy(
    disruption_budgets="Strict",
    budget_accounting="Live",
    protections=BUILT_IN,
    limits=Limits(workload_cooldown=300 * 10**9),
)

PRESETS = {
    "1 none": ("{}", PreemptionPolicy(), "Error"),
    "2 upstream": ("preset: upstream", PreemptionPolicy(), "Error"),
    "3 careful": ("preset: careful", CAREFUL, "Veto"),
    "4 strict": ("preset: strict", replace(CAREFUL, candidates="AllNodes"), "Veto"),
    "5 upstream and a key": (
        "{preset: upstream, disruptionBudgets: Strict}",
        PreemptionPolicy(disruption_budgets="Strict"),
        "Veto",
    ),
    "6 a key without a preset": ("disruptionBudgets: Strict", PreemptionPolicy(disruption_budgets="Strict"), "Veto"),
    "7 a key is over the preset": (
        "{preset: careful, disruptionBudgets: BestEffort}",
        replace(CAREFUL, disruption_budgets="BestEffort"),
        "Error",
    ),
    "8 a key of a mapping is over the preset, the others stay": (
        (
            "{preset: careful, limits: {maxVictims: 2}, "
            "protections: {builtin: {daemonSets: false, mirrorPods: false, ownPods: false}}}"
        ),
        replace(CAREFUL, protections=SYSTEM_PODS, limits=Limits(max_victims=2, workload_cooldown=300 * 10**9)),
        "Veto",
    ),
    "9 null is not given": ("{preset: careful, protections: null, limits: {workloadCooldown: null}}", CAREFUL, "Veto"),
    "10 a null preset": ("{preset: null}", PreemptionPolicy(), "Error"),
    "11 nothing is over something": (
        "{preset: careful, limits: {workloadCooldown: 0s}}",
        replace(CAREFUL, limits=Limits()),
        "Veto",
    ),
    "12 the failure rule is a key like others": ("{preset: strict, onFailure: Error}", None, "Error"),
    "13 as it is without Strict budgets": (
        "{preset: strict, disruptionBudgets: BestEffort}",
        replace(CAREFUL, disruption_budgets="BestEffort", candidates="AllNodes"),
        "Veto",
    ),
}


@pytest.mark.parametrize(("text", "policy", "on_failure"), PRESETS.values(), ids=PRESETS)
def test_a_preset_is_what_keys_default_to(load, text, policy, on_failure):
    text = text if text.startswith("{") else f"{{{text}}}"
    config = load(f"preemption: {text}")
    assert config.preemption.on_failure == on_failure
    assert config.preemption.policy() == (policy or replace(CAREFUL, candidates="AllNodes"))
    assert load(render(config)) == config


def test_a_preset_is_the_same_from_the_environment_and_under_its_keys():
    env = {"EXTENDER_PREEMPTION__PRESET": "careful", "EXTENDER_PREEMPTION__LIMITS__WORKLOAD_COOLDOWN": "1s"}
    config = load_config(None, env)
    assert config.preemption.policy() == replace(CAREFUL, limits=Limits(workload_cooldown=10**9))


@pytest.mark.parametrize("preset", ["upstream", "careful", "strict"])
def test_a_preset_needs_nothing_else(load, preset):
    assert load(f"preemption: {{preset: {preset}}}").preemption.preset == preset


@pytest.mark.parametrize(
    ("word", "pair"),
    [
        ("karpenter", ("karpenter.sh/do-not-disrupt", "true")),
        ("cluster-autoscaler", ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")),
        ("descheduler", ("descheduler.alpha.kubernetes.io/prefer-no-eviction", None)),
    ],
)
def test_opting_out_of_other_components_is_a_word(load, word, pair):
    (rule,) = (
        load(f"preemption: {{protections: {{builtin: {{optOutAnnotations: [{word}]}}}}}}")
        .preemption.policy()
        .protections
    )
    assert rule.annotations == (pair,)


# --- mistakes -------------------------------------------------------------------------------------------------------

MISTAKES = {
    "an unknown key": ("server:\n  prot: 1", "c.yaml:2: server.prot: unknown key (did you mean port?)"),
    "an unknown section": ("\nsrever: {}", "c.yaml:2: srever: unknown key (did you mean server?)"),
    "a key that is like no other": ("zzz: 1", "c.yaml:1: zzz: unknown key"),
    "an unknown key without a value": ("server:\n  zzz:", "c.yaml:2: server.zzz: unknown key"),
    "snake case": ("server:\n  keep_alive: 1s", "c.yaml:2: server.keep_alive: unknown key (did you mean keepAlive?)"),
    "a key twice": ("server:\n  port: 1\n  port: 2", "c.yaml:3: duplicate key 'port'"),
    "a section that is a number": ("server: 5", "c.yaml:1: server: must be a mapping"),
    "a file that is a list": ("- server", "c.yaml:1: must be a mapping"),
    "a file that is not YAML": ("server: {port: 1", "c.yaml:2: did not find expected"),
    "two documents": ("server: {}\n---\nserver: {}", "c.yaml:2: "),
    "an old version": ("apiVersion: extender/v1", "apiVersion: must be 'extender/v1alpha1', not 'extender/v1'"),
    "another kind": ("kind: Pod", "c.yaml:1: kind: must be 'ExtenderConfiguration', not 'Pod'"),
    "a port that is text": ("server:\n\n  port: high", "c.yaml:3: server.port: must be a valid integer, not 'high'"),
    "a quoted number": ("server: {port: '80'}", "server.port: must be a valid integer, not '80'"),
    "a port beyond the last": ("server: {port: 65536}", "server.port: must be less than or equal to 65535, not 65536"),
    "a number for yes": ("server: {allowPlainHTTP: 1}", "server.allowPlainHTTP: must be a valid boolean, not 1"),
    "a duration without a unit": ("server: {keepAlive: 30}", "server.keepAlive: must be a duration such as 30s"),
    "a negative duration": ("server: {keepAlive: -3s}", "server.keepAlive: must be a duration such as 30s"),
    "a size that is none": (
        "server: {maxBodyBytes: 2MB}",
        "server.maxBodyBytes: must be a number of bytes such as 2Mi",
    ),
    "a size of nothing": ("server: {maxBodyBytes: 0}", "server.maxBodyBytes: must be greater than or equal to 1"),
    "an empty path": ("cluster: {path: ''}", "cluster.path: "),
    "a source that does not exist": (
        "cluster: {source: kubernets}",
        "cluster.source: must be 'files' or 'kubernetes', not 'kubernets'",
    ),
    "a failure rule in lower case": (
        "preemption:\n  onFailure: veto",
        "c.yaml:2: preemption.onFailure: must be 'Error' or 'Veto', not 'veto' (did you mean Veto?)",
    ),
    "no candidates at all": (
        "preemption: {keepCandidates: 0}",
        "preemption.keepCandidates: must be a number from 1, or All",
    ),
    "true candidates": (
        "preemption: {keepCandidates: true}",
        "preemption.keepCandidates: must be a number from 1, or All",
    ),
    "a preset that does not exist": (
        "preemption: {preset: carefull}",
        "preemption.preset: must be 'upstream', 'careful' or 'strict', not 'carefull' (did you mean careful?)",
    ),
    "a preset that is not text": ("preemption: {preset: [strict]}", "preemption.preset: must be 'upstream', "),
    "a preset over what is not a mapping": (
        "preemption: {preset: careful, limits: 5}",
        "preemption.limits: must be a mapping",
    ),
    "no importance": ("preemption: {importance: []}", "preemption.importance: "),
    "an unknown importance": (
        "preemption: {importance: [Priority, Startime]}",
        "Startime is not one of Priority, StartTime, PodDeletionCost, QoSClass, EvictionCost, GracePeriod (did you",
    ),
    "an importance that ranks nodes": (
        "preemption: {importance: [Workloads]}",
        "preemption.importance: Workloads is not one of Priority, ",
    ),
    "an importance twice": ("preemption: {importance: [Priority, Priority]}", "duplicate Priority"),
    "no ranking": ("preemption: {ranking: []}", "preemption.ranking: "),
    "an unknown ranking": ("preemption: {ranking: [Workload]}", "(did you mean Workloads?)"),
    "a ranking that was removed": (
        "preemption:\n  ranking: [PDBViolations, Stranded]",
        "c.yaml:2: preemption.ranking: Stranded is not one of PDBViolations, ",
    ),
    "a protection that was removed": (
        "preemption:\n  protections:\n    builtin:\n      returningPods: true",
        "c.yaml:4: preemption.protections.builtin.returningPods: unknown key",
    ),
    "a ranking twice": ("preemption: {ranking: [QoSClass, QoSClass]}", "preemption.ranking: duplicate QoSClass"),
    "an annotation that cannot be": (
        "preemption: {evictionCostAnnotation: a/b/c}",
        "preemption.evictionCostAnnotation: must be a name such as example.com/name",
    ),
    "a label that cannot be": (
        "preemption: {protections: {builtin: {tenantLabel: ''}}}",
        "preemption.protections.builtin.tenantLabel: must be ",
    ),
    "an opt-out that cannot be": (
        "preemption: {protections: {builtin: {optOutAnnotations: [karpenter, =true]}}}",
        "preemption.protections.builtin.optOutAnnotations[1]: must be a name such as",
    ),
    "a misspelt switch": (
        "preemption:\n  protections:\n    builtin:\n      deamonSets: true",
        "c.yaml:4: preemption.protections.builtin.deamonSets: unknown key (did you mean daemonSets?)",
    ),
    "a rule without a name": (
        "preemption: {protections: {rules: [{}]}}",
        "preemption.protections.rules[0].name: is missing",
    ),
    "a rule with an impossible name": (
        "preemption: {protections: {rules: [{name: 'a b'}]}}",
        "preemption.protections.rules[0].name: must be 1 to 63 letters and digits",
    ),
    "a rule with the name of a switch": (
        "preemption: {protections: {rules: [{name: daemonSets}]}}",
        (
            "preemption.protections.rules[0].name: daemonSets is the name of the builtin rule "
            "protections.builtin.daemonSets"
        ),
    ),
    "two rules of a name": (
        "preemption:\n  protections:\n    rules:\n    - name: a\n    - name: a",
        "c.yaml:3: preemption.protections.rules: duplicate a",
    ),
    "a word in a rule": (
        "preemption: {protections: {rules: [{name: a, annotations: [karpenter]}]}}",
        (
            "karpenter is a keyword of protections.builtin.optOutAnnotations; "
            "the annotation is karpenter.sh/do-not-disrupt=true"
        ),
    ),
    "a selector that Kubernetes would not parse": (
        "preemption:\n  protections:\n    rules:\n    - name: a\n      selector: {matchLabels: {a: 'b c'}}",
        "c.yaml:5: preemption.protections.rules[0].selector: a: 'b c' is not a valid label value",
    ),
    "a selector whose values do not suit": (
        "preemption: {protections: {rules: [{name: a, selector: {matchExpressions: [{key: b, operator: In}]}}]}}",
        "preemption.protections.rules[0].selector: b: In needs at least one value",
    ),
    "an operator of node selectors": (
        (
            "preemption: {protections: {rules: "
            "[{name: a, selector: {matchExpressions: [{key: b, operator: Gt, values: ['1']}]}}]}}"
        ),
        "operator: must be 'In', 'NotIn', 'Exists' or 'DoesNotExist', not 'Gt'",
    ),
    "a runtime of nothing": (
        "preemption: {protections: {rules: [{name: a, minRuntime: 0s}]}}",
        "preemption.protections.rules[0].minRuntime: must be greater than 0",
    ),
    "a priority that is not an int32": (
        "preemption: {protections: {rules: [{name: a, unlessPriorityAtLeast: 2147483648}]}}",
        "unlessPriorityAtLeast: must be less than or equal to 2147483647",
    ),
    "a limit of nothing": (
        "preemption: {limits: {maxVictims: 0}}",
        "preemption.limits.maxVictims: must be greater than or equal to 1, not 0",
    ),
    "an endless look back": ("preemption: {limits: {attemptsWithin: 0s}}", "limits.attemptsWithin: must be greater"),
    "live budgets with several candidates": (
        "preemption:\n  keepCandidates: 2\n  budgetAccounting: Live",
        "c.yaml:1: preemption: keepCandidates must be 1 with budgetAccounting: Live: if several nodes are sent",
    ),
    "limits with several candidates": (
        "preemption: {keepCandidates: All, limits: {evictionsPerMinute: 1, maxAttempts: 1, workloadCooldown: 1s}}",
        (
            "keepCandidates must be 1 with limits.evictionsPerMinute, limits.workloadCooldown, "
            "limits.maxAttempts: if several"
        ),
    ),
    "a limit per namespace with several candidates": (
        "preemption: {keepCandidates: 2, limits: {evictionsPerMinutePerNamespace: 1}}",
        "keepCandidates must be 1 with limits.evictionsPerMinutePerNamespace: if several",
    ),
    "a preset with several candidates": (
        "preemption: {keepCandidates: All, preset: careful}",
        "keepCandidates must be 1 with budgetAccounting: Live, limits.workloadCooldown (preset careful): if several",
    ),
    "a mode that does not exist": ("mode: observe", "c.yaml:1: mode: must be 'Enforce' or 'Observe', not 'observe'"),
    "a switch without a key": ("killSwitch: true", "c.yaml:1: killSwitch: must be a mapping"),
    "a switch that lets errors through": ("killSwitch: {preempt: Error}", "must be 'Veto' or 'PassThrough'"),
    "plain HTTP for everybody on the admin listener": (
        "admin: {host: '::'}",
        "admin: :: is not a loopback address and TLS is off: set admin.tls.certificate and admin.tls.key, listen",
    ),
    "a certificate without its key": (
        "server:\n  tls:\n    certificate: tls.crt",
        "c.yaml:2: server.tls: certificate and key must be set together",
    ),
    "a key without its certificate": (
        "admin: {tls: {key: tls.key}}",
        "admin.tls: certificate and key must be set together",
    ),
    "clients that show a certificate in the clear": (
        "server: {tls: {clientCA: ca.crt}}",
        "server.tls: clientCA needs certificate and key: a client can present a certificate over TLS only",
    ),
    "names of which no certificate shows one": (
        "server: {tls: {certificate: a, key: b, allowedNames: [kube-scheduler]}}",
        "server.tls: allowedNames needs clientCA: without it clients present no certificate",
    ),
    "an empty name": (
        "server: {tls: {certificate: a, key: b, clientCA: c, allowedNames: ['']}}",
        "server.tls.allowedNames[0]: ",
    ),
    "a scheduler that does not wait": (
        "server: {httpTimeout: 0s}",
        "server.httpTimeout: must be greater than 0",
    ),
    "no call at all": ("server: {maxInFlight: 0}", "server.maxInFlight: must be greater than or equal to 1"),
    "a binding that takes longer than the scheduler waits": (
        "cluster: {source: kubernetes}\nbind: {enabled: true}\nserver: {httpTimeout: 4s}",
        "bind.timeout must not exceed 80 % of server.httpTimeout",
    ),
    "another log level": ("log: {level: info}", "log.level: must be 'Debug', 'Info', 'Warning' or 'Error', not 'info'"),
    "plain HTTP for everybody": ("server:\n  host: 0.0.0.0", "c.yaml:1: server: 0.0.0.0 is not a loopback address"),
    "plain HTTP under a name": ("server: {host: extender.example}", "extender.example is not a loopback address"),
    "a file and inline profiles": (
        "scheduler: {config: /etc/kube-scheduler.yaml, profiles: [{}]}",
        "scheduler: profiles cannot be set with config: the file says it",
    ),
    "a version that is not supported": (
        "scheduler: {version: 1.28}",
        'scheduler.version: "1.28" is not supported: 1.29 to 1.38',
    ),
    "a version that is nearly one": (
        'scheduler: {version: "1.36.2x"}',
        'scheduler.version: "1.36.2x" is not a version of Kubernetes',
    ),
    "an emulated version with a patch": (
        'scheduler: {emulatedVersion: "1.36.0"}',
        'scheduler.emulatedVersion: "1.36.0" must be a minor version such as 1.36',
    ),
    "a compatible version that is nearly one": (
        'scheduler: {minCompatibilityVersion: "1.36."}',
        'scheduler.minCompatibilityVersion: "1.36." is not a version of Kubernetes',
    ),
    "feature gates as kube-scheduler's option has them": (
        "scheduler: {featureGates: AllAlpha=true}",
        "c.yaml:1: scheduler.featureGates: must be a mapping",
    ),
    "a feature gate that is not a switch": ("scheduler: {featureGates: {A: 1}}", "scheduler.featureGates.A: must be"),
    "a misspelt extension point": (
        "scheduler:\n  profiles:\n  - plugins: {filters: {}}",
        "c.yaml:3: scheduler.profiles[0].plugins.filters: unknown key (did you mean filter?)",
    ),
    "a plugin where it does not run": (
        "scheduler:\n  profiles:\n  - plugins:\n      score: {enabled: [{name: NodeName}]}",
        'c.yaml:4: scheduler.profiles[0].plugins.score.enabled[0]: plugin "NodeName" does not extend ScorePlugin',
    ),
    "arguments out of range": (
        "scheduler: {profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]}",
        "c.yaml:1: scheduler.profiles[0].pluginConfig[0].args.hardPodAffinityWeight: must be less than or equal ",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_file_is_refused_for(load, text, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("c.yaml:")
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_told_in_the_order_of_their_lines(load):
    with pytest.raises(ConfigError) as caught:
        load("server: {prot: 1}\nscheduler:\n  profiles: 5\n  zzz: 1\ncluster:\n  source: nowhere")
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["c.yaml:1", "server.prot"],
        ["c.yaml:3", "scheduler.profiles"],
        ["c.yaml:4", "scheduler.zzz"],
        ["c.yaml:6", "cluster.source"],
    ]


def test_the_order_of_mistakes_does_not_hang_on_the_name_of_the_file(tmp_path):
    path = tmp_path / "my extender.yaml"
    path.write_text("scheduler: {profiles: 5}\ncluster: {source: nowhere}")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}:1: scheduler.profiles")
    assert second.startswith(f"{path}:2: cluster.source")


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml", {})


def test_a_file_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"kind: \xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config(tmp_path / "c.yaml", {})


@pytest.mark.parametrize(
    "text", ["server: &a {port: *a}", "a: " + "[" * 1000], ids=["an alias of itself", "deep nesting"]
)
def test_endless_files_are_refused(load, text):
    with pytest.raises(ConfigError):
        load(text)


HOSTILE = {
    "deep nesting": ("a:\n  " + "[" * 25_000, "c.yaml:2: is nested deeper than 100 levels"),
    "aliases": (
        "a: &a [1, 2, 3]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(3))
        + "e: [*a2, *a2, *a2, *a2]",
        "c.yaml:5: its aliases expand to more than 10,000 values",
    ),
    "a long key": ("? " + "k" * 100_000 + "\n: 1", "c.yaml:1: kkkkk"),
    "a NUL byte": ("a: \0", "c.yaml: "),
    "more than a ConfigMap holds": ("#" * (1 << 20) + "\n", "c.yaml: is larger than 1 MiB"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_H7_a_file_is_refused_briefly_for(load, text, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 700


def test_H7_a_file_of_mistakes_is_told_in_part(load):
    with pytest.raises(ConfigError) as caught:
        load("".join(f"k{number}: 1\n" for number in range(500)))
    lines = str(caught.value).splitlines()
    assert len(lines) == 51
    assert lines[-1] == "c.yaml: 450 more mistakes"


def test_H7_only_a_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, reason in ((tmp_path / "fifo", "is a FIFO, not a regular file"), (tmp_path, "is a directory")):
        with pytest.raises(ConfigError, match=f"{path}: {reason}"):
            load_config(path, {})


KEYS = st.sampled_from(
    [field.alias for section in (Configuration, *sections()) for field in section.model_fields.values()]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["All", "30s", "2Mi", "ImageLocality"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_stands_in_a_file_it_is_a_configuration_or_a_complaint(load, content):
    try:
        config = load(yaml.safe_dump(content))
    except ConfigError as error:
        assert str(error).startswith("c.yaml:"), "the error names no line"  # noqa: PT017, both outcomes are right
    else:
        assert load(render(config)) == config, "a rendered configuration is read otherwise"


# --- environment and command line -----------------------------------------------------------------------------------

SETTINGS = {
    "EXTENDER_SERVER__PORT": ("9000", lambda c: c.server.port, 9000),
    "EXTENDER_SERVER__HOST": ("localhost", lambda c: c.server.host, "localhost"),
    "EXTENDER_SERVER__KEEP_ALIVE": ("3m", lambda c: c.server.keep_alive, 180.0),
    "EXTENDER_SERVER__ALLOW_PLAIN_HTTP": ("true", lambda c: c.server.allow_plain_http, True),
    "EXTENDER_ADMIN__ALLOW_PLAIN_HTTP": ("true", lambda c: c.admin.allow_plain_http, True),
    "EXTENDER_DEBUG__ALLOW_REMOTE": ("true", lambda c: c.debug.allow_remote, True),
    "EXTENDER_TRACING__ENDPOINT": ("http://localhost:4318/v1/traces", lambda c: bool(c.tracing.endpoint), True),
    "EXTENDER_SERVER__MAX_BODY_BYTES": ("1Mi", lambda c: c.server.max_body_bytes, 2**20),
    "EXTENDER_CLUSTER__PATH": ("2026", lambda c: c.cluster.path, "2026"),
    "EXTENDER_PREEMPTION__KEEP_CANDIDATES": ("All", lambda c: c.preemption.keep_candidates, "All"),
    "EXTENDER_PREEMPTION__PROTECTIONS__BUILTIN__DAEMON_SETS": (
        "true",
        lambda c: c.preemption.protections.builtin.daemon_sets,
        True,
    ),
    "EXTENDER_PREEMPTION__PROTECTIONS__BUILTIN__TENANT_LABEL": (
        "a/b",
        lambda c: c.preemption.protections.builtin.tenant_label,
        "a/b",
    ),
    "EXTENDER_PREEMPTION__LIMITS__MAX_VICTIMS": ("3", lambda c: c.preemption.limits.max_victims, 3),
    "EXTENDER_PREEMPTION__PROTECTIONS__RULES": (
        "[{name: a}]",
        lambda c: [rule.name for rule in c.preemption.protections.rules],
        ["a"],
    ),
    "EXTENDER_KILL_SWITCH__ENABLED": ("true", lambda c: c.kill_switch.enabled, True),
    "EXTENDER_MODE": ("Observe", lambda c: c.mode, "Observe"),
    "EXTENDER_SCHEDULER__CONFIG": ("/a.yaml", lambda c: c.scheduler.config, "/a.yaml"),
    "EXTENDER_SCHEDULER__VERSION": ("1.30", lambda c: c.scheduler.version, "1.30"),
    "EXTENDER_SCHEDULER__FEATURE_GATES": ('{"A": true}', lambda c: c.scheduler.feature_gates, {"A": True}),
    "EXTENDER_SCHEDULER__PROFILES": (
        "[{schedulerName: a}, {schedulerName: b}]",
        lambda c: [profile.scheduler_name for profile in c.scheduler.profiles],
        ["a", "b"],
    ),
}


def test_the_environment_sets_what_tls_needs_together():
    env = {"CERTIFICATE": "a.crt", "KEY": "a.key", "CLIENT_CA": "ca.crt", "ALLOWED_NAMES": "[kube-scheduler, b]"}
    tls = load_config(None, {f"EXTENDER_SERVER__TLS__{name}": value for name, value in env.items()}).server.tls
    assert (tls.certificate, tls.key, tls.client_ca) == ("a.crt", "a.key", "ca.crt")
    assert tls.allowed_names == ["kube-scheduler", "b"]


def test_with_tls_other_machines_may_reach_either_listener(load):
    config = load("server: &all {host: 0.0.0.0, tls: {certificate: a, key: b}}\nadmin: *all")
    assert config.server.tls.is_on
    assert config.admin.host == "0.0.0.0"


def test_a_call_is_answered_in_80_percent_of_the_schedulers_time(load):
    assert load("server: {httpTimeout: 10s}").server.deadline == 8


@pytest.mark.parametrize(("name", "case"), SETTINGS.items(), ids=SETTINGS)
def test_the_environment_sets(name, case):
    text, read, value = case
    assert read(load_config(None, {name: text})) == value


def test_the_environment_stands_over_the_file_and_the_command_line_over_both(load):
    text = "server: {port: 1, keepAlive: 1s, maxBodyBytes: 1}"
    env = {"EXTENDER_SERVER__PORT": "2", "EXTENDER_SERVER__KEEP_ALIVE": "2s"}
    server = load(text, env, {"--port": ("server.port", 3)}).server
    assert (server.port, server.keep_alive, server.max_body_bytes) == (3, 2.0, 1)


MISTAKEN_ENV = {
    "a name that is not a setting": (
        "EXTENDER_SERVER__PROT",
        "1",
        "no such setting (did you mean EXTENDER_SERVER__PORT?)",
    ),
    "one underscore instead of two": (
        "EXTENDER_SERVER_PORT",
        "1",
        "no such setting (did you mean EXTENDER_SERVER__PORT?)",
    ),
    "the short name of a setting": (
        "EXTENDER_KEEP_ALIVE",
        "9s",
        "no such setting (did you mean EXTENDER_SERVER__KEEP_ALIVE?)",
    ),
    "the short name of two settings": (
        "EXTENDER_PORT",
        "9000",
        "no such setting (did you mean EXTENDER_SERVER__PORT or EXTENDER_ADMIN__PORT?)",
    ),
    "a whole section": ("EXTENDER_SERVER", "{port: 1}", "no such setting"),
    "the version": ("EXTENDER_API_VERSION", "extender/v1alpha1", "no such setting"),
    "a wrong value": ("EXTENDER_SERVER__PORT", "x", "server.port: must be a valid integer, not 'x'"),
    "an unknown key in a list": (
        "EXTENDER_SCHEDULER__PROFILES",
        "[{schedulerNam: x}]",
        "scheduler.profiles[0].schedulerNam: unknown key",
    ),
    "a value that is not YAML": ("EXTENDER_SCHEDULER__PROFILES", "[", ""),
}


@pytest.mark.parametrize(("name", "value", "message"), MISTAKEN_ENV.values(), ids=MISTAKEN_ENV)
def test_the_environment_is_refused_for(name, value, message):
    with pytest.raises(ConfigError) as caught:
        load_config(None, {name: value})
    assert str(caught.value).startswith(name)
    assert message in str(caught.value)


def test_a_mistake_on_the_command_line_names_the_option():
    with pytest.raises(ConfigError, match=r"^--port: server\.port: "):
        load_config(None, {}, {"--port": ("server.port", 70000)})
    with pytest.raises(ConfigError, match=r"^--host: server: 0\.0\.0\.0 is not a loopback"):
        load_config(None, {}, {"--host": ("server.host", "0.0.0.0")})


def test_variables_of_others_are_left_alone():
    """Kubernetes sets the EXTENDER_… ones in every pod beside a Service named `extender` or `extender-metrics`."""
    env = {
        "PATH": "/bin",
        "EXTENDER_CONFIG": "/etc/extender.yaml",
        "EXTENDER_SERVICE_HOST": "10.0.0.7",
        "EXTENDER_SERVICE_PORT": "8888",
        "EXTENDER_SERVICE_PORT_HTTP": "8888",
        "EXTENDER_PORT": "tcp://10.0.0.7:8888",
        "EXTENDER_PORT_8888_TCP": "tcp://10.0.0.7:8888",
        "EXTENDER_PORT_8888_TCP_PROTO": "tcp",
        "EXTENDER_PORT_8888_TCP_PORT": "8888",
        "EXTENDER_PORT_8888_TCP_ADDR": "10.0.0.7",
        "EXTENDER_METRICS_SERVICE_HOST": "10.0.0.8",
        "EXTENDER_METRICS_PORT": "tcp://10.0.0.8:9090",
    }
    assert load_config(None, env) == Configuration()


# --- printing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        FULL,
        "cluster: {path: '123'}\nserver: {host: '::1', keepAlive: 1h2m3s}",
        "scheduler: {config: scheduler-config.yaml}",
        "scheduler: {config: scheduler-config.yaml, profiles: [], percentageOfNodesToScore: null}",
    ],
)
def test_what_is_printed_is_a_file_that_says_the_same(load, text):
    config = load(text)
    assert load(render(config)) == config


def test_every_key_is_printed_with_its_description(load):
    assert all(len(line) <= 120 for line in render(load(FULL)).splitlines())
    lines = render(Configuration()).splitlines()
    sections = [value for _, value in Configuration() if isinstance(value, Section)]
    sections += [value for section in sections for _, value in section if isinstance(value, Section)]
    printed: list[type[Section]] = [Configuration, *map(type, sections)]
    for section in printed:
        for field in section.model_fields.values():
            first = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{field.alias}:"))
            assert lines[first - 1].strip().startswith("#"), field.alias


OURS = [section for section in sections() if not section.__module__.startswith("extender.config.scheduler.")]


@pytest.mark.parametrize("section", OURS, ids=lambda section: section.__name__)
def test_every_field_is_described_but_those_of_kubernetes(section):
    assert [name for name, field in section.model_fields.items() if not field.description] == []


# --- the documentation ----------------------------------------------------------------------------------------------


def test_the_documentation_shows_the_defaults():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert shown == render(Configuration()), "put the output of `extender config show` into docs/configuration.md"


def test_the_documentation_has_every_key_of_a_protection():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    table = page.partition("## Protections")[2]
    assert [field.alias for field in ProtectionRule.model_fields.values()] == [
        line.split("`")[1] for line in table.splitlines() if line.startswith("| `")
    ]
    assert all(f"`{field.alias}`" in table for field in LabelSelectorSection.model_fields.values())


def test_the_documented_protections_are_a_configuration(load):
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.partition("## Protections")[2].partition("```yaml\n")[2].partition("```")[0]
    names = [rule.name for rule in load(example).preemption.policy().protections]
    assert names[-2:] == ["databases", "young-jobs"]


def test_protecting_nobody_is_the_default():
    assert list(BuiltinProtectionsSection().rules()) == []
    assert Configuration().preemption.eviction_cost_annotation == EVICTION_COST
