"""The list of parts: everything that runs, with its version, and nothing else."""

import json

import pytest

from tests.e2e.image import sbom
from tests.e2e.image.sbom import ROOT, normal

LOCKED = sbom.locked((ROOT / "requirements.lock").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def text():
    return sbom.document()


@pytest.fixture(scope="module")
def found(text):
    return json.loads(text)


def test_it_has_every_package_that_the_service_needs_at_the_locked_version_and_no_other(found):
    listed = {normal(one["name"]): one["version"] for one in found["components"]}
    assert listed == {name: LOCKED[name] for name in sbom.needed_to_run()}
    assert len(listed) == len(found["components"]) > 20


def test_every_package_has_a_purl_and_a_license(found):
    for one in found["components"]:
        assert one["purl"] == f"pkg:pypi/{normal(one['name'])}@{one['version']}"
        assert one["licenses"], one["name"]


def test_it_says_what_needs_what(found):
    below = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert {ref.partition("@")[0] for ref in below["kube-scheduler-extender"]} >= {"pkg:pypi/fastapi", "pkg:pypi/numpy"}
    assert any(ref.startswith("pkg:pypi/starlette@") for ref in below[f"pkg:pypi/fastapi@{LOCKED['fastapi']}"])
    assert {ref for refs in below.values() for ref in refs} == {one["bom-ref"] for one in found["components"]}


def test_the_same_environment_gives_the_same_bytes_with_no_time_and_no_address(text, found):
    assert sbom.document() == text
    assert not {"serialNumber", "timestamp"} & {*found, *found["metadata"]}
    assert "://" not in text.replace(found["$schema"], "")


def test_a_version_that_is_not_the_locks_is_named():
    with pytest.raises(ValueError, match=r"numpy 1\.0 is installed, and requirements\.lock has 2\.0"):
        sbom.check_versions({"numpy": "1.0"}, {"numpy": "2.0"})


def test_the_command_writes_it(tmp_path, capsys, text):
    assert sbom.main([str(tmp_path / "build" / "sbom.json")]) == 0
    assert (tmp_path / "build" / "sbom.json").read_text(encoding="utf-8") == text
    assert sbom.main([]) == 2
    assert "usage" in capsys.readouterr().err
