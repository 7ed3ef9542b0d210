"""The chart as it is released: its metadata, README, values, examples, refusals, and what is packed."""

import json
import re
import shutil
import subprocess
import tarfile
import tomllib

import pytest
import yaml

from extender import __version__
from tests.e2e.deploy.chart_readme import README, commands, page, rows
from tests.e2e.deploy.manifests import (
    CHART,
    CHARTED,
    DEPLOY,
    EXAMPLES,
    HELM,
    NO_HELM,
    ROOT,
    chart,
    containers,
    hooks_of,
    of_kind,
    pod_of,
    rendered,
)
from tests.e2e.deploy.schemas import OLDEST, VERSIONS

needs_helm = pytest.mark.skipif(not HELM, reason=NO_HELM)

ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
VALUES_FILE = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load(VALUES_FILE)
ROWS = rows(VALUES_FILE)
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
README_TEXT = README.read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# --- Chart.yaml -----------------------------------------------------------------------------------------------------

ANNOTATIONS = {
    "alternativeName", "category", "changes", "containsSecurityUpdates", "crds", "crdsExamples", "images", "license",
    "links", "maintainers", "operator", "operatorCapabilities", "prerelease", "recommendations", "screenshots",
    "signKey",
}  # fmt: skip
"""What Artifact Hub knows (docs/helm_annotations.md there)."""


def annotation(name):
    return ABOUT["annotations"][f"artifacthub.io/{name}"]


def test_chart_and_image_have_the_version_of_the_package():
    assert ABOUT["version"] == ABOUT["appVersion"] == __version__


def test_addresses_are_those_of_the_package():
    urls = PROJECT["urls"]
    assert (ABOUT["home"], ABOUT["sources"]) == (urls["Homepage"], [urls["Source"]])
    assert [one["url"] for one in ABOUT["maintainers"]] == [urls["Homepage"]]
    named = {one["name"]: one["url"] for one in yaml.safe_load(annotation("links"))}
    assert named == {name: urls[name] for name in named}
    assert set(re.findall(r"https://[\w.-]+example\.com[\w/-]*", README_TEXT)) <= {
        *urls.values(), *(f"{urls['Source']}/blob/main/{path}" for path in ("docs/install", "CHANGELOG")),
    }  # fmt: skip


def test_annotations_are_known_to_artifact_hub():
    assert {name.partition("/")[2] for name in ABOUT["annotations"]} <= ANNOTATIONS
    assert all(isinstance(value, str) for value in ABOUT["annotations"].values())
    assert annotation("license") == PROJECT["license"]
    assert annotation("prerelease") == ("true" if "-" in ABOUT["version"] else "false")


@needs_helm
def test_annotated_images_are_those_that_the_chart_deploys():
    named = {one["name"]: one["image"] for one in yaml.safe_load(annotation("images"))}
    assert named == {one["name"]: one["image"] for one in containers(pod_of(chart({})))}


A_CLUSTER = "--api-versions=apiregistration.k8s.io/v1"
"""What every API server has, and helm without one does not know."""


def of_scheduler(version):
    return {"scheduler": {"image": f"registry.k8s.io/kube-scheduler:v{version}.1"}}


@needs_helm
def test_the_chart_installs_on_the_versions_that_it_is_tested_with_and_on_none_before():
    for version in VERSIONS:
        chart(of_scheduler(version), f"--kube-version={version}", A_CLUSTER)
    oldest = f"1.{OLDEST - 1}"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart(of_scheduler(oldest), f"--kube-version={oldest}", A_CLUSTER)
    assert re.search("kubeVersion.*incompatible", refused.value.stderr)


@needs_helm
@pytest.mark.parametrize("server", ["1.30", "v1.30.14-eks-1234567", "1.30.1+k3s1"])
def test_a_second_scheduler_is_not_newer_than_the_api_server(server):
    chart(of_scheduler("1.29"), f"--kube-version={server}", A_CLUSTER)
    chart({"variant": "Service"}, f"--kube-version={server}", A_CLUSTER)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart(of_scheduler("1.31"), f"--kube-version={server}", A_CLUSTER)
    assert "scheduler.image: v1.31 is newer than the API server, 1.30" in refused.value.stderr


@needs_helm
def test_without_a_cluster_the_version_of_the_api_server_is_not_known():
    """Else `helm template` and `helm lint` would refuse the default values, if helm is older than these."""
    chart({}, f"--kube-version=1.{OLDEST}")


# --- README.md and values.yaml --------------------------------------------------------------------------------------


def test_the_readme_is_up_to_date():
    assert page() == README_TEXT, "run `make chart-readme`"


def test_every_value_has_a_description():
    """And none that helm-docs would read otherwise: with ` --` inside, what stands before it would be a key."""
    assert [one.key for one in ROWS if not one.description.endswith(".")] == []
    comments = re.findall(r"^ *# (.*)$", VALUES_FILE, re.MULTILINE)
    marks = re.compile(r"^(--|@default --) ")
    assert [one for one in comments if re.search(r"(^|\s)--", marks.sub("", one))] == []


