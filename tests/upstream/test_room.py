"""Lock files and files of a minor agree with their names, without Go."""

import re
import subprocess
from pathlib import Path

import pytest

ROOM = Path(__file__).parent
OLDEST = 29
LOCKS = [ROOM / "go.mod", *sorted((ROOM / "modules").glob("*.mod"))]
EXACT = {"api", "apimachinery", "apiserver", "client-go", "component-base", "dynamic-resource-allocation"}
"""Staging modules that have a version for each release; of others one may be older."""


def release(lock: Path) -> tuple[int, int]:
    """Minor and patch of the Kubernetes that the lock file requires."""
    found = re.findall(r"^\s*k8s\.io/kubernetes v1\.(\d+)\.(\d+)$", lock.read_text(), re.MULTILINE)
    assert len(found) == 1, f"{lock.name} requires {found}"
    return int(found[0][0]), int(found[0][1])


def tools(lock: Path) -> set[str]:
    block = re.search(r"^tool \(\n(.*?)^\)", lock.read_text(), re.MULTILINE | re.DOTALL)
    assert block, f"{lock.name} has no tools"
    return set(block[1].split())


def test_go_mod_is_the_newest_minor_and_each_other_one_is_named_by_its_file():
    newest, *others = LOCKS
    assert others, "no lock files in modules/"
    assert [f"1.{release(lock)[0]}.mod" for lock in others] == [lock.name for lock in others]
    assert release(newest)[0] > max(release(lock)[0] for lock in others)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_staging_modules_are_those_of_the_release(lock):
    minor, patch = release(lock)
    replaced = re.findall(r"^\s*k8s\.io/(\S+) => k8s\.io/(\S+) v0\.(\d+)\.(\d+)$", lock.read_text(), re.MULTILINE)
    versions = {name: (int(of), int(number)) for name, other, of, number in replaced if name == other}
    assert len(versions) == len(replaced) == lock.read_text().count("=>")
    assert not {name for name, (of, number) in versions.items() if of != minor or number > patch}
    assert versions.keys() >= EXACT
    assert {versions[name] for name in EXACT} == {(minor, patch)}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_checksums_belong_to_the_release(lock):
    minor, patch = release(lock)
    sums = re.findall(r"^k8s\.io/kubernetes ([^\s/]+) h1:", lock.with_suffix(".sum").read_text(), re.MULTILINE)
    assert sums == [f"v1.{minor}.{patch}"]


def test_every_lock_file_holds_the_same_commands():
    assert [tools(lock) for lock in LOCKS] == [tools(LOCKS[0])] * len(LOCKS)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_build_says_which_release_a_locked_minor_is(lock):
    minor, patch = release(lock)
    asked = subprocess.run([ROOM / "build", "version", str(minor)], capture_output=True, text=True, check=True)
    assert asked.stdout == f"1.{minor}.{patch}\n"


@pytest.mark.parametrize("wrong", ["", "1.37", "28", "36.02", "37.x", "37 36"])
def test_build_refuses_what_is_not_a_version(wrong):
    asked = subprocess.run([ROOM / "build", "version", wrong], capture_output=True, text=True)
    assert asked.returncode == 1
    assert asked.stderr.startswith("error: ")


def minors_of_constraint(path: Path, minors: range) -> set[int]:
    """The minors for which Go compiles the file: 1.34 has the tag before35, before36 and so on."""
    constraint = re.match(r"//go:build (!?before\d+(?: && !?before\d+)*)\n\npackage main\n", path.read_text())
    assert constraint, f"{path.name} has no constraint"
    terms = [(term.startswith("!"), int(term.partition("before")[2])) for term in constraint[1].split(" && ")]
    return {minor for minor in minors if all((minor < number) != negated for negated, number in terms)}


def minors_of_name(path: Path, minors: range) -> set[int]:
    named = [int(number) for number in re.findall(r"v1_(\d+)", path.stem)]
    low = {"since": named[0], "until": OLDEST, "only": named[0]}[path.stem.partition("_")[0]]
    high = minors[-1] if path.stem.startswith("since_") else named[-1]
    return set(range(low, high + 1))


def test_each_file_of_some_minors_is_built_for_those_in_its_name_and_explained():
    minors = range(OLDEST, release(LOCKS[0])[0] + 1)
    files = sorted(path for folder in ("judge", "cel") for path in (ROOM / folder).glob("*v1_*.go"))
    assert {path: minors_of_constraint(path, minors) for path in files} == {
        path: minors_of_name(path, minors) for path in files
    }
    explained = set(re.findall(r"`(\w+_v1_\w+\.go)`", (ROOM / "README.md").read_text().partition("1.38")[0]))
    assert explained == {path.name for path in files}
