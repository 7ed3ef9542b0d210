"""`make check-release` finds each mistake, and the CHANGELOG's section of a version is cut out."""

import re
import subprocess
import sys
import tomllib

import pytest

from extender import __version__
from tests.e2e.release import addresses, changelog, check, versions
from tests.e2e.release.changelog import ROOT, section

SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
TAG = f"v{__version__}"


@pytest.fixture
def checkout(tmp_path):
    """A copy of what is checked, with addresses of its own."""
    others = set(ROOT.glob("extender/**/*"))
    for path in (set(check.files(ROOT)) - others) | {ROOT / name for name in versions.BEFORE}:
        content = path.read_bytes()
        for host in check.PLACEHOLDERS:
            content = content.replace(host.encode(), b"project.internal")
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    return tmp_path


def change(path, before, after):
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_this_checkout_lacks_its_addresses_at_most():
    assert [line for line in check.mistakes(ROOT, TAG) if not line.endswith("is a reserved name (RFC 2606)")] == []


def test_with_addresses_it_can_be_released(checkout):
    assert check.mistakes(checkout, TAG) == []


@pytest.mark.parametrize(
    ("before", "after", "mistake"),
    [
        (f"## [{__version__}] - ", f"## [{__version__}] ", f"section `## [{__version__}] - YYYY-MM-DD`"),
        (f"\n[{__version__}]: ", "\n[0.0.1]: ", f"line `[{__version__}]: ` with the address of the release"),
    ],
)
def test_what_the_changelog_lacks_is_a_line(checkout, before, after, mistake):
    change(checkout / "CHANGELOG.md", before, after)
    assert check.mistakes(checkout, TAG) == [f"CHANGELOG.md: has no {mistake}"]


# --- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", versions.BEFORE)
def test_another_version_is_a_line_for_each_place(checkout, name):
    places = [place for place, _ in versions.versions(checkout) if place.startswith(f"{name}:")]
    assert len(places) >= len(versions.BEFORE[name])
    path = checkout / name
    lines = path.read_text(encoding="utf-8").splitlines()
    for place in places:
        number = int(place.rpartition(":")[2]) - 1
        assert __version__ in lines[number]
        lines[number] = lines[number].replace(__version__, "9.9.9")
    path.write_text("\n".join(lines), encoding="utf-8")
    assert check.mistakes(checkout, TAG) == [f"{place}: has version 9.9.9, the tag is {TAG}" for place in places]


@pytest.mark.parametrize("name", versions.BEFORE)
def test_a_place_without_a_version_is_a_line(checkout, name):
    change(checkout / name, __version__, "")
    found = check.mistakes(checkout, TAG)
    assert {f"{name}, {before}: has version none, the tag is {TAG}" for before in versions.BEFORE[name]} <= set(found)


def test_a_version_that_is_set_is_in_every_place_and_lacks_its_section_only(checkout):
    versions.set_versions(checkout, "9.9.9")
    assert {found for _, found in versions.versions(checkout)} == {"9.9.9"}
    assert [line.partition(":")[0] for line in check.mistakes(checkout, "v9.9.9")] == ["CHANGELOG.md"] * 2
    versions.set_versions(checkout, __version__)
    assert check.mistakes(checkout, TAG) == []


def test_no_other_file_has_the_version(checkout):
    """Except pages that say since when something is, and examples of what a version looks like."""
    said = {"CHANGELOG.md", "SECURITY.md", "docs/upgrade.md", "docs/versioning.md", ".github/ISSUE_TEMPLATE/bug.yml"}
    said |= {"CONTRIBUTING.md"}
    versions.set_versions(checkout, "9.9.9")
    pattern = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])".encode())
    files = {path for path in checkout.rglob("*") if path.is_file() and pattern.search(path.read_bytes())}
    assert {path.relative_to(checkout).as_posix() for path in files} <= said


# --- addresses ------------------------------------------------------------------------------------------------------

HOSTS = ("example.com", "code.example.org", "docs.test", "x.example", "x.invalid", "localhost")


@pytest.mark.parametrize("host", HOSTS)
def test_no_address_of_the_project_is_a_reserved_name(checkout, host):
    text = (checkout / check.CHART).read_text(encoding="utf-8")
    text += f"deprecated: false  # https://{host}/x https://{host}/y\n"
    (checkout / check.CHART).write_text(text, encoding="utf-8")
    line = text.count("\n")
    assert check.mistakes(checkout, TAG) == [f"{check.CHART}:{line}: {host} is a reserved name (RFC 2606)"]