def schema_of(key):
    found = SCHEMA
    for part in key.split("."):
        found = found["properties"][part]
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row.key for row in ROWS])
def test_a_value_has_the_type_that_the_schema_asks_for(row):
    schema = schema_of(row.key)
    types = {"bool": "boolean", "int": "integer", "list": "array", "object": "object", "string": "string"}
    if "enum" in schema:
        assert row.type == "string"
        assert [one for one in schema["enum"] if f"`{one}`" not in row.description] in ([], ["0.0.0.0"])
    else:
        assert schema["type"] == types[row.type]


def test_the_schema_has_no_value_that_the_table_leaves_out():
    def keys(schema, path):
        for name, below in schema["properties"].items():
            key = f"{path}{name}"
            if key in described:
                yield key
            else:
                yield from keys(below, f"{key}.")

    described = {one.key for one in ROWS}
    assert set(keys(SCHEMA, "")) == described


def test_the_chart_changes_nothing_before_it_is_told_to():
    assert yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]["mode"] == "Observe"


OPTION = re.compile(r"--[a-z][a-z-]+")


@needs_helm
@pytest.mark.parametrize("words", [words for words in commands() if words[0] == "helm"], ids=" ".join)
def test_helm_has_the_commands_of_the_readme(words):
    helped = subprocess.run([str(HELM), words[1], "--help"], capture_output=True, text=True, check=True).stdout
    assert {word for word in words if word.startswith("--")} <= set(OPTION.findall(helped))
    for word in words:
        if word.startswith("oci://"):
            assert words[words.index("--version") + 1] == ABOUT["version"]
            assert word.endswith(f"/charts/{ABOUT['name']}")


@needs_helm
def test_the_readme_removes_what_tests_leave_behind():
    (words,) = [words for words in commands() if "-l" in words]
    kinds = words[words.index("delete") + 1].split(",")
    labels = dict(one.split("=") for one in words[words.index("-l") + 1].split(","))
    left = hooks_of("helm service, everything")
    assert {one["kind"].lower() for one in left} == set(kinds)
    assert all(labels.items() <= one["metadata"]["labels"].items() for one in left)
    assert labels["app.kubernetes.io/instance"] == "extender"  # and nothing of another release
    assert {one["metadata"]["name"] for one in left} == {"extender-test"}
    (lease,) = [words[-1] for words in commands() if "lease" in words]
    assert lease == VALUES["scheduler"]["name"]


# --- examples -------------------------------------------------------------------------------------------------------


def test_the_readme_names_every_example_and_no_other():
    assert len(EXAMPLES) >= 6
    links = re.findall(r"^\| \[(examples/[\w.-]+)\]\((examples/[\w.-]+)\) \| (\w+) ", README_TEXT, re.MULTILINE)
    shown = {f"helm {path}": variant for name, path, variant in links if name == path}
    assert shown == {name: CHARTED[name]["variant"] for name in EXAMPLES}
    assert set(shown.values()) == set(SCHEMA["properties"]["variant"]["enum"])


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=[path.name for path in EXAMPLES.values()])
def test_an_example_says_what_it_is_for(path):
    head, found, _ = path.read_text(encoding="utf-8").partition("\nvariant: ")
    assert found
    assert re.match(r"# [A-Z]", head)
    assert all(line.startswith("# ") for line in head.splitlines())


