"""kube-scheduler's configuration from a file, a mapping or our own file: places, versions and limits."""

import json
import os
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extender
from extender.config import Configuration, load_config
from extender.config.scheduler.arguments import ARGS_OF
from extender.config.scheduler.load import kube_scheduler_of, load_kube_scheduler, read_configuration, read_scheduler
from extender.config.scheduler.plugins import EXTENSION_POINTS, IN_TREE
from extender.config.scheduler.schema import (
    API_VERSION,
    KIND,
    KubernetesSection,
    KubeSchedulerConfiguration,
)
from extender.config.values import nanoseconds_of
from extender.core.profile import UNCONFIGURED
from extender.errors import ConfigError
from extender.k8s.version.found import FoundVersion
from extender.k8s.version.versions import DEFAULT_MINOR
from tests.builders import cluster, incoming, node, pod

HEAD = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


@pytest.fixture
def load(tmp_path):
    """Load a file, which is called `k.yaml` in messages."""
    path = tmp_path / "k.yaml"

    def load(text, **options):
        path.write_text(text, encoding="utf-8")
        try:
            return kube_scheduler_of(path, **options)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), "k.yaml")) from error

    return load


ARGS = HEAD + "profiles:\n- pluginConfig:\n  - name: "

PLACES = {
    "no kind": (
        "# nothing\n{}",
        "k.yaml:1: apiVersion: must be kubescheduler.config.k8s.io/v1",
    ),
    "an empty file": ("", "k.yaml: apiVersion: must be kubescheduler.config.k8s.io/v1"),
    "another version": (
        f"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: {KIND}",
        "k.yaml:1: apiVersion: must be kubescheduler.config.k8s.io/v1, not kubescheduler.config.k8s.io/v1beta3",
    ),
    "another kind": (
        f"apiVersion: {API_VERSION}\nkind: Policy",
        "k.yaml:2: kind: must be KubeSchedulerConfiguration, not Policy",
    ),
    "a misspelt key": (HEAD + "profile: []", "k.yaml:3: profile: unknown key (did you mean profiles?)"),
    "a key that is merged, too": (HEAD + "x: &x {a: 1}\ny: {<<: *x, a: 2}", "k.yaml:4: duplicate key 'a'"),
    "a merge of what has no keys": (HEAD + "x: {<<: [1]}", "k.yaml:3: << must name a mapping, or a list of mappings"),
    "a key twice": (HEAD + "parallelism: 1\nparallelism: 2", "k.yaml:4: duplicate key 'parallelism'"),
    "a misspelt argument": (
        HEAD + "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      ignoredResource: [A]",
        "k.yaml:7: profiles[0].pluginConfig[0].args.ignoredResource: unknown key (did you mean ignoredResources?)",
    ),
    "an argument out of range": (
        HEAD
        + "profiles:\n- pluginConfig:\n  - name: DefaultPreemption\n    args:\n      minCandidateNodesPercentage: 101",
        "k.yaml:7: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: must be less than or equal",
    ),
    "a plugin at the wrong point": (
        HEAD
        + "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: NodeName\n      - name: ImageLocality",
        'k.yaml:8: profiles[0].plugins.filter.enabled[1]: plugin "ImageLocality" does not extend FilterPlugin plugin',
    ),
    "an extender with a weight as text": (
        HEAD + "extenders:\n- urlPrefix: http://a\n- urlPrefix: http://b\n  weight: '5'",
        "k.yaml:6: extenders[1].weight: must be a valid integer, not '5'",
    ),
    "a duration": (
        HEAD + "extenders:\n- httpTimeout: 5",
        "k.yaml:4: extenders[0].httpTimeout: must be a valid string, not 5",
    ),
    "a list": ("[]", "k.yaml:1: must be a mapping such as `kind: KubeSchedulerConfiguration`"),
    "no YAML": (HEAD + "profiles: [", "k.yaml:"),
    "deep nesting": (HEAD + "profiles: " + "[" * 1000, "k.yaml:3: is nested deeper than 100 levels"),
    "more than a ConfigMap holds": ("#" * (1 << 20) + "\n", "k.yaml: is larger than 1 MiB"),
    "JSON with a trailing comma": (
        '{"apiVersion": "v1"\n,}',  # Python 3.13 names the comma, 3.11 what follows it
        "k.yaml:2: begins with {, so kube-scheduler reads it as JSON: ",
    ),
    "a flow mapping, which JSON is not": ("{apiVersion: v1}", "k.yaml:1: begins with {, so kube-scheduler reads it as"),
}


