"""Every kustomization of deploy/ renders, and every component and overlay is in some rendering."""

import pytest

from tests.e2e.deploy.manifests import DEPLOY, KUSTOMIZED, OVERLAYS, kustomize

DIRECTORIES = sorted(path.parent for path in (DEPLOY / "kustomize").rglob("kustomization.yaml"))
WHOLE = [path for path in DIRECTORIES if "components" not in path.parts]


@pytest.mark.parametrize("directory", WHOLE, ids=[str(path.relative_to(DEPLOY)) for path in WHOLE])
def test_a_directory_renders_each_object_once(directory):
    objects = kustomize(directory)
    assert objects
    names = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects}
    assert len(names) == len(objects)


def test_every_component_is_in_some_rendering():
    made = {path.parent.name for path in (DEPLOY / "kustomize" / "components").glob("*/kustomization.yaml")}
    by_hand = {one for components in KUSTOMIZED.values() for one in components if "/" not in one}
    text = "".join((path / "kustomization.yaml").read_text(encoding="utf-8") for path in DIRECTORIES)
    assert {one for one in made if one not in by_hand and f"/{one}]" not in text} == set()


def test_every_overlay_is_in_some_rendering():
    overlays = {path.name for path in OVERLAYS.iterdir()}
    assert overlays == {name.partition(",")[0] for name in KUSTOMIZED} | {"static-pod"}
