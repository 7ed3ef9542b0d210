"""Check that everything that is released has the version of its tag: `python -m tests.e2e.release.check v0.1.0`.

Prints a line per mistake; exit code 1 if there is one. `make check-release` and the release workflow run it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.e2e.image.dockerfile import stages
from tests.e2e.release.changelog import ROOT, section

CHART = "deploy/helm/kube-scheduler-extender/Chart.yaml"
ADDRESSED = ("pyproject.toml", CHART, "mkdocs.yml", "SECURITY.md", ".github/ISSUE_TEMPLATE/config.yml")
"""Files that say where the project lives; examples of other files keep reserved names."""

HOST = re.compile(r"https?://([\w.-]+)")
RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|net|org)|test|example|invalid|localhost)$")
"""Names that RFC 2606 reserves: nothing of the project can be there."""


def mistakes(root: Path, tag: str) -> list[str]:
    """Return what keeps the checkout from being released as that tag, a line each."""
    version = tag.removeprefix("v")
    found = [] if tag.startswith("v") else [f"tag {tag}: is not v followed by a version"]
    found += [f"{place}: has version {own}, the tag is {tag}" for place, own in _versions(root) if own != version]
    if section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version) is None:
        found.append(f"CHANGELOG.md: has no section `## [{version}] - YYYY-MM-DD`")
    return found + list(_reserved_names(root))


def _versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each place that has the project's version, and the version that it has."""
    code = (root / "extender" / "version.py").read_text(encoding="utf-8")
    yield "extender/version.py", re.findall(r'^__version__ = "(.*)"$', code, re.MULTILINE)[0]
    chart = yaml.safe_load((root / CHART).read_text(encoding="utf-8"))
    yield f"{CHART}, version", chart["version"]
    yield f"{CHART}, appVersion", str(chart["appVersion"])
    yield "Dockerfile, label", stages(root / "Dockerfile")[-1].pairs("LABEL")["org.opencontainers.image.version"]


def _reserved_names(root: Path) -> Iterator[str]:
    for name in ADDRESSED:
        if not (root / name).exists():
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1):
            for host in HOST.findall(line):
                if RESERVED.search(host):
                    yield f"{name}:{number}: {host} is a reserved name (RFC 2606), not the project's address"


def main(tag: str) -> int:
    found = mistakes(ROOT, tag)
    sys.stdout.write("".join(f"{line}\n" for line in found) or f"{tag} can be released\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
