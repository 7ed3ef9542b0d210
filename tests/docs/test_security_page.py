"""docs/security.md names settings, files, paths, limits and tests that there are."""

import re
from pathlib import Path

import pytest

from extender.config import Configuration
from extender.server.admin import app, routes, simulate
from extender.server.http import body, protocol

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", PAGE)
SECTIONS = tuple(Configuration().model_dump(by_alias=True))


def settings(value, path=""):
    """Every key, with the sections above it."""
    found = {path} - {""}
    for key, below in value.items() if isinstance(value, dict) else ():
        found |= settings(below, f"{path}.{key}" if path else key)
    return found


def test_every_setting_exists():
    named = {word.partition(":")[0] for word in CODE if word.split(".")[0] in SECTIONS and "." in word}
    assert len(named) > 20
    assert named <= settings(Configuration().model_dump(by_alias=True))


@pytest.mark.parametrize("name", sorted({word for word in CODE if word.startswith(("tests/", "components/"))}))
def test_every_file_exists(name):
    assert (ROOT / name).exists() or (ROOT / "deploy" / "kustomize" / name).exists()


def test_every_test_exists():
    every = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [word for word in CODE if word.startswith("test_")]
    assert named
    assert all(f"def {name}(" in every for name in named)


def test_paths_are_those_of_the_admin_listener():
    assert {"/livez", "/readyz", "/metrics"} <= set(CODE)
    assert set(app.PUBLIC_PATHS) == {"/livez", "/readyz", "/metrics"}


def test_limits_are_those_of_the_code():
    server = Configuration().server
    assert f"{server.max_node_names_body_bytes >> 20} MiB" in PAGE
    assert f"{server.max_body_bytes >> 20} MiB" in PAGE
    assert f"{protocol.MAX_HEADER_BYTES >> 10} KiB" in PAGE
    assert (
        f"{routes.MAX_SIMULATE_BODY_BYTES >> 20} MiB, {simulate.MAX_SIMULATED_PODS:,} pods, "
        f"{simulate.SIMULATION_TIMEOUT_SECONDS:.0f} s" in PAGE
    )
    assert "| a request from its first byte to its last | " + f"{body.READ_TIMEOUT_SECONDS:.0f} s" in PAGE
