"""Ask kube-scheduler's own code about a pod of a cluster file, and compare the engine with its verdict.

    python -m tests.upstream.verdict --judge build/judge-1.36.2 cluster.json shop/cart-9

The cluster is as for `extender serve --cluster`, the pod one that waits in it, or a file with it. Prints the verdict
(tests/upstream/README.md says what it holds), then what the engine says otherwise. The exit code is 1 if they differ, 2
if nothing was judged.

Rule: the objects are judged as they are written, but for scheduler's name and UID of pods that have none; an API server
would have filled in more defaults. No extender is called.
"""

# ruff: noqa: T201 - the output of a command

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from extender.cluster.files.manifests import read_files, read_manifests
from extender.errors import ExtenderError
from extender.k8s.kinds import KINDS
from extender.k8s.version.versions import parse_version
from tests.parity.versions import as_served
from tests.upstream.finding import Outcome, examine
from tests.upstream.generate.configurations import without_extenders
from tests.upstream.judge import Judge, ProgramFailed

JSON = dict[str, Any]


class NotAsked(Exception):
    """The arguments are wrong; the message says how."""


def scenario_of(cluster: Path, pod: str, config: Path | None = None) -> JSON:
    """The scenario of a cluster file and one of its pods, or the pod of a file; raises NotAsked and ExtenderError."""
    items = [one.object for one in read_manifests(read_files([cluster]).files) if one.kind in KINDS]
    waiting = _pod_of(Path(pod)) if pod and Path(pod).is_file() else _taken_from(items, pod)
    for one in (*items, waiting):
        if one["kind"] == "Pod":
            about = one["metadata"]
            one["metadata"] = {"uid": f"{about.get('namespace', 'default')}/{about['name']}"} | about
            # kube-scheduler leaves a pod alone that names no scheduler
            one["spec"] = {"schedulerName": "default-scheduler"} | (one.get("spec") or {})
    if node := waiting["spec"].get("nodeName"):
        raise NotAsked(f"pod {pod} runs on {node}: kube-scheduler was asked about it before")
    scenario: JSON = {"id": pod, "category": "asked", "cluster": {"apiVersion": "v1", "kind": "List", "items": items}}
    scenario["pod"] = waiting
    if config is not None:
        document = yaml.safe_load(config.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise NotAsked(f"{config} is not an object")
        scenario["config"] = without_extenders(document) if document.get("extenders") else document
    return scenario


def _pod_of(file: Path) -> JSON:
    """The only document of the file, which must be a pod."""
    documents = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one is not None]
    if len(documents) != 1:
        raise NotAsked(f"{file} holds {len(documents)} documents, not one pod")
    (pod,) = documents
    if not isinstance(pod, dict):
        raise NotAsked(f"{file} is not an object")
    if "kind" not in pod:
        raise NotAsked(f"{file} has no kind")
    if pod["kind"] != "Pod":
        raise NotAsked(f"{file} is a {pod['kind']}, not a Pod")
    if not isinstance(pod.get("metadata"), dict) or not pod["metadata"].get("name"):
        raise NotAsked(f"{file} has no metadata.name")
    return pod


def _has_extenders(config: Path | None) -> bool:
    return config is not None and bool(yaml.safe_load(config.read_text(encoding="utf-8")).get("extenders"))


def _taken_from(items: list[JSON], pod: str) -> JSON:
    """Remove the pod from the cluster, in which it is not yet."""
    if not pod:
        raise NotAsked("the pod is not named: give namespace/name, or a file")
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
        version = parse_version(judge.version)
        scenario = as_served(scenario_of(options.cluster, options.pod, options.config), version.minor)
        (judged,) = judge.verdicts([scenario])
    except (ExtenderError, ProgramFailed, NotAsked, OSError, yaml.YAMLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finding = examine(scenario | judged, version.minor, version.patch)
    if finding.outcome is not Outcome.PANICKED:
        print(json.dumps(judged.get("expected") or judged["error"], indent=2))
    for line in finding.lines:
        print(line)
    if _has_extenders(options.config):
        print("The configuration's extenders are not called; what they manage is ignored as it says.")
    print(f"kube-scheduler {version} and the engine: {finding.rule or finding.outcome}")
    return {Outcome.AGREES: 0, Outcome.REFUSED: 0, Outcome.EXEMPT: 0, Outcome.DIFFERS: 1}.get(finding.outcome, 2)


if __name__ == "__main__":
    sys.exit(main())
