"""Ask kube-scheduler's own code about a pod of a cluster file, and compare the engine with its verdict.

    python -m tests.upstream.verdict --judge build/judge-1.36.2 cluster.json shop/cart-9

The cluster is as for `extender serve --cluster`, the pod one that waits in it, or a file with it. Prints the verdict
(tests/upstream/README.md says what it holds), then what the engine says otherwise. The exit code is 1 if they differ, 2
if nothing was judged.

Rule: the objects are judged as they are written, but for the scheduler's name; an API server would have filled in more
defaults.
"""

# ruff: noqa: T201 - the output of a command

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from extender.cluster.files.manifests import read_cluster
from extender.errors import ExtenderError
from extender.k8s.kinds import KINDS
from tests.upstream.finding import Outcome, examine
from tests.upstream.judge import Judge, ProgramFailed

JSON = dict[str, Any]


class NotAsked(Exception):
    """There is no such question: what is wrong with the arguments."""


def scenario_of(cluster: Path, pod: str, config: Path | None = None) -> JSON:
    """The scenario of a cluster file and one of its pods, or the pod of a file; raises NotAsked and ExtenderError."""
    items = [dict(one) for one in read_cluster(cluster, keep=KINDS.keys()).kept]
    file = Path(pod)
    waiting = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else _taken_from(items, pod)
    for one in (*items, waiting):
        if one["kind"] == "Pod":  # kube-scheduler leaves a pod alone that names no scheduler
            one["spec"] = {"schedulerName": "default-scheduler"} | one.get("spec", {})
    if node := waiting.get("spec", {}).get("nodeName"):
        raise NotAsked(f"pod {pod} runs on {node}: kube-scheduler was asked about it before")
    scenario: JSON = {"id": pod, "category": "asked", "cluster": {"apiVersion": "v1", "kind": "List", "items": items}}
    scenario["pod"] = waiting
    if config is not None:
        scenario["config"] = yaml.safe_load(config.read_text(encoding="utf-8"))
    return scenario


def _taken_from(items: list[JSON], pod: str) -> JSON:
    """Remove the pod from the cluster, in which it is not yet."""
    for place, one in enumerate(items):
        about = one["metadata"]
        if one["kind"] == "Pod" and pod == f"{about.get('namespace', 'default')}/{about['name']}":
            return items.pop(place)
    raise NotAsked(f"{pod} is neither a file nor the namespace/name of a pod in the cluster file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict and what the engine says otherwise; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream.verdict", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--judge", type=Path, required=True, help="the judge's program")
    parser.add_argument("--config", type=Path, help="a KubeSchedulerConfiguration")
    parser.add_argument("cluster", type=Path)
    parser.add_argument("pod", help="namespace/name, or a file")
    options = parser.parse_args(arguments)
    try:
        judge = Judge(options.judge.absolute(), 1)
        scenario = scenario_of(options.cluster, options.pod, options.config)
        (judged,) = judge.verdicts([scenario])
        version = judge.version
    except (ExtenderError, ProgramFailed, NotAsked, OSError, yaml.YAMLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finding = examine(scenario | judged, int(version.split(".")[1]))
    if finding.outcome is not Outcome.PANICKED:
        print(json.dumps(judged.get("expected") or judged["error"], indent=2))
    for line in finding.lines:
        print(line)
    print(f"kube-scheduler {version} and the engine: {finding.rule or finding.outcome}")
    return {Outcome.AGREES: 0, Outcome.EXEMPT: 0, Outcome.DIFFERS: 1}.get(finding.outcome, 2)


if __name__ == "__main__":
    sys.exit(main())