@pytest.mark.parametrize(("text", "message"), PLACES.values(), ids=PLACES)
def test_a_mistake_has_file_line_path_and_reason(load, text, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(message)


def test_all_mistakes_of_a_step_are_reported_by_line(load):
    with pytest.raises(ConfigError) as caught:
        load(HEAD + "profiles:\n- schedulerName: a\n- schedulerName: a\n  plugins: {bind: {enabled: [{name: '*'}]}}\n")
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["k.yaml:5", "profiles[1].schedulerName"],
        ["k.yaml:6", "profiles[1].plugins.bind.enabled[0]"],
    ]


def test_what_kube_scheduler_alone_reads_is_left_to_it(load):
    """It does not start with any of this, and says so itself."""
    text = "parallelism: 0\nleaderElection: {leaseDuration: 5s, renewDeadline: 7s}\nclientConnection: {burst: -1}\n"
    extender = "extenders: [{urlPrefix: http://a, prioritizeVerb: p}]"
    assert load(HEAD + text + extender) == load(f"{HEAD}{extender}")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "k.yaml")
    with pytest.raises(ConfigError, match="is a FIFO, not a regular file"):
        kube_scheduler_of(tmp_path / "k.yaml")
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        kube_scheduler_of(tmp_path / "none.yaml")


def test_a_mapping_and_a_path_as_text_are_taken_too(load, tmp_path):
    text = HEAD + "profiles: [{schedulerName: a}]"
    assert load(text) == kube_scheduler_of(str(tmp_path / "k.yaml"))
    given = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": "a"}]}
    assert load(text) == kube_scheduler_of(given)


def test_anchors_that_are_merged_and_json_with_tabs_are_read_as_in_kube_scheduler(load):
    filters = "filter: {disabled: [{name: '*'}]}"
    merged = f"profiles:\n- {{schedulerName: a, plugins: &p {{{filters}}}}}\n- schedulerName: b\n  plugins: {{<<: *p}}"
    plain = f"profiles:\n- {{schedulerName: a, plugins: {{{filters}}}}}\n- {{schedulerName: b, plugins: {{{filters}}}}}"
    assert load(f"{HEAD}{merged}\n---\n") == load(HEAD + plain)
    given = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": "a"}]}
    assert load(json.dumps(given, indent="\t")) == kube_scheduler_of(given)


def test_null_is_what_go_makes_of_it(load):
    text = (
        HEAD + "parallelism: null\nprofiles:\n- plugins: null\n  pluginConfig: [{name: NodeResourcesFit, args: null}]"
    )
    assert load(text) == load(HEAD)
    assert load(HEAD + "profiles: [null]") == load(HEAD)


def test_scalars_are_those_of_kubernetes_yaml_reader(load):
    text = "percentageOfNodesToScore: {}\nextenders: [{{nodeCacheCapable: {}}}]"
    # Each asked of v1.37.2.
    numbers = ("16", "16.0", "1.6e1", "+16", "1_6", "020", "0o20", "0x10", "0b10000")
    for number, switch in zip(numbers, ("true", "yes", "On", "TRUE", "y", "true", "on", "YES", "True"), strict=True):
        assert load(HEAD + text.format(number, switch)).profiles[0].percentage_of_nodes_to_score == 16
    assert load(HEAD + "percentageOfNodesToScore: NULL") == load(HEAD)
    wrong = (("'16'", "yes"), ("0.5", "yes"), ("16", "'yes'"), ("16", "tRue"), ("16:0", "yes"), (".inf", "yes"))
    for refused in (text.format(*one) for one in wrong):
        with pytest.raises(ConfigError, match="must be a valid"):
            load(HEAD + refused)
    with pytest.raises(ConfigError, match=r"schedulerName: must be a valid string, not True"):
        load(HEAD + "profiles: [{schedulerName: on}]")


def aliases(section):
    """Keys of a type of the configuration and of all types below it."""
    for info in section.model_fields.values():
        yield info.alias
        for one in (info.annotation, *get_args(info.annotation)):
            if isinstance(one, type) and issubclass(one, KubernetesSection):
                yield from aliases(one)


