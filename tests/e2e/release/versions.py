"""Set the version of the next release in every file that has it: `python -m tests.e2e.release.versions 0.2.0`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.release.changelog import ROOT

CHART = "deploy/helm/kube-scheduler-extender/"

BEFORE = {
    "extender/version.py": ['^__version__ = "'],
    "Dockerfile": [r'org\.opencontainers\.image\.version="'],
    f"{CHART}Chart.yaml": ["^version: ", "^appVersion: ", "image: .*/kube-scheduler-extender:"],
    f"{CHART}README.md": ["kube-scheduler-extender --version "],
    "deploy/kustomize/workload/deployment.yaml": ["image: kube-scheduler-extender:"],
    "docs/install.md": ["/kube-scheduler-extender:", "newTag: ", "kube-scheduler-extender --version "],
    "extender/server/scheduler/openapi.json": ['^    "version": "'],
    "extender/server/admin/openapi.json": ['^    "version": "'],
    "SECURITY.md": ["@refs/tags/v", "kube_scheduler_extender-"],
    "CHANGELOG.md": [r"^\[Unreleased\]: .*/compare/v"],
}
"""File -> what stands before the version, once or more often in a file."""

_VERSION = r"(\d+\.\d+\.\d+)"


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each place that has the project's version, and the version that it has: none if it was not found."""
    for name, patterns in BEFORE.items():
        text = (root / name).read_text(encoding="utf-8")
        for before in patterns:
            found = list(re.finditer(before + _VERSION, text, re.MULTILINE))
            yield from ((f"{name}:{text.count(chr(10), 0, one.start()) + 1}", one[1]) for one in found)
            if not found:
                yield f"{name}, {before}", "none"


def set_versions(root: Path, version: str) -> None:
    """Write the version into each of these places."""
    for name, patterns in BEFORE.items():
        text = (root / name).read_text(encoding="utf-8")
        for before in patterns:
            text = re.sub(f"({before}){_VERSION}", rf"\g<1>{version}", text, flags=re.MULTILINE)
        (root / name).write_text(text, encoding="utf-8")


def main(version: str) -> int:
    if not re.fullmatch(_VERSION, version):
        sys.stderr.write(f"error: {version} is not three numbers such as 0.2.0\n")
        return 1
    set_versions(ROOT, version)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
