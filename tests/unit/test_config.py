"""What may be configured, and that every mistake is named with key and line."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.config import Configuration, load_config, render
from extender.config.models import Section
from extender.core.profile import SCORE_WEIGHTS, Profile, ScoringStrategy
from extender.errors import ConfigError
from extender.k8s.objects import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)


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
    assert Configuration().profile() == Profile()


def test_the_default_cluster_is_the_example_and_the_default_address_is_this_machine():
    config = Configuration()
    assert (config.cluster.path, config.cluster.reload_interval) == (None, 2.0)
    assert (config.server.host, config.server.port, config.server.keep_alive) == ("127.0.0.1", 8888, 120.0)
    assert (config.server.max_body_names, config.server.max_body_full) == (2 * 2**20, 128 * 2**20)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        setattr(Configuration().server, "port", 1)  # noqa: B010, what mypy would not let pass


# --- the whole file -------------------------------------------------------------------------------------------------

FULL = """
apiVersion: extender/v1alpha1
kind: ExtenderConfiguration
schedulerNames: [default-scheduler, other]
cluster: {source: snapshot, path: /etc/cluster.json, reloadInterval: 1m30s}
preemption: {keepCandidates: All, onFailure: Veto}
filter:
  plugins: [NodeResourcesFit, NodeName]
  ignoredResources: [example.com/device]
  ignoredResourceGroups: [example.org]
  addedAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 10
      preference: {matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}
prioritize:
  plugins:
  - name: NodeResourcesFit
    weight: 5
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 1}]}
  - name: TaintToleration