TYPES = (KubeSchedulerConfiguration, *ARGS_OF.values())
KEYS = st.sampled_from(sorted({key for kind in TYPES for key in aliases(kind)}))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(["*", "5s", "NodeResourcesFit", "PodTopologySpread", "a.example/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["*", "Own", *IN_TREE])
ENTRIES = st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"weight": VALUES}), max_size=3)
POINTS = st.sampled_from(["multiPoint", *EXTENSION_POINTS])
PLUGINS = st.dictionaries(POINTS, st.dictionaries(st.sampled_from(["enabled", "disabled"]), ENTRIES), max_size=3)


@st.composite
def plugin_configs(draw):
    name = draw(st.sampled_from(sorted(ARGS_OF)))
    keys = st.sampled_from([*aliases(ARGS_OF[name])])
    return {"name": name, "args": draw(st.dictionaries(keys, VALUES, max_size=3))}


PROFILE = st.fixed_dictionaries(
    {"schedulerName": VALUES},
    optional={"plugins": PLUGINS, "pluginConfig": st.lists(plugin_configs(), max_size=2)},
)
PROFILES = st.lists(PROFILE, max_size=2)


HALF_FULL = cluster({node("n1", labels={"zone": "a"}): [pod("low", cpu="4", priority=0)], node("n2"): []})


@settings(deadline=None)
@given(others=st.dictionaries(KEYS, VALUES, max_size=3), profiles=PROFILES | VALUES)
def test_whatever_stands_there_it_is_a_complaint_or_a_kube_scheduler_that_judges_pods(others, profiles):
    try:
        scheduler = kube_scheduler_of({**others, "profiles": profiles, "apiVersion": API_VERSION, "kind": KIND})
    except ConfigError as error:
        assert str(error).startswith("KubeSchedulerConfiguration: "), "the error does not name the file"  # noqa: PT017, both outcomes are right
    else:
        assert len({profile.scheduler_name for profile in scheduler.profiles}) == len(scheduler.profiles) >= 1
        for profile in scheduler.profiles:
            waiting = incoming(schedulerName=profile.scheduler_name)
            assert extender.evaluate(HALF_FULL, waiting, scheduler=scheduler).to_dict()["filter"].keys() == {
                "n1",
                "n2",
            }, "a node has no verdict"


# --- the version ------------------------------------------------------------------------------------------------------


def test_a_version_is_configured_found_or_the_default_one():
    auto = Configuration()
    configured = Configuration.model_validate({"scheduler": {"version": "v1.30.4"}})
    found = FoundVersion(33, "image tag v1.33.2")
    assert (load_kube_scheduler(auto).minor, load_kube_scheduler(auto).version_source) == (
        DEFAULT_MINOR,
        UNCONFIGURED.version_source,
    )
    assert load_kube_scheduler(auto, found).version_source == "image tag v1.33.2"
    assert load_kube_scheduler(auto, found).minor == 33
    scheduler = load_kube_scheduler(configured, found)
    assert (scheduler.minor, scheduler.patch, scheduler.version_source) == (30, 4, "configured")
    assert (scheduler.version, scheduler.release) == ("1.30", "1.30.4")
    assert "EBSLimits" in scheduler.profiles[0].filter_plugins


def test_a_source_is_read_once_and_resolved_for_each_version(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(HEAD)
    source = read_scheduler(Configuration.model_validate({"scheduler": {"config": str(path)}}))
    path.unlink()
    assert [source.resolve(FoundVersion(minor, "")).minor for minor in (33, 36)] == [33, 36]


def test_a_gate_that_the_version_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="PodLevelResources"):
        kube_scheduler_of({}, version="1.31", feature_gates={"PodLevelResources": True})
    with pytest.raises(ConfigError, match=r'"1\.28" is not supported: 1\.29 to 1\.38'):
        kube_scheduler_of({}, version="1.28")


def test_an_unconfigured_kube_scheduler_is_the_engines_default():
    assert kube_scheduler_of({}).features == UNCONFIGURED.features
    assert kube_scheduler_of({}).minor == UNCONFIGURED.minor


