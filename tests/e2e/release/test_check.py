"""`make check-release` finds each mistake, and the CHANGELOG's section of a version is cut out."""

import shutil
import subprocess
import sys

import pytest

from tests.e2e.release import changelog, check
from tests.e2e.release.changelog import ROOT, section

FILES = (
    *(name for name in check.ADDRESSED if (ROOT / name).exists()),
    "extender/version.py",
    "CHANGELOG.md",
    "Dockerfile",
)


@pytest.fixture
def checkout(tmp_path):
    """A copy of what is checked, with an address of its own."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path)
    for name in check.ADDRESSED:
        if (tmp_path / name).exists():
            change(tmp_path / name, "example.com", "project.internal")
    return tmp_path


def change(path, before, after):
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_this_checkout_lacks_its_addresses_and_nothing_else():
    found = check.mistakes(ROOT, "v0.1.0")
    assert all(line.endswith("is a reserved name (RFC 2606), not the project's address") for line in found)
    named = {line.partition(":")[0] for line in found}
    assert {"pyproject.toml", "SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml"} <= named


def test_with_addresses_it_can_be_released(checkout):
    assert check.mistakes(checkout, "v0.1.0") == []


@pytest.mark.parametrize(
    ("name", "before", "after", "mistake"),
    [
        ("extender/version.py", "0.1.0", "0.1.1", "extender/version.py: has version 0.1.1, the tag is v0.1.0"),
        (
            check.CHART,
            "\nversion: 0.1.0",
            "\nversion: 0.2.0",
            f"{check.CHART}, version: has version 0.2.0, the tag is v0.1.0",
        ),
        (
            check.CHART,
            "appVersion: 0.1.0",
            "appVersion: 1",
            f"{check.CHART}, appVersion: has version 1, the tag is v0.1.0",
        ),
        ("Dockerfile", 'version="0.1.0"', 'version="0"', "Dockerfile, label: has version 0, the tag is v0.1.0"),
        ("CHANGELOG.md", "## [0.1.0] - ", "## [0.1.0] ", "CHANGELOG.md: has no section `## [0.1.0] - YYYY-MM-DD`"),
    ],
)
def test_a_mistake_is_a_line(checkout, name, before, after, mistake):
    change(checkout / name, before, after)
    assert check.mistakes(checkout, "v0.1.0") == [mistake]


@pytest.mark.parametrize(
    "host", ["example.com", "code.example.org", "docs.test", "x.example", "x.invalid", "localhost"]
)
def test_a_reserved_name_is_no_address(checkout, host):
    with (checkout / check.CHART).open("a", encoding="utf-8") as file:
        file.write(f"home: https://{host}/x\n")
    (mistake,) = check.mistakes(checkout, "v0.1.0")
    assert mistake.startswith(f"{check.CHART}:")
    assert f": {host} is a reserved name" in mistake


def test_another_tag_differs_everywhere(checkout):
    assert len(check.mistakes(checkout, "v0.2.0")) == 5
    assert check.mistakes(checkout, "0.1.0") != []


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 1), ("v9.9.9", 1)])
def test_the_command_prints_a_line_for_each(tag, code):
    command = [sys.executable, "-m", "tests.e2e.release.check", tag]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    assert done.stdout.splitlines() == check.mistakes(ROOT, tag)


CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-02

### Fixed

- a

## [0.1.0] - 2026-11-26

### Added

- [b](c)

[0.1.0]: d
"""


def test_a_section_is_cut_out_without_its_heading():
    assert section(CHANGELOG, "0.2.0") == "### Fixed\n\n- a\n"
    assert section(CHANGELOG, "0.1.0") == "### Added\n\n- [b](c)\n"
    assert section(CHANGELOG, "0.3.0") is None
    assert section(CHANGELOG, "Unreleased") is None


def test_the_notes_are_the_section_of_the_tag(capsys):
    assert changelog.main("v0.1.0") == 0
    printed = capsys.readouterr().out
    assert printed == section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "0.1.0")
    assert printed.startswith("First release")


def test_notes_of_a_version_without_a_section_fail(capsys):
    assert changelog.main("v9.9.9") == 1
    assert "no section" in capsys.readouterr().err
