"""Print where image and chart are published, a line `name=value` each: `python -m tests.e2e.release.addresses`.

Both are read from the files that people install with, so that a release is where these say. release.yaml takes the
lines as outputs of a step.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.e2e.release.changelog import ROOT

VALUES = "deploy/helm/kube-scheduler-extender/values.yaml"
INSTALL = "docs/install.md"
CHART = "kube-scheduler-extender"


class Addresses(NamedTuple):
    registry: str
    """A host, with its port if it has one."""
    image: str
    """Without tag and digest."""
    charts: str
    """The folder that the chart is pushed to, without `oci://`."""


def addresses(root: Path) -> Addresses:
    """Return the image of the chart's values, and the folder of the chart that docs/install.md installs."""
    image: str = yaml.safe_load((root / VALUES).read_text(encoding="utf-8"))["image"]["repository"]
    charts = re.findall(rf"oci://(\S+)/{CHART}\s", (root / INSTALL).read_text(encoding="utf-8"))
    return Addresses(image.partition("/")[0], image, charts[0])


def mistakes(root: Path) -> Iterator[str]:
    """Yield a line for each file that has another address than the release."""
    registry, image, charts = addresses(root)
    if charts.partition("/")[0] != registry:
        yield f"{INSTALL}: the chart is in {charts}, the image of {VALUES} in another registry, {registry}"
    expected = {
        INSTALL: [f"image is `{image}:", f"newName: {image} "],
        "deploy/helm/kube-scheduler-extender/Chart.yaml": [f"image: {image}:"],
        "SECURITY.md": [f" {image}@sha256:", f" {charts}/{CHART}@sha256:"],
    }
    for name, texts in expected.items():
        text = (root / name).read_text(encoding="utf-8")
        yield from (f"{name}: lacks `{one.strip()}`" for one in texts if one not in text)
    for name in (INSTALL, "deploy/helm/kube-scheduler-extender/README.md", "SECURITY.md"):
        found = re.findall(r"oci://([^\s@]+)", (root / name).read_text(encoding="utf-8"))
        for one in sorted(set(found) - {image, f"{charts}/{CHART}"}):
            yield f"{name}: has oci://{one}, which is neither the image nor the chart"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}={value}\n" for name, value in addresses(ROOT)._asdict().items()))
