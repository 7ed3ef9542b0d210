"""`make check-release` finds each mistake, and the CHANGELOG's section of a version is cut out."""

import re
import subprocess
import sys

import pytest

from tests.e2e.release import changelog, check
from tests.e2e.release.changelog import ROOT, section


@pytest.fixture
def checkout(tmp_path):
    """A copy of what is checked, with addresses of its own."""
    named = {path for pattern in check.PLACES for path in ROOT.glob(pattern) if path.is_file()}
    others = set(ROOT.glob("extender/**/*")) - {ROOT / "extender" / "version.py"}
    for path in {*named, ROOT / "Dockerfile"} - others:
        content = path.read_bytes()
        for host in check.PLACEHOLDERS:
            content = content.replace(host.encode(), b"project.internal")
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    return tmp_path


def change(path, before, after):
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_this_checkout_lacks_its_addresses_and_nothing_else():
    found = check.mistakes(ROOT, "v0.1.0")
    assert all(line.endswith("is a reserved name (RFC 2606)") for line in found)
    named = {line.partition(":")[0] for line in found}
    assert {"pyproject.toml", "SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml", "docs/install.md"} <= named


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


HOSTS = ("example.com", "code.example.org", "docs.test", "x.example", "x.invalid", "localhost")


@pytest.mark.parametrize("host", HOSTS)
def test_no_address_of_the_project_is_a_reserved_name(checkout, host):
    text = (checkout / check.CHART).read_text(encoding="utf-8")
    text += f"deprecated: false  # https://{host}/x https://{host}/y\n"
    (checkout / check.CHART).write_text(text, encoding="utf-8")
    line = text.count("\n")
    assert check.mistakes(checkout, "v0.1.0") == [f"{check.CHART}:{line}: {host} is a reserved name (RFC 2606)"]


@pytest.mark.parametrize("name", ["README.md", "docs/new.md", "deploy/helm/new.yaml", ".github/workflows/new.yaml"])
def test_a_name_that_stands_for_the_projects_own_is_found_everywhere(checkout, name):
    with (checkout / name).open("a", encoding="utf-8") as file:
        file.write("image: images.example.com/x, other.example.com/x\n")
    (mistake,) = check.mistakes(checkout, "v0.1.0")
    assert re.fullmatch(rf"{re.escape(name)}:\d+: images\.example\.com is a reserved name \(RFC 2606\)", mistake)


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


def test_the_notes_are_the_section_of_the_tag_with_links_that_lead_somewhere(capsys):
    assert changelog.main("v0.1.0") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("First release")
    links = re.findall(r"\]\(([^)]+)\)", printed)
    files = [link.removeprefix("https://code.example.com/kube-scheduler-extender/blob/v0.1.0/") for link in links]
    assert len(files) > 20
    assert all((ROOT / file.partition("#")[0]).exists() for file in files)


def test_links_to_other_places_stay():
    text = "[a](docs/a.md#b), [c](https://docs.test/c)"
    assert changelog.with_absolute_links(text, "s", "v1") == "[a](s/blob/v1/docs/a.md#b), [c](https://docs.test/c)"


def test_notes_of_a_version_without_a_section_fail(capsys):
    assert changelog.main("v9.9.9") == 1
    assert "no section" in capsys.readouterr().err