# --- refusals and notes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"config": {"server": {"host": "0.0.0.0"}}}, r"\bconfig[./]server\b"),
        ({"config": {"cluster": {"source": "snapshot"}}}, r"\bconfig[./]cluster\b"),
        ({"variant": "Daemon"}, r"\bvariant'?: "),
        ({"replica": 1}, r"propert\w+ '?replica\b"),
        ({"scheduler": {"name": "default-scheduler"}}, r"\bscheduler[./]name\b"),
        ({"scheduler": {"extender": {"prioritizeVerb": "prioritize"}}}, r"\bweight\b"),
        ({"variant": "Service", "networkPolicy": {"enabled": True}}, "say from where kube-scheduler calls"),
        ({"tls": {"allowedNames": []}}, r"\btls[./]allowedNames\b"),
        ({"config": {"scheduler": {"config": "/a"}}}, r"\bconfig[./]scheduler\b"),
        ({"scheduler": {"image": "a/kube-scheduler:latest"}}, "set config.scheduler.version"),
        ({"scheduler": {"podMaxInUnschedulablePodsDuration": "30 s"}}, r"scheduler[./]podMaxInUnschedulable"),
        ({"schedulerConfig": {"configMap": "a"}}, "SecondScheduler has a file of its own"),
        ({"variant": "Service", "schedulerConfig": {"hostPath": "/a"}}, "is for ControlPlane"),
        ({"tests": {"clientSecretName": "Not A Name"}}, r"tests[./]clientSecretName"),
        ({"tests": {"clientSecret": "a"}}, r"propert\w+ '?clientSecret\b"),
        ({"tests": None, "variant": "Service"}, r"\btests\b.* (is )?required|property '?tests\b"),
        ({"scheduler": {"extender": None}}, r"\bextender\b.* (is )?required|property '?extender\b"),
        ({"scheduler": {"profiles": [{"schedulerName": "other"}]}}, "scheduler.profiles: none has scheduler.name"),
    ],
    ids=lambda value: value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True).strip(),
)
@needs_helm
def test_the_chart_refuses_what_cannot_be_meant(values, words):
    """It names the value; in which words is up to helm's version."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart(values)
    assert re.search(words, refused.value.stderr)


@needs_helm
@pytest.mark.parametrize("name", CHARTED)
def test_helm_finds_nothing_to_complain_of(name):
    done = subprocess.run(
        [str(HELM), "lint", "--strict", str(CHART), "--values", "-"],
        input=yaml.safe_dump(CHARTED[name]), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.count("[WARNING]")) == (0, 0), done.stdout


@needs_helm
def test_the_chart_says_what_to_do_next(tmp_path):
    directory = tmp_path / "chart"
    shutil.copytree(CHART, directory)
    (directory / "templates" / "NOTES.txt").rename(directory / "NOTES.txt")
    (directory / "templates" / "notes.yaml").write_text(NOTES, encoding="utf-8")
    notes = {variant: notes_of(variant, directory) for variant in ("SecondScheduler", "Service", "ControlPlane")}
    assert "schedulerName: extender-scheduler" in notes["SecondScheduler"]
    assert "https://extender.kube-system.svc:8888" in notes["Service"]
    assert "http://127.0.0.1:8888" in notes["ControlPlane"]
    assert {variant for variant, one in notes.items() if "schedulerConfig in values.yaml" in one} == {
        "Service",
        "ControlPlane",
    }
    assert all("decisions are made, logged and counted, but not enforced" in one for one in notes.values())
    assert all("helm test extender --namespace kube-system" in one for one in notes.values())


NOTES = "{kind: Notes, text: {{ tpl (.Files.Get `NOTES.txt`) . | toJson }}}"
"""As an object of the chart: helm prints notes only where it installs, and helm 3 asks a cluster then."""


def notes_of(variant, directory):
    (notes,) = of_kind(chart({"variant": variant}, directory=directory), "Notes")
    return notes["text"]


@needs_helm
@pytest.mark.parametrize("name", ["helm examples/second-scheduler-strict.yaml", "helm service, everything"])
def test_alerts_and_dashboard_are_those_of_the_monitoring_folder(name):
    (rule,) = of_kind(rendered(name), "PrometheusRule")
    (held,) = [one["data"] for one in of_kind(rendered(name), "ConfigMap") if "dashboard.json" in one["data"]]
    alerts, dashboard = (DEPLOY / "monitoring" / file for file in ("prometheusrule.yaml", "dashboard.json"))
    assert rule["spec"] == yaml.safe_load(alerts.read_text(encoding="utf-8"))["spec"]
    assert json.loads(held["dashboard.json"]) == json.loads(dashboard.read_text(encoding="utf-8"))


# --- what is packed -------------------------------------------------------------------------------------------------


@needs_helm
def test_a_packed_chart_has_all_files_and_renders_like_its_folder(tmp_path):
    """Its alerts and dashboard are files there, and links to deploy/monitoring in the folder."""
    subprocess.run(["make", "chart", f"HELM={HELM}", f"CHARTS={tmp_path}"], cwd=ROOT, capture_output=True, check=True)
    (packed,) = tmp_path.iterdir()
    assert packed.name == f"kube-scheduler-extender-{__version__}.tgz"
    with tarfile.open(packed) as archive:
        members = {one.name.partition("/")[2]: one for one in archive.getmembers()}
        assert all(one.isfile() for one in members.values())
        dashboard = archive.extractfile(members["files/dashboard.json"])
        assert dashboard is not None
        assert dashboard.read() == (DEPLOY / "monitoring" / "dashboard.json").read_bytes()
    own = {path.relative_to(CHART).as_posix() for path in CHART.rglob("*") if path.is_file()}
    ignored = {".helmignore"}  # some versions of helm pack it
    assert members.keys() - ignored == own - ignored - {"README.md.gotmpl"}
    for name in CHARTED:
        assert chart(CHARTED[name], directory=packed) == rendered(name) + hooks_of(name)


def test_without_helm_make_says_what_is_missing():
    done = subprocess.run(["make", "chart", "HELM=no-such-helm"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "'no-such-helm' is not found" in done.stderr
