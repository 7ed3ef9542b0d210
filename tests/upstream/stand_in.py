"""A program in place of the judge, for the tests: it answers from stored verdicts, else for a pod that fits no node.

It dies, hangs, wavers or tells of a panic at the scenarios whose ids say so, and rejects nodes named "odd" for a reason
of its own, which is the difference that is planted.

    python stand_in.py VERDICTS [options of the judge] < scenarios.jsonl

Rule: imports nothing but the standard library, as it is started once per batch.
"""

import json
import sys
import time
from pathlib import Path

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"


def verdict(scenario):
    """Return what v1.36 says of a pod whose node selector matches no node."""
    names = [item["metadata"]["name"] for item in scenario["cluster"]["items"] if item["kind"] == "Node"]
    told = f"preemption: 0/{len(names)} nodes are available: {len(names)} Preemption is not helpful for scheduling."
    code = "UnschedulableAndUnresolvable"
    return {
        "filter": {
            name: {"code": code, "plugin": "NodeAffinity", "reasons": ["planted" if name == "odd" else NO_MATCH]}
            for name in names
        },
        "feasible": 0,
        "scores": {},
        "eligible": [True, ""],
        "candidates": {},
        "nonCandidates": {},
        "selected": None,
        "selectedTies": [],
        "postFilter": {
            "code": "Unschedulable",
            "reasons": sorted(["no new claims to deallocate", told]),
            "nominatedNode": "",
        },
    }


def answer(scenario, stored, place):
    name = scenario["id"]
    if "wavers" in name and place == 0:  # its first answer of each batch is another one
        return {"expected": verdict(scenario) | {"feasible": 99}}
    if "dies" in name:
        sys.exit("fatal error: all goroutines are asleep")
    if "hangs" in name:
        time.sleep(600)
    if "panics" in name:
        return {"expected": verdict(scenario) | {"crash": "index out of range"}}
    if "refused" in name:
        return {"error": "config: unknown field"}
    if "unreadable" in name:
        return {"error": "item 0: no kind"}
    return {"expected": stored.get(name) or verdict(scenario)}


def main():
    if "-version" in sys.argv:
        print("1.36.5")  # noqa: T201 - its answer
        return
    stored = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for place, line in enumerate(sys.stdin):
        scenario = json.loads(line)
        told = {"id": scenario["id"], "category": scenario["category"], **answer(scenario, stored, place)}
        print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
