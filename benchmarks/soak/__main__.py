"""`python -m benchmarks.soak`: print a line per minute, then the verdict; exit with 1 if a requirement is not met."""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import p99
from benchmarks.soak.course import Course
from benchmarks.soak.run import Plan, soak
from benchmarks.soak.verdict import Finding, is_met, verdict

HEADINGS = (
    *("minute", "RSS MiB", "fds", "threads", "tasks", "cpu %", "cycles/s"),
    *("filter p50/p99", "prioritize p50/p99", "preempt p50/p99"),
    *("503", "failed", "wrong", "not ready s", "lists"),
)


def main() -> None:
    given = options().parse_args()
    directory = Path(tempfile.mkdtemp(prefix="extender-soak-"))
    plan = Plan(
        *(given.minutes, given.nodes, given.rate, given.events, given.seed, directory),
        decisions=given.decisions,
        record=given.record,
        tls=given.tls,
        tenants=given.tenants,
    )
    print(about(plan), flush=True)
    course = soak(plan, Table())
    findings = verdict(course)
    print(f"\n{table(findings)}\n\n{cost(course)}")
    for text in course.texts()[:20]:
        print(f"  {text}")
    if given.json is not None:
        rows = [{name: getattr(one, name) for name in Finding.__slots__} for one in findings]
        given.json.write_text(json.dumps({"findings": rows} | course.to_dict(), indent=2) + "\n")
    met = is_met(findings)
    if met:
        shutil.rmtree(directory)
    else:
        print(f"logs and settings are in {directory}")
    print("met" if met else "NOT MET")
    sys.exit(not met)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="duration in minutes (%(default)s)")
    parser.add_argument("--nodes", type=int, default=1000, help="size of the cluster, 32 pods each (%(default)s)")
    parser.add_argument("--rate", type=float, default=100, help="scheduling cycles a second, together (%(default)s)")
    parser.add_argument("--events", type=float, default=400, help="watch events a second (%(default)s)")
    parser.add_argument("--seed", type=int, default=20261121, help="another cluster and other pods of the same kind")
    parser.add_argument("--decisions", type=int, default=500, help="debug.decisions (%(default)s)")
    parser.add_argument("--record", action="store_true", help="record all calls, as with serve --record")
    parser.add_argument("--plain", dest="tls", action="store_false", help="plain HTTP on the scheduler's port")
    parser.add_argument("--no-tenants", dest="tenants", action="store_false", help="without the hostile tenants")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write figures and findings to this file as well")
    return parser


def about(plan: Plan) -> str:
    return (
        f"{plan.minutes:g} minutes, {plan.nodes:,} nodes, about {32 * plan.nodes:,} pods, seed {plan.seed}\n"
        f"{plan.schedulers} schedulers, together {plan.rate:g} cycles/s of 2 calls each, every tenth a preemption; "
        f"{plan.events:g} watch events/s\n{'mTLS' if plan.tls else 'plain HTTP'}"
        f"{', recording' if plan.record else ''}{', two hostile tenants' if plan.tenants else ''}"
    )


def cost(course: Course) -> str:
    """Render the CPU time of each process as a share of one core."""
    seconds = course.ended - course.began
    calls = sum(n for what, n in course.counts().items() if what.split()[0] in ("filter", "prioritize", "preempt"))
    shares = ", ".join(f"{name} {100 * cpu / seconds:.0f} %" for name, cpu in course.cpu.items())
    each = 1000 * course.cpu["service"] / calls if calls else 0.0
    return (
        f"CPU, of one core: {shares}; the service takes {each:.1f} ms per call, all other work included\n"
        f"the service was runnable without a free core {100 * course.starved:.0f} % of the time"
    )


class Table:
    """Prints a line for each minute, as soon as it is over."""

    def __init__(self) -> None:
        self._minute = 0
        self._reports = 0

    def __call__(self, course: Course) -> None:
        if self._minute == 0:
            print("\n" + "  ".join(HEADINGS), flush=True)
            self._minute = 1
        if time.monotonic() - course.began < 60 * self._minute:
            return
        since = course.began + 60 * (self._minute - 1)
        cells = minute(course, self._minute, since, self._reports)
        print("  ".join(cell.rjust(len(heading)) for cell, heading in zip(cells, HEADINGS, strict=True)), flush=True)
        self._reports = len(course.reports)
        self._minute += 1


def minute(course: Course, number: int, since: float, reports: int) -> list[str]:
    """Return the cells of a minute that began at `since`; `reports` is the number of earlier reports."""
    now, latest = time.monotonic(), course.samples[-1]
    first = next(one for one in course.samples if one.time >= since)
    some = course.reports[reports:]

    def count(*kinds: str) -> int:
        return sum(report.counts.get(kind, 0) for report in some for kind in kinds)

    def percentiles(what: str) -> str:
        times = [one for report in some for one in report.milliseconds.get(what, ())]
        return f"{statistics.median(times):.1f}/{p99(times):.1f}" if times else "-"

    unready = sum(max(0.0, min(end, now) - max(begin, since)) for begin, end in course.unready)
    lists = sum(n for name, n in latest.metrics.items() if name.startswith("extender_watch_relists_total"))
    cpu = 100 * (latest.cpu - first.cpu) / max(latest.time - first.time, 0.001)
    return [
        str(number),
        f"{latest.rss / 1024:.0f}",
        str(latest.descriptors),
        str(latest.threads),
        str(latest.tasks),
        f"{cpu:.0f}",
        f"{count('cycles') / (now - since):.0f}",
        *(percentiles(verb) for verb in ("filter", "prioritize", "preempt")),
        str(count("filter 503", "preempt 503")),
        str(count("failed call")),
        str(count("wrong answer")),
        f"{unready:.1f}",
        f"{lists:.0f}",
    ]


def table(findings: Sequence[Finding]) -> str:
    """Render the verdict, one line per requirement."""
    lines = [("ID", "what", "limit", "found", "")]
    lines += [(one.requirement, one.what, one.limit, one.figure, _met(one)) for one in findings]
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _met(finding: Finding) -> str:
    word = "met" if finding.met else "NOT MET"
    return f"{word} ({finding.informational})" if finding.informational else word


if __name__ == "__main__":
    main()
