"""Write judged_gates.jsonl.gz: feature gates of kube-scheduler, and sets of them that it starts with or refuses.

    python -m tests.k8s.version.judged_gates build/judge-1.36 build/judge-1.37

Two kinds of lines, of each judge: {"release", "stages": gate -> "on, beta"}, all of its gates by default, and
{"release", "gates", "refused": its message or null, "changed": gates that are no longer at their default}.
"""

import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extender.k8s.version.gates import ALL_OF_STAGE, GATES

TABLE = Path(__file__).with_name("judged_gates.jsonl.gz")
RANDOM_SETS = 150
REFUSED = 2
"""Exit code of the judge for gates that it does not start with."""


def gate_sets(seed: str, stages: Mapping[str, str]) -> Iterator[dict[str, bool]]:
    """Yield each gate alone, on and off, all combinations of AllAlpha and AllBeta, and random sets of its gates."""
    yield from ({name: value} for name in (*GATES, *ALL_OF_STAGE) for value in (False, True))
    yield from ({"AllAlpha": alpha, "AllBeta": beta} for alpha in (False, True) for beta in (False, True))
    draw = random.Random(seed)
    for _ in range(RANDOM_SETS):
        names = draw.sample([name for name in (*GATES, *ALL_OF_STAGE) if name in stages], draw.randint(2, 6))
        yield {name: draw.random() < 0.5 for name in names}


def asked(judge: str, gates: dict[str, bool]) -> tuple[dict[str, str], str | None]:
    """Return (gate -> state and stage, None), or an empty mapping and why the gates are refused."""
    flag = ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())
    done = subprocess.run([judge, "-feature-gates", flag, "-gates"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, REFUSED):
        raise SystemExit(f"{judge}: {done.stderr}")
    refused = re.search(r"^error: (.*)", done.stderr, re.MULTILINE)
    listed = [line.split(": ", 1) for line in done.stdout.splitlines()]
    return dict(listed), refused and refused[1]


def lines(judge: str) -> Iterator[dict[str, Any]]:
    release = subprocess.run([judge, "-version"], capture_output=True, text=True, check=True).stdout.strip()
    stages, _ = asked(judge, {})
    yield {"release": release, "stages": stages}
    for gates in gate_sets(release, stages):
        found, refused = asked(judge, gates)
        changed = {name: state.startswith("on") for name, state in found.items() if state != stages[name]}
        yield {"release": release, "gates": gates, "refused": refused, "changed": changed}


def main(judges: Sequence[str]) -> None:
    with gzip.GzipFile(TABLE, "wb", mtime=0) as file:
        for judge in judges:
            for line in lines(judge):
                file.write(json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
