"""The workflows as far as they can be checked without GitHub: valid, pinned, audited, and made of our own targets."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.e2e.control_plane.lab.binaries import BUILT, NEWEST, SCHEDULERS
from tests.e2e.release.changelog import ROOT
from tests.e2e.release.pipelines import GITHUB, WORKFLOWS, named, read, repository, run, steps

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
STEPS = list(steps())
BIN = Path(sys.executable).parent

SCHEMAS = {
    **dict.fromkeys(WORKFLOWS, "github-workflows"),
    GITHUB / "dependabot.yaml": "dependabot",
    **dict.fromkeys(sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.y*ml")), "github-issue-forms"),
    GITHUB / "ISSUE_TEMPLATE" / "config.yml": "github-issue-config",
}
"""File -> schema that check-jsonschema ships."""


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_file_is_valid(path):
    command: list[str | Path] = [BIN / "check-jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[path]}", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_an_audit_finds_nothing():
    """The strictest persona without false positives; what needs a network is left out."""
    options = ["--offline", "--persona", "pedantic", "--strict-collection", "--no-progress"]
    command: list[str | Path] = [BIN / "zizmor", *options, GITHUB]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings to report" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_hash_and_says_its_version(path):
    for line in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
        assert line.startswith("$/") or re.fullmatch(r"[\w-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line


def test_an_action_has_one_version_in_all_workflows():
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    pinned = re.findall(r"uses: ([\w-]+/[\w.-]+)@(.*)", text)
    assert len(set(pinned)) == len(dict(pinned)) >= 10


def test_nothing_is_allowed_but_what_a_job_asks_for_and_each_job_ends():
    for path in WORKFLOWS:
        workflow = read(path.name)
        assert workflow["permissions"] == {}
        assert workflow["concurrency"]["group"]
        assert workflow["defaults"]["run"]["shell"] == "bash"
        for job in workflow["jobs"].values():
            assert job["permissions"]
            assert "uses" in job or int(job["timeout-minutes"]) <= 90


def targets(script):
    """The targets that a script makes."""
    made = re.findall(r"(?:^|\s)make ((?:[\w=\"$-]+ ?)+)", script, re.MULTILINE)
    return {word for words in made for word in words.split() if "=" not in word}


def test_every_target_that_is_made_is_in_the_makefile():
    made = set().union(*(targets(step.script) for step in STEPS))
    assert {"check", "test", "test-all", "e2e", "docs", "dist", "sbom", "chart", "check-release", "addresses"} <= made
    assert made <= set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))


def test_the_pythons_are_those_of_the_package():
    pythons = read("test.yaml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert pythons == classified
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    others = {
        step.content["with"]["python-version"]
        for step in STEPS
        if step.content.get("uses", "").startswith("actions/setup-python@")
    }
    assert others == {pythons[0], "${{ matrix.python }}"}


SCRIPTS = [step for step in STEPS if step.script]


@pytest.mark.parametrize("step", SCRIPTS, ids=[f"{one.workflow} {one.script.splitlines()[0][:40]}" for one in SCRIPTS])
def test_a_script_is_bash_and_takes_what_it_gets_as_variables(step):
    done = subprocess.run(["bash", "-n", "-c", step.script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "${{" not in step.script


def test_files_that_scripts_run_are_in_the_repository():
    found = {name for step in SCRIPTS for name in re.findall(r"(?:^|\s)(\.ci/\w+)", step.script)}
    assert found == {".ci/tools"}
    assert all((ROOT / name).stat().st_mode & 0o111 for name in found)


# --- scripts that run here ------------------------------------------------------------------------------------------

SECRETS = {"REGISTRY_USERNAME": "name", "REGISTRY_PASSWORD": "password"}


def test_a_release_needs_both_secrets_of_the_registry(tmp_path):
    step = named("release.yaml", "Check the secrets")
    assert step.content["env"] == {name: f"${{{{ secrets.{name} }}}}" for name in SECRETS}
    assert run(step, tmp_path, SECRETS).returncode == 0
    for name in SECRETS:
        done = run(step, tmp_path, {**SECRETS, name: ""})
        assert done.returncode != 0
        assert f"set the secret {name} of the environment registry" in done.stderr


def test_a_token_of_a_job_goes_to_github_alone():
    given = {name for step in STEPS for name, value in step.content.get("env", {}).items() if "github.token" in value}
    assert given == {"GH_TOKEN"}


@pytest.mark.parametrize(
    ("tag", "is_newest"), [("v0.1.9", "false"), ("v0.1.10", "false"), ("v0.9.0", "false"), ("v0.10.0", "true")]
)
def test_the_newest_release_is_the_one_with_the_highest_version(tag, is_newest, tmp_path):
    git = repository(tmp_path)
    git("tag", "--annotate", "--message", "a", "v0.1.10")
    for other in ("v0.10.0", "v0.1.9", "v0.9.0", "v0.10.0rc1", "vendor-1", "w1.0.0"):
        git("tag", other)
    git("remote", "add", "origin", str(tmp_path))
    output = tmp_path / "output"
    env = {"GITHUB_REF_NAME": tag, "GITHUB_OUTPUT": str(output)}
    done = run(named("release.yaml", "Find the newest release"), tmp_path, env)
    assert (done.returncode, output.read_text()) == (0, f"is-newest={is_newest}\n"), done.stderr


def test_only_the_newest_release_replaces_the_documentation_and_the_latest_one():
    jobs = read("release.yaml")["jobs"]
    assert jobs["docs"]["if"] == "needs.check.outputs.is-newest == 'true'"
    assert '--latest="$IS_NEWEST"' in named("release.yaml", "Create the release").script
    assert named("release.yaml", "Create the release").content["env"]["IS_NEWEST"] == (
        "${{ needs.check.outputs.is-newest }}"
    )


@pytest.mark.parametrize("exists", [True, False])
def test_an_image_that_exists_is_not_replaced(exists, tmp_path):
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@"\nexit {int(not exists)}\n', encoding="utf-8")
    (tmp_path / "docker").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "IMAGE": "images.example.com/x", "GITHUB_REF_NAME": "v1.2.3"}
    done = run(named("release.yaml", "Refuse an image that exists"), tmp_path, env)
    assert done.stdout == "buildx imagetools inspect images.example.com/x:1.2.3\n"
    assert (done.returncode, "exists already" in done.stderr) == (int(exists), exists)


def test_an_image_has_its_tag_once_it_is_attested_and_signed():
    names = [
        one.content.get("name") or one.content["uses"].partition("@")[0]
        for one in STEPS
        if (one.workflow, one.job) == ("release.yaml", "image")
    ]
    assert names.index("Refuse an image that exists") < names.index("Build and push the image")
    assert names[names.index("Build and push the image") :] == [
        "Build and push the image",
        "actions/attest",
        "Sign and tag the image",
    ]
    assert "push-by-digest=true" in named("release.yaml", "Build and push the image").script
    script = named("release.yaml", "Sign and tag the image").script
    assert script.index("cosign sign") < script.index("imagetools create --tag")


def test_nothing_is_published_before_all_tests_have_passed():
    jobs = read("release.yaml")["jobs"]

    def before(name):
        needed = jobs[name].get("needs", [])
        direct = {needed} if isinstance(needed, str) else set(needed)
        return direct.union(*map(before, direct))

    assert jobs["test"]["uses"] == "$/.github/workflows/test.yaml"
    assert "workflow_call" in read("test.yaml")["on"]
    for name in ("image", "chart", "package", "github", "docs"):
        assert {"check", "test"} <= before(name)


def test_the_files_of_a_release_are_collected_with_their_hashes(tmp_path):
    built = "dist/x-1.2.3-py3-none-any.whl", "dist/x-1.2.3.tar.gz", "charts/x-1.2.3.tgz", "sbom.json"
    for name in built:
        path = tmp_path / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    done = run(named("release.yaml", "Collect the files"), tmp_path, {"GITHUB_REF_NAME": "v1.2.3"})
    assert (done.returncode, done.stderr) == (0, "")
    release = tmp_path / "build" / "release"
    files = {"x-1.2.3-py3-none-any.whl", "x-1.2.3.tar.gz", "x-1.2.3.tgz", "kube-scheduler-extender-1.2.3.cdx.json"}
    assert {path.name for path in release.iterdir()} == {*files, "SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, check=True, capture_output=True)
    assert {line.split()[1] for line in (release / "SHA256SUMS").read_text().splitlines()} == files


def test_the_notes_of_a_release_begin_with_the_digests(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release-notes.md").write_text("### Added\n", encoding="utf-8")
    env = {"IMAGE": "images.example.com/extender@sha256:1", "CHART": "images.example.com/charts/x@sha256:2"}
    done = run(named("release.yaml", "Write the notes"), tmp_path, env)
    assert (done.returncode, done.stderr) == (0, "")
    notes = (tmp_path / "build" / "notes.md").read_text(encoding="utf-8")
    assert notes.startswith("Image: `images.example.com/extender@sha256:1`\n")
    assert "Chart: `oci://images.example.com/charts/x@sha256:2`\n" in notes
    assert notes.endswith("\n### Added\n")


def test_the_base_image_of_a_release_is_that_of_the_dockerfile():
    """Its reference and its digest come from commands; here the digest's command is replaced by one that prints one."""
    script = named("release.yaml", "Build and push the image").script.partition("docker buildx create")[0]
    fake = "docker() { [[ $4 == python:* ]] && echo sha256:0; }\n"
    command = ["bash", "-eo", "pipefail", "-c", f'{fake}{script}\necho "$base"']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:0\n", done.stdout), done.stderr


