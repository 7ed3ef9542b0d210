"""The targets of a release: `make dist`, whose files have the same bytes each time; check-release, release-notes."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from extender import __version__
from tests.e2e.release.changelog import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VENV = Path(sys.prefix)
EPOCH = "1767225600"


def copied(directory):
    """Copy what git knows or would add, as a clone would have it: without builds, and with other file times."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    return directory


def make(directory, *words):
    """Make a target with the virtual environment of these tests."""
    stamp = f"{VENV}/.dev-stamp"  # not made again, although the copied lock files are newer
    command = ["make", *words, f"VENV={VENV}", f"--old-file={stamp}"]
    outer = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}  # of a make that runs these tests
    env = {name: value for name, value in os.environ.items() if name not in outer} | {"SOURCE_DATE_EPOCH": EPOCH}
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True)


def make_dist(directory):
    """Return what the target built, wheel first."""
    done = make(directory, "dist")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.sub(r"\x1b\[\d+m", "", done.stdout).count("PASSED") == 2  # twine's
    built = sorted((directory / "build" / "dist").iterdir(), key=lambda path: path.suffix == ".gz")
    assert [path.name.rpartition(__version__)[2] for path in built] == ["-py3-none-any.whl", ".tar.gz"]
    return built


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def built(copy):
    return make_dist(copy)


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(built[0]) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def metadata(wheel):
    return message_from_bytes(next(text for name, text in wheel.items() if name.endswith(".dist-info/METADATA")))


def test_a_second_build_elsewhere_has_the_same_bytes_and_removes_the_first(built, tmp_path):
    first = [path.read_bytes() for path in built]
    copied(tmp_path)
    older = tmp_path / "build" / "dist" / "older.whl"
    older.parent.mkdir(parents=True)
    older.touch()
    assert [path.read_bytes() for path in make_dist(tmp_path)] == first


def test_the_wheel_of_the_checkout_is_the_one_of_the_sdist(copy, wheel, tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(command, cwd=copy, env=env, capture_output=True, check=True)
    (direct,) = tmp_path.iterdir()
    with zipfile.ZipFile(direct) as file:
        assert {name: file.read(name) for name in file.namelist()} == wheel


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(copy, wheel):
    found = [path for path in (copy / "extender").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    files = {str(path.relative_to(copy)) for path in found}
    assert {name for name in wheel if ".dist-info/" not in name} == files
    assert {"extender/py.typed", "extender/cluster/files/example.yaml", "extender/server/ui/index.html"} <= files
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)


def test_the_sdist_has_no_tests_and_no_machine(built):
    with tarfile.open(built[1]) as file:
        members = file.getmembers()
    tops = {one.name.split("/")[1] for one in members}
    assert {"extender", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO"} <= tops
    assert not tops & {"tests", "benchmarks", ".github"}
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {(0, 0, "", "", int(EPOCH))}


def test_the_metadata_is_the_projects(metadata):
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], __version__)
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert dict(one.split(", ", 1) for one in metadata.get_all("Project-URL", [])) == PROJECT["urls"]
    assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_no_link_of_the_readme_is_relative(metadata):
    text = metadata.get_payload()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert not [link for link in links if not re.match(r"https?://|#", link)]
    source = PROJECT["urls"]["Source"]
    assert all(f"/v{__version__}/" in link for link in links if link.startswith((f"{source}/blob/", f"{source}/raw/")))


def test_the_other_targets_of_a_release_check_and_cut_out_the_tag(copy):
    checked = make(copy, "check-release", "TAG=v9.9.9")
    assert checked.returncode != 0
    assert f"extender/version.py:3: has version {__version__}, the tag is v9.9.9\n" in checked.stdout
    assert make(copy, "release-notes", f"TAG=v{__version__}").returncode == 0
    notes = (copy / "build" / "release-notes.md").read_text(encoding="utf-8")
    assert notes.partition("](")[0] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert make(copy, "release-notes", "TAG=v9.9.9").returncode != 0
    assert re.findall("^([a-z]+)=.+$", make(copy, "addresses").stdout, re.MULTILINE) == ["registry", "image", "charts"]


def test_a_version_is_set_in_all_files(tmp_path):
    copied(tmp_path)
    for wrong in ("v9.9.9", "9.9", "9.9.9rc1"):
        assert f"{wrong} is not three numbers" in make(tmp_path, "set-version", f"VERSION={wrong}").stderr
    assert make(tmp_path, "set-version", "VERSION=9.9.9").returncode == 0
    left = make(tmp_path, "check-release").stdout.splitlines()  # the tag is that of the version
    named = [line for line in left if not line.endswith("is a reserved name (RFC 2606)")]
    assert [line.partition(" ")[0] for line in named] == ["CHANGELOG.md:", "CHANGELOG.md:"]
