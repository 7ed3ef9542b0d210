"""Answers of the verbs and JSON of /decisions, `why`, `simulate` and `evaluate()` in 78 scenarios, as they were once.

    python -m tests.contract.golden --update     writes them again, where a change of these contracts is meant

Rule: nothing here says what is right; tests/parity does. These files say what must not change by accident.
"""

import asyncio
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from extender.api import evaluate, load_scheduler, simulate, why
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.server.app import create_app
from tests.builders import stored_cluster
from tests.parity.agreement import EVERY_CATEGORY, JSON, load
from tests.parity.parity import NOW
from tests.server.conftest import admin_client, client_for

PATH = Path(__file__).with_name("golden.jsonl.gz")
OLDEST, NEWEST, CONFIGURED = 29, 37, 36
"""Minors; the last: whose plugins a scenario's own configuration names."""
PER_CATEGORY = 3
POLICIES: list[dict[str, Any]] = [
    {},
    {"disruptionBudgets": "Strict", "candidates": "AllNodes"},
    {"ranking": ["PDBViolations", "HighestPriority", "Workloads", "UnusedCapacity", "VictimCount"]},
]
"""Settings of preemption, one after the other."""


def scenarios() -> Iterator[tuple[str, int, JSON]]:
    """Yield (id, minor, scenario): the first few of each category, judged as one minor after the other."""
    number = 0
    for category in EVERY_CATEGORY:
        for scenario in load(category, count=PER_CATEGORY):
            minor = CONFIGURED if "config" in scenario else OLDEST + number % (NEWEST - OLDEST + 1)
            yield f"{category}/{scenario['id']}", minor, scenario
            number += 1


def answers(number: int, minor: int, scenario: JSON) -> dict[str, Any]:
    """Return what every reader of the engine answers in this scenario."""
    judged_by: dict[str, Any] = {"version": f"1.{minor}", "scheduler_config": scenario.get("config")}
    snapshot = Snapshot.build(stored_cluster(scenario["cluster"]), load_scheduler(**judged_by).features)
    pod, names = scenario["pod"], snapshot.node_names
    node = names[number % len(names)] if names else None
    found = {
        "evaluate": _or_error(lambda: evaluate(snapshot, pod, history=NOW, **judged_by).to_dict()),
        "why": _or_error(lambda: why(snapshot, pod, history=NOW, node=node, **judged_by)),
        "simulate": _or_error(lambda: simulate(snapshot, [pod], history=NOW, **judged_by)),
        **asyncio.run(_verbs(number, minor, scenario, names, node)),
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def _or_error(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except RequestError as error:
        return f"{type(error).__name__}: {error}"


async def _verbs(number: int, minor: int, scenario: JSON, names: Sequence[str], node: str | None) -> dict[str, Any]:
    cache = ClusterCache()
    settings = {"scheduler": {"version": f"1.{minor}"}, "preemption": POLICIES[number % len(POLICIES)]}
    app = create_app(cache, Configuration.model_validate(settings))
    cache.replace(stored_cluster(scenario["cluster"]))
    pod = scenario["pod"]
    pod = pod | {"spec": {key: value for key, value in pod.get("spec", {}).items() if key != "schedulerName"}}
    victims = {
        node: {"Pods": [{"UID": uid} for uid in one["victims"]], "NumPDBViolations": one["numPDBViolations"]}
        for node, one in scenario["expected"]["candidates"].items()
    }
    bodies = {
        "filter": {"Pod": pod, "Nodes": None, "NodeNames": list(names)},
        "prioritize": {"Pod": pod, "Nodes": None, "NodeNames": list(names)},
        "preempt": {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims},
    }
    found: dict[str, Any] = {}
    async with client_for(app) as client, admin_client(app.server_context) as admin:
        for verb, body in bodies.items():
            answer = await client.post(f"/{verb}", content=json.dumps(body).encode())
            found[verb] = [answer.status_code, answer.text, answer.headers.get("X-Extender-Not-Evaluated")]
        for one in (await admin.get("/decisions")).json()["decisions"]:
            shown = min(victims, default=None) if one["verb"] == "preempt" else node
            report = (await admin.get(f"/decisions/{one['id']}", params={"node": shown} if shown else {})).json()
            found[f"decision {one['verb']}"] = {
                key: value for key, value in report.items() if key not in ("time", "milliseconds", "cache")
            }
    return found


def expected() -> dict[str, Any]:
    """Return id -> the answers on file."""
    lines = gzip.decompress(PATH.read_bytes()).splitlines()
    return dict(msgspec.json.decode(line) for line in lines)


def update() -> None:
    """Write the file."""
    lines = [
        msgspec.json.encode([name, answers(number, minor, scenario)])
        for number, (name, minor, scenario) in enumerate(scenarios())
    ]
    PATH.write_bytes(gzip.compress(b"\n".join(lines), mtime=0))


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    update()
