"""Serve the generated cluster from a fake API server, in its own process that takes commands on standard input.

    events RATE SECONDS     change RATE pods a second for SECONDS seconds
    expire COUNT            change COUNT pods and create one while watches are down, so that all must be relisted
    arrive COUNT            create COUNT pods of one template, which wait for a node
    bind NUMBER NODE        bind one of them
    pend                    create the pod that fits nowhere, and that preemption would help
    wait                    create the pending pods that `targets.pending` lists

Each command is acknowledged with one line when it is done; the first line of output has the number of pods, the
server's URL and, with --tls, the file with its CA certificate.
"""

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from benchmarks import devices, fulldevices, generate
from benchmarks.arrivals import arriving, bound, pending
from benchmarks.fullpods import full_pod
from benchmarks.generate import JSON, Plan
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates

FIRST_EXPIRED = 500_000
"""Number of the first pod that `expire` creates."""


def main() -> None:
    """Serve until the end of the standard input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fake_cluster", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--gpu-nodes", type=int, default=0, help="ResourceSlices of eight devices, most of them in use")
    parser.add_argument("--tls", action="store_true", help="with certificates made for this run")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        certificates = None
        if given.tls:
            certificates = Certificates(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        api = stack.enter_context(FakeAPI(tls=certificates))
        plan = Plan(given.seed, given.nodes)
        pods = load(api, plan)
        if given.gpu_nodes:
            load_devices(api, Plan(given.seed, given.gpu_nodes))
        say(f"{len(pods)} {api.url} {certificates.ca_file if certificates else ''}")
        chance, expired = random.Random(given.seed), itertools.count(FIRST_EXPIRED)
        for line in sys.stdin:
            match line.split():
                case ["events", rate, seconds]:
                    events(api, pods, chance, float(rate), float(seconds))
                case ["expire", count]:
                    expire(api, pods, chance, int(count), arriving(plan, next(expired)))
                case ["arrive", count]:
                    for number in range(int(count)):
                        api.put("Pod", arriving(plan, number))
                case ["bind", number, node]:
                    api.put("Pod", bound(plan, int(number), node))
                case ["pend"]:
                    api.put("Pod", generate.incoming(plan))
                case ["wait"]:
                    for pod in pending(plan):
                        api.put("Pod", pod)
            say("done")


def load(api: FakeAPI, plan: Plan) -> list[tuple[str, str]]:
    """Load the cluster into the server; return name and namespace of the pods that `change` may modify."""
    rows = range(plan.nodes)
    api.load("Namespace", generate.namespaces())
    api.load("PodDisruptionBudget", generate.budgets(plan))
    api.load("Node", [generate.full_node(plan, row) | {"apiVersion": "v1", "kind": "Node"} for row in rows])
    pods = (pod for row in rows for pod in generate.pods_on(plan, row))
    api.load("Pod", (full_pod(pod, number) for number, pod in enumerate(pods)))
    keys = (stored.key.partition("/") for stored in api.storage.all("Pod"))
    return [(name, namespace) for namespace, _, name in keys]


def load_devices(api: FakeAPI, plan: Plan) -> None:
    """Load the devices of the nodes, and claims that have most of them."""
    api.load("DeviceClass", [msgspec.to_builtins(devices.device_class())])
    api.load("ResourceSlice", fulldevices.slices(plan))
    api.load("ResourceClaim", fulldevices.claims(plan))


def events(api: FakeAPI, pods: list[tuple[str, str]], chance: random.Random, rate: float, seconds: float) -> None:
    """Send events, or none: half change nothing that decisions read, as most do; the others change labels."""
    start = time.perf_counter()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        change(api, pods, chance, shallow=number % 2 == 0)
    time.sleep(max(0.0, start + seconds - time.perf_counter()))


def expire(api: FakeAPI, pods: list[tuple[str, str]], chance: random.Random, count: int, new: JSON) -> None:
    """Compact the history and drop all connections: every watch gets 410 Gone."""
    api.stop()
    for _ in range(count):
        change(api, pods, chance, shallow=False)
    api.put("Pod", new)
    api.compact()
    api.start()


def change(api: FakeAPI, pods: list[tuple[str, str]], chance: random.Random, *, shallow: bool) -> None:
    pod = api.get("Pod", *chance.choice(pods)) or {}
    if shallow:
        pod["status"]["conditions"][2]["lastTransitionTime"] = f"2025-06-01T08:{chance.randrange(60):02}:00Z"
    else:
        pod["metadata"].setdefault("labels", {})["revision"] = str(chance.randrange(10**6))
    api.put("Pod", pod)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