server: {host: 0.0.0.0, allowPlainHTTP: true, port: 0, keepAlive: 500ms, maxBodyNames: 1Ki, maxBodyFull: 7}
"""


def test_the_profile_holds_every_choice_about_decisions(load):
    assert load(FULL).profile() == Profile(
        filter_plugins=("NodeResourcesFit", "NodeName"),
        score_weights=(
            ("NodeResourcesFit", 5),
            ("NodeResourcesBalancedAllocation", SCORE_WEIGHTS["NodeResourcesBalancedAllocation"]),
            ("TaintToleration", SCORE_WEIGHTS["TaintToleration"]),
        ),
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
        scheduler_names=frozenset({"default-scheduler", "other"}),
    )


def test_the_rest_of_the_file_is_read_too(load):
    config = load(FULL)
    assert (config.cluster.path, config.cluster.reload_interval) == ("/etc/cluster.json", 90.0)
    assert config.preemption.on_failure == "Veto"
    assert config.server.model_dump(by_alias=False) == {
        "host": "0.0.0.0",
        "port": 0,
        "allow_plain_http": True,
        "keep_alive": "500ms",
        "max_body_names": "1Ki",
        "max_body_full": 7,
    }


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1.5s", 1.5), ("0s", 0), ("0", 0)]
)
def test_durations_are_written_as_in_go(load, text, seconds):
    if text == "0":
        text = "'0'"
    assert load(f"cluster: {{reloadInterval: {text}}}").cluster.reload_interval == seconds


# --- mistakes -------------------------------------------------------------------------------------------------------

FIT = "prioritize:\n  plugins:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        "
CURVE = FIT + "type: RequestedToCapacityRatio\n        requestedToCapacityRatio:\n          shape: "
TERMS = (
    "filter:\n  addedAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n      nodeSelectorTerms:\n      "
)
EXPRESSION = TERMS + "- matchExpressions:\n        - "

MISTAKES = {
    "an unknown key": ("server:\n  prot: 1", "c.yaml:2: server.prot: unknown key (did you mean port?)"),
    "an unknown section": ("\nsrever: {}", "c.yaml:2: srever: unknown key (did you mean server?)"),
    "a key that is like no other": ("zzz: 1", "c.yaml:1: zzz: unknown key"),
    "an unknown key without a value": ("server:\n  zzz:", "c.yaml:2: server.zzz: unknown key"),
    "snake case": ("server:\n  keep_alive: 1s", "c.yaml:2: server.keep_alive: unknown key (did you mean keepAlive?)"),
    "a key twice": ("server:\n  port: 1\n  port: 2", "c.yaml:3: server.port: is there twice"),
    "a section that is a number": ("server: 5", "c.yaml:1: server: must be a mapping"),
    "a file that is a list": ("- server", "c.yaml:1: must be a mapping"),
    "a file that is no YAML": ("server: {port: 1", "c.yaml:1: "),
    "two documents": ("server: {}\n---\nserver: {}", "c.yaml:2: "),
    "an old version": ("apiVersion: extender/v1", "apiVersion: must be 'extender/v1alpha1', not 'extender/v1'"),
    "another kind": ("kind: Pod", "c.yaml:1: kind: must be 'ExtenderConfiguration', not 'Pod'"),
    "a port that is text": ("server:\n\n  port: high", "c.yaml:3: server.port: must be a valid integer, not 'high'"),
    "a quoted number": ("server: {port: '80'}", "server.port: must be a valid integer, not '80'"),
    "a port beyond the last": ("server: {port: 65536}", "server.port: must be less than or equal to 65535, not 65536"),
    "a number for yes": ("server: {allowPlainHTTP: 1}", "server.allowPlainHTTP: must be a valid boolean, not 1"),
    "a duration without a unit": ("server: {keepAlive: 30}", "server.keepAlive: must be a duration such as 30s"),
    "a negative duration": ("server: {keepAlive: -3s}", "server.keepAlive: must be a duration such as 30s"),
    "a size that is none": ("server: {maxBodyFull: 2MB}", "server.maxBodyFull: must be a number of bytes such as 2Mi"),
    "a size of nothing": ("server: {maxBodyFull: 0}", "server.maxBodyFull: must be greater than or equal to 1"),
    "an empty path": ("cluster: {path: ''}", "cluster.path: "),
    "a source that does not exist": (
        "cluster: {source: kubernets}",
        "cluster.source: must be 'snapshot' or 'kubernetes', not 'kubernets'",
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
    "plain HTTP for everybody": ("server:\n  host: 0.0.0.0", "c.yaml:1: server: 0.0.0.0 is reachable by others"),
    "plain HTTP under a name": ("server: {host: extender.example}", "extender.example is reachable by others"),
    "an unknown filter plugin": (
        "filter:\n  plugins: [NodeName, TaintTolerations]",
        "c.yaml:2: filter.plugins: TaintTolerations is not one of NodeUnschedulable, ",
    ),
    "a filter plugin twice": ("filter: {plugins: [NodeName, NodeName]}", "filter.plugins: NodeName is there twice"),
    "a resource that cannot be": (
        "filter: {ignoredResources: [a/b/c]}",
        "filter.ignoredResources[0]: must be a resource name",
    ),
    "a resource group with a slash": (
        "filter: {ignoredResourceGroups: [a.b/c]}",
        "must be the part of resource names before",
    ),
    "an unknown score plugin": (
        "prioritize:\n  plugins:\n  - name: ImageLocality\n  - name: ImageLocalty",
        "c.yaml:4: prioritize.plugins[1].name: ImageLocalty is not one of",
    ),
    "a score plugin without a name": ("prioritize: {plugins: [{weight: 1}]}", "prioritize.plugins[0].name: is missing"),
    "a score plugin twice": (
        "prioritize: {plugins: [{name: ImageLocality}, {name: ImageLocality}]}",
        "ImageLocality is there twice",
    ),
    "a score plugin that counts nothing": (
        "prioritize: {plugins: [{name: ImageLocality, weight: 0}]}",
        "prioritize.plugins[0].weight: must be greater than or equal to 1, not 0",
    ),
    "a weight that is a fraction": (
        "prioritize: {plugins: [{name: ImageLocality, weight: 1.5}]}",
        "prioritize.plugins[0].weight: must be a valid integer, not '1.5'",
    ),
    "arguments of another plugin": (
        "prioritize: {plugins: [{name: ImageLocality, args: {resources: [{name: cpu}]}}]}",
        "prioritize.plugins[0]: ImageLocality takes no resources",
    ),
    "a resource weight of 101": (
        FIT + "resources: [{name: cpu, weight: 101}]",
        "must be less than or equal to 100, not 101",
    ),
    "no resources": (FIT + "resources: []", "c.yaml:6: prioritize.plugins[0].args.scoringStrategy.resources: "),
    "a ratio without a shape": (
        FIT + "type: RequestedToCapacityRatio",
        "and a requestedToCapacityRatio.shape need each other",
    ),
    "a shape without the ratio": (
        FIT + "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}",
        "and a requestedToCapacityRatio.shape need each other",
    ),
    "an empty shape": (CURVE + "[]", "requestedToCapacityRatio.shape: "),
    "a shape that does not rise": (
        CURVE + "[{utilization: 5, score: 1}, {utilization: 5, score: 2}]",
        "c.yaml:8: prioritize.plugins[0].args.scoringStrategy.requestedToCapacityRatio.shape: utilization must rise",
    ),
    "a score of 11": (
        CURVE + "[{utilization: 5, score: 11}]",
        "shape[0].score: must be less than or equal to 10, not 11",
    ),
    "a utilization of 101": (
        CURVE + "[{utilization: 101, score: 1}]",
        "shape[0].utilization: must be less than or equal to 100",
    ),
    "balanced resources of unlike weight": (
        "prioritize: {plugins: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]}",
        "weight must be 1 for every resource of NodeResourcesBalancedAllocation",
    ),
    "no node selector terms": (TERMS.rstrip() + " []", "nodeSelectorTerms: "),
    "a misspelt term": (
        TERMS + "- matchExpression: []",
        "matchExpression: unknown key (did you mean matchExpressions?)",
    ),
    "a misspelt operator": (EXPRESSION + "{key: a, operator: in}", "operator: must be 'In', 'NotIn', "),
    "In without values": (EXPRESSION + "{key: a, operator: In}", "matchExpressions[0]: In needs values"),
    "Exists with values": (EXPRESSION + "{key: a, operator: Exists, values: [b]}", "Exists takes no values"),
    "Gt with text": (EXPRESSION + "{key: a, operator: Gt, values: [b]}", "Gt needs exactly one value"),
    "a preference without weight": (
        "filter: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{preference: {}}]}}",
        "preferredDuringSchedulingIgnoredDuringExecution[0].weight: is missing",
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
        load("server: {prot: 1}\nfilter:\n  plugins: 5\n  zzz: 1\ncluster:\n  source: nowhere")
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["c.yaml:1", "server.prot"],
        ["c.yaml:3", "filter.plugins"],
        ["c.yaml:4", "filter.zzz"],
        ["c.yaml:6", "cluster.source"],
    ]


def test_the_order_of_mistakes_does_not_hang_on_the_name_of_the_file(tmp_path):
    path = tmp_path / "my extender.yaml"
    path.write_text("filter: {plugins: 5}\ncluster: {source: nowhere}")
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}:1: filter.plugins")
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
        assert str(error).startswith("c.yaml:")  # noqa: PT017, both outcomes are right
    else:
        assert load(render(config)) == config


# --- environment and command line -----------------------------------------------------------------------------------

SETTINGS = {
    "EXTENDER_SERVER__PORT": ("9000", lambda c: c.server.port, 9000),
    "EXTENDER_SERVER__HOST": ("localhost", lambda c: c.server.host, "localhost"),
    "EXTENDER_SERVER__KEEP_ALIVE": ("3m", lambda c: c.server.keep_alive, 180.0),
    "EXTENDER_SERVER__ALLOW_PLAIN_HTTP": ("true", lambda c: c.server.allow_plain_http, True),
    "EXTENDER_SERVER__MAX_BODY_FULL": ("1Mi", lambda c: c.server.max_body_full, 2**20),
    "EXTENDER_CLUSTER__PATH": ("2026", lambda c: c.cluster.path, "2026"),
    "EXTENDER_PREEMPTION__KEEP_CANDIDATES": ("All", lambda c: c.preemption.keep_candidates, "All"),
    "EXTENDER_SCHEDULER_NAMES": ("[a, b]", lambda c: c.scheduler_names, ["a", "b"]),
    "EXTENDER_FILTER__PLUGINS": ('["NodeName"]', lambda c: c.filter.plugins, ["NodeName"]),
    "EXTENDER_PRIORITIZE__PLUGINS": (
        "[{name: ImageLocality, weight: 7}]",
        lambda c: [(plugin.name, plugin.weight) for plugin in c.prioritize.plugins],
        [("ImageLocality", 7)],
    ),
}


@pytest.mark.parametrize(("name", "case"), SETTINGS.items(), ids=SETTINGS)
def test_the_environment_sets(name, case):
    text, read, value = case
    assert read(load_config(None, {name: text})) == value


def test_the_environment_stands_over_the_file_and_the_command_line_over_both(load):
    text = "server: {port: 1, keepAlive: 1s, maxBodyFull: 1}"
    env = {"EXTENDER_SERVER__PORT": "2", "EXTENDER_SERVER__KEEP_ALIVE": "2s"}
    server = load(text, env, {"--port": ("server.port", 3)}).server
    assert (server.port, server.keep_alive, server.max_body_full) == (3, 2.0, 1)


MISTAKEN_ENV = {
    "a name that is no setting": (
        "EXTENDER_SERVER__PROT",
        "1",
        "no such setting (did you mean EXTENDER_SERVER__PORT?)",
    ),
    "one underscore instead of two": (
        "EXTENDER_SERVER_PORT",
        "1",
        "no such setting (did you mean EXTENDER_SERVER__PORT?)",
    ),
    "the short name of a setting": ("EXTENDER_PORT", "9000", "no such setting (did you mean EXTENDER_SERVER__PORT?)"),
    "a whole section": ("EXTENDER_SERVER", "{port: 1}", "no such setting"),
    "the version": ("EXTENDER_API_VERSION", "extender/v1alpha1", "no such setting"),
    "a wrong value": ("EXTENDER_SERVER__PORT", "x", "server.port: must be a valid integer, not 'x'"),
    "an unknown key in a list": (
        "EXTENDER_PRIORITIZE__PLUGINS",
        "[{nam: x}]",
        "prioritize.plugins[0].nam: unknown key",
    ),
    "a value that is no YAML": ("EXTENDER_FILTER__PLUGINS", "[", ""),
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
    with pytest.raises(ConfigError, match=r"^--host: server: 0\.0\.0\.0 is reachable"):
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


@pytest.mark.parametrize("text", ["", FULL, "cluster: {path: '123'}\nserver: {host: '::1', keepAlive: 1h2m3s}"])
def test_what_is_printed_is_a_file_that_says_the_same(load, text):
    config = load(text)
    assert load(render(config)) == config


def test_every_key_is_printed_with_its_description(load):
    lines = render(load(FULL)).splitlines()
    assert all(len(line) <= 120 for line in lines)
    printed: list[type[Section]] = [type(value) for _, value in Configuration() if isinstance(value, Section)]
    printed.append(Configuration)
    for section in printed:
        for field in section.model_fields.values():
            first = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{field.alias}:"))
            assert lines[first - 1].strip().startswith("#"), field.alias


@pytest.mark.parametrize("section", list(sections()), ids=lambda section: section.__name__)
def test_every_field_is_described(section):
    assert [name for name, field in section.model_fields.items() if not field.description] == []


# --- the documentation ----------------------------------------------------------------------------------------------


def test_the_documentation_shows_the_defaults():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert shown == render(Configuration()), "put the output of `extender config show` into docs/configuration.md"