@pytest.mark.parametrize("name", ["README.md", "docs/new.md", "deploy/helm/new.yaml", ".github/workflows/new.yaml"])
def test_a_name_that_stands_for_the_projects_own_is_found_everywhere(checkout, name):
    with (checkout / name).open("a", encoding="utf-8") as file:
        file.write("image: images.example.com/x, other.example.com/x\n")
    (mistake,) = check.mistakes(checkout, TAG)
    assert re.fullmatch(rf"{re.escape(name)}:\d+: images\.example\.com is a reserved name \(RFC 2606\)", mistake)


def test_a_release_is_published_where_people_install_it_from(checkout):
    """The image of the chart's values, and the folder of the chart in docs/install.md."""
    assert check.mistakes(checkout, TAG) == []
    found = addresses.addresses(checkout)
    assert found.image.endswith("/kube-scheduler-extender")
    assert {one.partition("/")[0] for one in (found.image, found.charts)} == {found.registry}
    command = [sys.executable, "-m", "tests.e2e.release.addresses"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert dict(line.split("=") for line in printed.splitlines()) == addresses.addresses(ROOT)._asdict()


@pytest.mark.parametrize("name", ["docs/install.md", "SECURITY.md", check.CHART])
def test_another_address_of_the_image_is_a_line(checkout, name):
    image = addresses.addresses(checkout).image
    change(checkout / name, image, f"other/{image}")
    found = check.mistakes(checkout, TAG)
    assert found
    assert all(line.startswith((f"{name}: lacks `", f"{name}: has oci://other/")) and image in line for line in found)


def test_a_chart_in_another_registry_is_a_line(checkout):
    folder = addresses.addresses(checkout).charts
    for name in ("docs/install.md", "SECURITY.md", "deploy/helm/kube-scheduler-extender/README.md"):
        change(checkout / name, folder, "charts.internal/charts")
    (line,) = check.mistakes(checkout, TAG)
    assert line.startswith("docs/install.md: the chart is in charts.internal/charts, ")


def test_another_address_of_the_chart_is_a_line(checkout):
    """The second one of two."""
    name = "deploy/helm/kube-scheduler-extender/README.md"
    before, found, after = (checkout / name).read_text(encoding="utf-8").rpartition("oci://")
    (checkout / name).write_text(f"{before}{found}charts.internal/{after}", encoding="utf-8")
    (line,) = check.mistakes(checkout, TAG)
    assert line.startswith(f"{name}: has oci://charts.internal/")


# --- the command ----------------------------------------------------------------------------------------------------


def test_another_tag_differs_everywhere(checkout):
    assert len(check.mistakes(checkout, "v9.9.9")) == len(list(versions.versions(checkout))) + 2
    assert check.mistakes(checkout, __version__) != []


def test_the_command_prints_a_line_for_each():
    for tag, mistakes in ((TAG, check.mistakes(ROOT, TAG)), ("v9.9.9", check.mistakes(ROOT, "v9.9.9"))):
        command = [sys.executable, "-m", "tests.e2e.release.check", tag]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == bool(mistakes)
        assert done.stdout.splitlines() == (mistakes or [f"{tag} can be released"])
    assert mistakes


# --- notes ----------------------------------------------------------------------------------------------------------

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
    assert changelog.main(TAG) == 0
    printed = capsys.readouterr().out
    assert printed
    assert printed.split() == changelog.with_absolute_links(
        section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__) or "", SOURCE, TAG
    ).split()  # fmt: skip
    links = re.findall(r"\]\(([^)]+)\)", printed)
    files = [link.removeprefix(f"{SOURCE}/blob/{TAG}/") for link in links]
    assert all((ROOT / file.partition("#")[0]).exists() for file in files if not file.startswith("https:"))


def test_links_to_other_places_stay():
    text = "[a](docs/a.md#b), [c](https://docs.test/c)"
    assert changelog.with_absolute_links(text, "s", "v1") == "[a](s/blob/v1/docs/a.md#b), [c](https://docs.test/c)"


def test_notes_of_a_version_without_a_section_fail(capsys):
    assert changelog.main("v9.9.9") == 1
    assert "no section" in capsys.readouterr().err
