"""Run the cluster of the soak in its own process: a fake API server with continuous changes, behind a faulty network.

The first line of output is the URL behind the faulty network. Each line of input is a step of the schedule
(`schedule.World`), `quiet` (stop changes), `lively` (resume them) or `count`; the reply is a line of JSON: the step,
the number of changes so far, and the numbers of nodes and running pods.

Rule: every change follows from the seed and the number of changes so far.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import get_args

from benchmarks import generate
from benchmarks.fake_cluster import load
from benchmarks.generate import JSON, Plan
from benchmarks.soak import population, tenants
from benchmarks.soak.schedule import World
from tests.fakes.api_server import FakeAPI
from tests.fakes.chaos import Chaos

HISTORY = 10_000
"""Number of events in the watch cache of the API server; each holds a whole pod."""
BOOKMARK_INTERVAL_SECONDS = 30.0
TRICKLE_BYTES = 700
DUPLICATED_EVENTS = 20
HOSTILE_CHANGES_PER_SECOND = 1.0
RESTART_SECONDS = 2.0
"""Downtime of the API server in a restart."""

GARBAGE = (
    b'{"type":"RENAMED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"team-00"}}}\n',
    b'{"type":"MODIFIED","object":{"kind":"Wardrobe","apiVersion":"v1","metadata":{"name":"b"}}}\n',
    b'{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":null}}\n',
)

SHARES: dict[str, int] = {
    "a time in a pod's status": 35,
    "a pod's label": 15,
    "a pod's readiness": 10,
    "a pod comes or goes": 30,
    "a budget's status": 5,
    "a node's heartbeat": 5,
}
"""Kind of change -> percentage of the changes."""


def main() -> None:
    """Serve until the end of the standard input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.world", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="changes a second")
    parser.add_argument("--tenants", action="store_true", help="with the running pods of a hostile tenant")
    given = parser.parse_args()
    plan = Plan(given.seed, given.nodes)
    with FakeAPI() as api, Chaos(("127.0.0.1", api.port)) as chaos:
        api.storage.HISTORY = HISTORY
        api.bookmark_every = BOOKMARK_INTERVAL_SECONDS
        changes = Changes(api, plan)
        hostile = HostilePods(api, plan)
        print(chaos.url(), flush=True)
        paces = [Pace(changes.one, given.rate)]
        if given.tenants:
            paces.append(Pace(hostile.one, HOSTILE_CHANGES_PER_SECOND))

        def quiet() -> None:
            for pace in paces:
                pace.pause()

        def lively() -> None:
            for pace in paces:
                pace.go_on()

        steps = steps_on(api, chaos) | {"quiet": quiet, "lively": lively, "count": lambda: None}
        for line in sys.stdin:
            steps[line.strip()]()
            counted = changes.counted()
            counted["running"] += hostile.running
            print(json.dumps({"done": line.strip()} | counted), flush=True)
        for pace in paces:
            pace.end()


def steps_on(api: FakeAPI, chaos: Chaos) -> dict[str, Callable[[], object]]:
    """Return the action of each step."""

    def expire() -> None:
        api.stop()
        api.compact()
        api.start()

    def restart() -> None:
        api.stop()
        time.sleep(RESTART_SECONDS)
        api.start()

    def refuse() -> None:
        chaos.refuse()
        chaos.reset()

    def resume() -> None:
        chaos.trickle(None)
        chaos.resume()

    steps: dict[World, Callable[[], object]] = {
        "reset": chaos.reset,
        "trickle": lambda: chaos.trickle(TRICKLE_BYTES),
        "stall": chaos.stall,
        "resume": resume,
        "expire": expire,
        "restart": restart,
        "refuse": refuse,
        "accept": chaos.accept,
        "garbage": lambda: [api.send_raw("Pod", line) for line in GARBAGE],
        "doubles": lambda: (api.duplicate_next("Pod", DUPLICATED_EVENTS), api.swap_next("Pod")),
    }
    return {name: steps[name] for name in get_args(World)}


class Pace(threading.Thread):
    """Thread that calls a function at a fixed rate; calls that are too late are skipped."""

    MAX_BACKLOG_SECONDS = 1.0
    """Maximum delay that is caught up."""

    def __init__(self, one: Callable[[], None], rate: float) -> None:
        super().__init__(name="changes", daemon=True)
        self._one = one
        self._rate = rate
        self._going = threading.Event()
        self._going.set()
        self._doing = threading.Lock()
        self._ended = False
        self.start()

    def run(self) -> None:
        due = time.monotonic()
        while not self._ended:
            if not self._going.is_set():
                self._going.wait()
                due = time.monotonic()
            with self._doing:
                if self._going.is_set():
                    self._one()
            due = max(due + 1 / self._rate, time.monotonic() - self.MAX_BACKLOG_SECONDS)
            time.sleep(max(0.0, due - time.monotonic()))

    def pause(self) -> None:
        """Stop the calls; none runs after this returns."""
        self._going.clear()
        with self._doing:
            pass

    def go_on(self) -> None:
        self._going.set()

    def end(self) -> None:
        self._ended = True
        self._going.set()
        self.join()


