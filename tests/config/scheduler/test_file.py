"""kube-scheduler's file as its decoder reads it (v1.37.2, asked), and a ConfigMap that holds it."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from extender import cli
from extender.config import load_config
from extender.config.scheduler.file import SECOND_DOCUMENT
from extender.config.scheduler.load import kube_scheduler_of, read_configuration, read_scheduler
from extender.errors import ConfigError

GIVEN = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 16,
}
JSON = json.dumps(GIVEN)
YAML = yaml.safe_dump(GIVEN)
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "kube-system"}}


def config_map(**data):
    return {**CONFIG_MAP, "data": {key.replace("_", "."): text for key, text in data.items()}}


@pytest.fixture
def read(tmp_path):
    """Read a file, which is called `k.yaml` in messages; returns its percentage, and what is not read of it."""
    path = tmp_path / "k.yaml"

    def read(text):
        path.write_text(text, encoding="utf-8")
        try:
            found = read_configuration(path)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), "k.yaml")) from error
        unread = found.document.places.get(SECOND_DOCUMENT)
        return found.config.percentage_of_nodes_to_score, unread and unread.line

    return read


STARTS = {
    "JSON": (JSON, None),
    "JSON after blanks": (f"\n  {JSON}", None),
    "JSON after a comment is YAML": (f"# c\n{JSON}", None),
    "JSON with a tab": (json.dumps(GIVEN, indent="\t"), None),
    "a document that begins with ---": (f"# c\n---\n{YAML}", None),
    "a second document": (f"{YAML}---\nkind: X\n", 4),
    "a second document that is not YAML": (f"{YAML}---\nfoo: [1\n", 4),
    "a second document with a duplicate key": (f"{YAML}---\na: 1\na: 2\n", 4),
    "a second document after ...": (f"{YAML}...\nfoo: 1\n", 5),
    "the third document is not empty": (f"{YAML}---\n---\nfoo: 1\n", 5),
    "an empty second document": (f"{YAML}---\n# nothing\n", None),
}


@pytest.mark.parametrize(("text", "unread"), STARTS.values(), ids=STARTS)
def test_what_kube_scheduler_starts_with_is_read_alike(read, text, unread):
    assert read(text) == (16, unread)


REFUSED = {
    "JSON with a trailing comma": (f"{JSON[:-1]},}}", "k.yaml:1: begins with {, so kube-scheduler reads it as JSON: "),
    "JSON with text after it": (f"{JSON} x", "k.yaml:1: begins with {"),
    "JSON twice": (f"{JSON}\n{JSON}", "k.yaml:2: begins with {"),
    "JSON with a second document": (f"{JSON}\n---\nfoo: 1", "k.yaml:2: begins with {"),
    "JSON with a comment": (f"{JSON[:-1]}\n# c\n}}", "k.yaml:2: begins with {"),
    "JSON with a leading zero": (JSON.replace("16", "016"), "k.yaml:1: begins with {"),
    "a flow mapping of YAML": (JSON.replace('"', ""), "k.yaml:1: begins with {"),
    "JSON with a key twice": (f'{JSON[:-1]},\n"kind": "x"}}', "k.yaml:2: duplicate key 'kind'"),
    "JSON with 16.0": (JSON.replace("16", "16.0"), "k.yaml:1: percentageOfNodesToScore: must be a valid integer"),
    "JSON with 1e1": (JSON.replace("16", "1e1"), "k.yaml:1: percentageOfNodesToScore: must be a valid integer"),
    "nested deeply": (f'{JSON[:-1]}, "x": {"[" * 5000}', "k.yaml:1: "),
    "a first document without anything": (f"---\n# c\n---\n{YAML}", "k.yaml:3: apiVersion: must be kubescheduler"),
    "a List": ("apiVersion: v1\nkind: List\nitems: []", "k.yaml:1: apiVersion: must be kubescheduler"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_kube_scheduler_refuses_is_refused(read, text, message):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(message), caught.value


# --- a ConfigMap ------------------------------------------------------------------------------------------------------

OTHERS = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([config_map(config_yaml=YAML)], id="its only key"),
        pytest.param([config_map(policy="kind: Policy", config_yaml=JSON)], id="the key that holds one"),
        pytest.param([OTHERS, config_map(a="b"), config_map(config_yaml=YAML)], id="among others"),
        pytest.param([{"apiVersion": "v1", "kind": "List", "items": [OTHERS, config_map(c=YAML)]}], id="a List"),
    ],
)
def test_a_config_map_that_holds_a_configuration_is_taken(read, objects):
    assert read(yaml.safe_dump_all(objects)) == (16, None)
    if len(objects) == 1:
        assert read(json.dumps(objects[0])) == (16, None)


def test_a_mistake_in_a_config_map_has_the_line_of_the_key_s_text(read):
    with pytest.raises(ConfigError) as caught:
        read(yaml.safe_dump(config_map(config_yaml=f"{YAML}\nprofile: []")))
    assert str(caught.value) == (
        "k.yaml: data[config.yaml] of ConfigMap c:5: profile: unknown key (did you mean profiles?)"
    )


def test_of_several_configurations_one_has_to_be_chosen(read):
    with pytest.raises(ConfigError) as caught:
        read(yaml.safe_dump(config_map(a_yaml=YAML, b_yaml=YAML)))
    assert str(caught.value) == (
        "k.yaml: holds several configurations, save one as a file: data[a.yaml] of ConfigMap c, "
        "data[b.yaml] of ConfigMap c"
    )


def test_a_config_map_is_taken_as_a_mapping_too():
    assert kube_scheduler_of(config_map(c=YAML)) == kube_scheduler_of(GIVEN)


# --- all mistakes -----------------------------------------------------------------------------------------------------


def test_mistakes_of_all_steps_are_reported(tmp_path):
    path, ours = tmp_path / "k.yaml", tmp_path / "extender.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profile: []\n"
        "profiles:\n"
        "- schedulerName: on\n"
        "- schedulerName: a\n"
        "  percentageOfNodesToScore: 101\n"
        "  plugins: {filter: {enabled: [{name: ImageLocality}]}}\n"
        "  pluginConfig:\n"
        "  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 101}}\n"
    )
    ours.write_text(f"scheduler: {{config: {path}}}")
    with pytest.raises(ConfigError) as caught:
        read_scheduler(load_config(ours, {}))
    assert [line.removeprefix(f"{path}:").split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["3", "profile"],
        ["5", "profiles[0].schedulerName"],
        ["7", "profiles[1].percentageOfNodesToScore"],
        ["8", "profiles[1].plugins.filter.enabled[0]"],
        ["10", "profiles[1].pluginConfig[0].args.minCandidateNodesPercentage"],
    ]


# --- config check -----------------------------------------------------------------------------------------------------


def test_config_check_says_what_is_not_read_and_which_versions_refuse_the_file(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(f"{YAML}profiles:\n- plugins: {{preFilter: {{enabled: [{{name: NodeName}}]}}}}\n---\nkind: X\n")
    result = CliRunner().invoke(cli.app, ["config", "check", "--scheduler-config", str(path)], env={})
    assert result.exit_code == 1, result.output
    assert (
        f"warning: {path}:6: documents[1]: has no effect: kube-scheduler reads only the first document" in result.stdout
    )
    assert (
        f"note: {path}:1: apiVersion: kube-scheduler 1.29 to 1.36 does not start with this file: {path}:5: "
        'profiles[0].plugins.preFilter.enabled[0]: plugin "NodeName" does not extend PreFilterPlugin plugin'
    ) in result.stdout


def test_versions_that_lack_a_feature_gate_do_not_refuse_the_file(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(YAML)
    gates = {"EXTENDER_SCHEDULER__FEATURE_GATES": "{DRAFractionalCapacityRange: true}"}
    shown = CliRunner().invoke(cli.app, ["config", "check", "--scheduler-config", str(path)], env=gates).stdout
    assert "does not start" not in shown, shown