def test_the_preemption_policy_and_keep_candidates_are_in_every_profile():
    given = {
        "preemption": {"disruptionBudgets": "Strict", "keepCandidates": "All"},
        "scheduler": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]},
    }
    for profile in load_kube_scheduler(Configuration.model_validate(given)).profiles:
        assert (profile.preemption.disruption_budgets, profile.keep_candidates) == ("Strict", None)


# --- inline profiles --------------------------------------------------------------------------------------------------


def inline(tmp_path, scheduler):
    path = tmp_path / "c.yaml"
    path.write_text(f"scheduler:\n{scheduler}", encoding="utf-8")
    return load_config(path, {})


def test_inline_profiles_say_what_a_file_says(load, tmp_path):
    profiles = "  profiles:\n  - schedulerName: a\n    plugins: {filter: {disabled: [{name: '*'}]}}\n"
    ours = load_kube_scheduler(inline(tmp_path, "  percentageOfNodesToScore: 5\n" + profiles))
    theirs = load(HEAD + "percentageOfNodesToScore: 5\n" + profiles.replace("\n  ", "\n").strip(" "))
    assert ours == theirs


def test_an_inline_mistake_has_the_line_of_our_file(tmp_path):
    with pytest.raises(ConfigError, match=r"c\.yaml:4: scheduler\.profiles\[0]\.plugins\.bind\.disabled"):
        inline(tmp_path, "  profiles:\n  - plugins:\n      bind: {disabled: 5}\n")
    with pytest.raises(ConfigError, match=r"c\.yaml:4: scheduler\.profiles\[0]\.plugins\.bind\.enabled\[0]: plugin"):
        inline(tmp_path, "  profiles:\n  - plugins:\n      bind: {enabled: [{name: NodePorts}]}\n")


def test_with_auto_an_inline_profile_is_refused_only_if_every_version_refuses_it(tmp_path):
    profiles = "  profiles: [{plugins: {filter: {enabled: [{name: DeferredPodScheduling}]}}}]\n"
    config = inline(tmp_path, profiles)
    assert "DeferredPodScheduling" in load_kube_scheduler(config, FoundVersion(37, "")).profiles[0].filter_plugins
    with pytest.raises(ConfigError, match=r"configuration: scheduler\.profiles\[0]\.plugins\.filter\.enabled\[0]"):
        load_kube_scheduler(config, FoundVersion(36, ""))
    with pytest.raises(ConfigError, match=r"c\.yaml:2: scheduler\.profiles\[0]\.plugins\.filter\.enabled\[0]"):
        inline(tmp_path, profiles + "  version: '1.36'\n")


def test_a_gate_that_no_version_takes_has_the_line_of_our_file(tmp_path):
    message = r"c\.yaml:3: scheduler\.featureGates: feature gate DynamicResourceAllocation is locked to true in 1\.36"
    with pytest.raises(ConfigError, match=message):
        inline(tmp_path, "  version: '1.36'\n  featureGates: {DynamicResourceAllocation: false}\n")
    config = inline(tmp_path, "  featureGates: {DynamicResourceAllocation: false}\n")
    assert load_kube_scheduler(config, FoundVersion(33, "")).minor == 33
    with pytest.raises(
        ConfigError, match=r"^scheduler\.featureGates: feature gate DynamicResourceAllocation is locked"
    ):
        load_kube_scheduler(config, FoundVersion(36, ""))


def test_the_line_of_a_key_is_known_to_who_compares_the_files(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + "extenders:\n- urlPrefix: http://a\n  httpTimeout: 5s\n")
    read = read_configuration(path)
    assert read.config.extenders[0].http_timeout == "5s"
    assert str(read.document.place(("extenders", 0, "httpTimeout"))) == f"{path}:5"


# --- durations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("5s", 5 * 10**9), ("1m30s", 90 * 10**9), ("-1.5h", -5400 * 10**9), ("0", 0), ("+3ms", 3 * 10**6), (".5us", 500)],
)
def test_durations_are_read_as_go_reads_them(text, nanoseconds):
    assert nanoseconds_of(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'invalid duration ""'),
        ("5", 'invalid duration "5"'),
        ("5x", 'invalid duration "5x"'),
        ("s", 'invalid duration "s"'),
        ("1s ", 'invalid duration "1s "'),
        ("9999999999h", "must be shorter than 292 years"),
    ],
)
def test_what_is_no_duration_is_refused(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the whole text is compared
        nanoseconds_of(text)
    assert str(caught.value) == message