def test_the_image_is_built_as_the_dockerfile_says():
    script = named("release.yaml", "Build and push the image").script
    head = (ROOT / "Dockerfile").read_text(encoding="utf-8").partition("\nARG")[0]
    for words in ("docker buildx build", "--build-arg BASE=", "--build-arg", "SOURCE_DATE_EPOCH=", "rewrite-timestamp"):
        assert words in script
        assert words in head
    assert "git log -1 --format=%ct" in script
    assert "git log -1 --format=%ct" in head


def test_no_pull_request_where_nothing_is_newer(tmp_path):
    repository(tmp_path)
    done = run(named("update.yaml", "Open a pull request"), tmp_path, {})
    assert (done.returncode, done.stdout) == (0, "All locked packages are up to date.\n")


# --- the control plane of make e2e ----------------------------------------------------------------------------------


def test_what_make_e2e_builds_is_what_the_tests_ask_for():
    """As it would be in a fresh clone; nothing is built. The newest minor is that of the Go module."""
    module = (ROOT / "tests" / "upstream" / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{NEWEST}." in module
    words = ["make", "--dry-run", "--always-make", "e2e", f"VENV={sys.prefix}", "KUBE_BIN="]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    older = {
        f"tests/upstream/build scheduler {minor.removeprefix('1.')} {BUILT}" for minor in SCHEDULERS if minor != NEWEST
    }
    built = {line for line in done.stdout.splitlines() if line.startswith("tests/upstream/build")}
    assert built == {f"tests/upstream/build control-plane {NEWEST.removeprefix('1.')}", *older}
    assert f'\nKUBE_BIN="{BUILT}" ' in done.stdout


def test_a_binary_that_is_missing_in_kube_bin_is_named(tmp_path):
    for name in ("etcd", "kube-scheduler"):
        (tmp_path / name).touch(0o755)
    done = subprocess.run(["make", "e2e", f"KUBE_BIN={tmp_path}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"KUBE_BIN={tmp_path} has no executable kube-apiserver kube-controller-manager;" in done.stderr


@pytest.mark.parametrize("target", ["e2e", "bench-cluster"])
def test_nothing_is_built_where_kube_bin_has_the_binaries(target, tmp_path):
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        (tmp_path / name).touch(0o755)
    words = ["make", "--dry-run", target, f"VENV={sys.prefix}", f"KUBE_BIN={tmp_path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "tests/upstream/build" in done.stdout) == (0, False), done.stderr
    assert f'KUBE_BIN="{tmp_path}" {sys.prefix}/bin/python' in done.stdout
