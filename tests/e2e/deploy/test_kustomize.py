"""Our kustomize is kustomize, as far as deploy/ uses it."""

import subprocess

import pytest
import yaml

from tests.e2e.deploy.kustomize import kustomize
from tests.e2e.deploy.manifests import DEPLOY, KUBECTL, KUSTOMIZED, NO_KUBECTL, OVERLAYS, composed

DIRECTORIES = sorted(path.parent for path in (DEPLOY / "kustomize").rglob("kustomization.yaml"))
WHOLE = [path for path in DIRECTORIES if "components" not in path.parts]


def by_name(objects):
    found = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects)
    return found


def real(directory):
    assert KUBECTL is not None
    printed = subprocess.run([KUBECTL, "kustomize", str(directory)], capture_output=True, text=True, check=True)
    return [one for one in yaml.safe_load_all(printed.stdout) if one]


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
@pytest.mark.parametrize("directory", WHOLE, ids=[str(path.relative_to(DEPLOY)) for path in WHOLE])
def test_a_directory_renders_as_with_kubectl(directory):
    assert by_name(kustomize(directory)) == by_name(real(directory))


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
@pytest.mark.parametrize("name", KUSTOMIZED)
def test_an_overlay_with_components_renders_as_with_kubectl(name, tmp_path):
    directory = composed(name.partition(",")[0], KUSTOMIZED[name], tmp_path)
    assert by_name(kustomize(directory)) == by_name(real(directory))


def test_every_component_is_in_some_rendering():
    made = {path.parent.name for path in (DEPLOY / "kustomize" / "components").glob("*/kustomization.yaml")}
    by_hand = {one for components in KUSTOMIZED.values() for one in components if "/" not in one}
    text = "".join((path / "kustomization.yaml").read_text(encoding="utf-8") for path in DIRECTORIES)
    assert {one for one in made if one not in by_hand and f"/{one}]" not in text} == set()


def test_every_overlay_is_in_some_rendering():
    overlays = {path.name for path in OVERLAYS.iterdir()}
    assert overlays == {name.partition(",")[0] for name in KUSTOMIZED} | {"static-pod"}