class Changes:
    """Makes random changes to the cluster."""

    def __init__(self, api: FakeAPI, plan: Plan) -> None:
        self.count = 0
        self._api = api
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._staying = load(api, plan)
        self._budgets = [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in generate.budgets(plan)]
        self._comers = [Comer(api, plan, slot) for slot in population.slots(plan)]
        self._kinds = list(SHARES)
        self._shares = list(SHARES.values())

    def counted(self) -> dict[str, int]:
        """Return the counts; exact only while changes are stopped."""
        running = len(self._staying) + sum(comer.is_bound for comer in self._comers)
        return {"changes": self.count, "nodes": self._plan.nodes, "running": running}

    def one(self) -> None:
        match self._chance.choices(self._kinds, self._shares)[0]:
            case "a pod comes or goes":
                self._chance.choice(self._comers).step()
            case "a budget's status":
                self._change_budget()
            case "a node's heartbeat":
                self._beat()
            case what:
                self._change_pod(what)
        self.count += 1

    def _change_pod(self, what: str) -> None:
        name, namespace = self._chance.choice(self._staying)
        pod = self._api.get("Pod", name, namespace) or {}
        conditions = pod["status"]["conditions"]
        if what == "a pod's label":
            pod["metadata"].setdefault("labels", {})["revision"] = str(self._chance.randrange(50))
        elif what == "a pod's readiness":
            conditions[2]["status"] = "False" if conditions[2]["status"] == "True" else "True"
        else:
            conditions[2]["lastTransitionTime"] = f"2025-06-01T08:{self._chance.randrange(60):02}:00Z"
        self._api.put("Pod", pod)

    def _change_budget(self) -> None:
        name, namespace = self._chance.choice(self._budgets)
        budget = self._api.get("PodDisruptionBudget", name, namespace) or {}
        budget["status"]["disruptionsAllowed"] = self._chance.choice(generate.ALLOWED)
        self._api.put("PodDisruptionBudget", budget)

    def _beat(self) -> None:
        node = self._api.get("Node", generate.node_name(self._chance.randrange(self._plan.nodes))) or {}
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = f"2025-06-01T08:00:{self._chance.randrange(60):02}Z"
        self._api.put("Node", node)


class HostilePods:
    """The running pods of a hostile tenant (`tenants`): each change creates one, or deletes it."""

    def __init__(self, api: FakeAPI, plan: Plan) -> None:
        self.running = 0
        self._api = api
        self._plan = plan
        self._changes = 0

    def one(self) -> None:
        generation, slot = divmod(self._changes, 2 * tenants.RUNNING_PODS)
        is_new, slot = slot < tenants.RUNNING_PODS, slot % tenants.RUNNING_PODS
        pod = tenants.running(self._plan, slot, generation)
        if is_new:
            self._api.put("Pod", pod)
        else:
            self._api.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
        self.running += 1 if is_new else -1
        self._changes += 1


class Comer:
    """Slot of short-lived pods: a pod runs, terminates, is deleted; the next one is pending, runs elsewhere, …."""

    def __init__(self, api: FakeAPI, plan: Plan, slot: int) -> None:
        self._api = api
        self._plan = plan
        self._slot = slot
        self._generation = 0
        self._phase = 0
        self._phases = (self._leave, self._go, self._come, self._run)
        self._run()

    @property
    def is_bound(self) -> bool:
        return self._phases[self._phase] in (self._leave, self._go)

    def step(self) -> None:
        self._phases[self._phase]()
        self._phase = (self._phase + 1) % len(self._phases)

    def _pod(self) -> JSON:
        return population.comer(self._plan, self._slot, self._generation)

    def _leave(self) -> None:
        pod = self._pod()
        pod["metadata"] |= {"deletionTimestamp": "2025-06-01T09:00:00Z", "deletionGracePeriodSeconds": 30}
        self._api.put("Pod", pod)

    def _go(self) -> None:
        metadata = self._pod()["metadata"]
        self._api.delete("Pod", metadata["name"], metadata["namespace"])
        self._generation += 1

    def _come(self) -> None:
        pod = self._pod()
        del pod["spec"]["nodeName"]
        self._api.put("Pod", pod | {"status": {"phase": "Pending", "qosClass": "Burstable"}})

    def _run(self) -> None:
        self._api.put("Pod", self._pod())


if __name__ == "__main__":
    main()
