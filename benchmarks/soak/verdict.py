"""Check the requirements of a soak: each with its limit, its figure, and whether it is met.

Rule: a figure that depends on the load of the machine is marked as such and does not affect the exit code.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.measure import p99
from benchmarks.soak.course import Course, Sample, inside
from benchmarks.soak.schedule import STALE_AFTER

MAX_RSS_GROWTH_PERCENT = 5.0
"""Maximum growth of the resident memory."""
MAX_MORE_DESCRIPTORS = 5
MAX_MORE_THREADS = 1
MAX_MORE_TASKS = 5
MEAN_MS, P99_MS, PREEMPT_MS = 6.0, 25.0, 50.0
RATE_SHARE = 0.9
MAX_RELOAD_SECONDS = 10.0
"""Time within which a new certificate or configuration is in effect."""
MAX_RESYNC_SECONDS = 35.0
"""Time within which the cache is in sync after the API server returned."""
MAX_SHUTDOWN_SECONDS = 20.0
READYZ_MARGIN_SECONDS = 1.5
"""Tolerance between a response and the /readyz state that explains it; /readyz is polled ten times a second."""
CONFIG_POLL_SECONDS = 2.0
"""Interval, with some room, at which the service checks its configuration file."""

PREPARE_SECONDS = 20.0
"""Time to prepare the snapshot for new policies in the background; until then the old ones apply, as /readyz shows."""


MACHINE_DEPENDENT = "depends on the load of this machine"
STALE_CANDIDATES = "sent candidates are as old as the soak and may lack pods that are terminating by now"
MAX_STARVED_SHARE = 0.2
"""Share of the time in which the deciding thread waited for a core; beyond it, delays are caused by the machine."""
WARM_UP_SECONDS = 300.0
"""Minimum duration to judge memory growth; in a shorter run the decision log still fills up in the second fifth."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A requirement with its measured figure."""

    requirement: str
    what: str
    limit: str
    figure: str
    met: bool
    informational: str = ""
    """Reason why it does not affect the overall verdict; empty if it does."""


def verdict(course: Course) -> list[Finding]:
    return [finding for part in PARTS for finding in part(course)]


def starvation_note(course: Course) -> str:
    """Return why delays are not conclusive; empty if they are."""
    share = course.starved
    return f"the service waited for a core {100 * share:.0f} % of the time" if share > MAX_STARVED_SHARE else ""


def is_met(findings: Sequence[Finding]) -> bool:
    return all(finding.met or finding.informational for finding in findings)


# --- L3: nothing grows ----------------------------------------------------------------------------------------------


def growth(course: Course) -> list[Finding]:
    early, late = fifths(course.samples)
    if not early or not late:
        return [Finding("L3", "samples", "some early and some late", "too few", False)]
    before, after = (statistics.median(one.rss for one in some) for some in (early, late))
    percent = 100 * (after - before) / before
    rss = f"{percent:+.1f} % ({before / 1024:.0f} -> {after / 1024:.0f} MiB)"
    note = (
        ""
        if course.ended - course.began >= WARM_UP_SECONDS
        else f"conclusive only from {WARM_UP_SECONDS / 60:g} minutes on"
    )
    return [
        Finding(
            "L3",
            "RSS, last fifth against second",
            f"≤ +{MAX_RSS_GROWTH_PERCENT:g} %",
            rss,
            percent <= MAX_RSS_GROWTH_PERCENT,
            note,
        ),
        _more("open descriptors", early, late, lambda one: one.descriptors, MAX_MORE_DESCRIPTORS),
        _more("threads", early, late, lambda one: one.threads, MAX_MORE_THREADS),
        _more("asyncio tasks", early, late, lambda one: one.tasks, MAX_MORE_TASKS),
    ]


def fifths(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Return the second fifth and the last: after the warm-up, and at the end."""
    count = len(samples)
    return samples[count // 5 : 2 * count // 5], samples[count - count // 5 :]


def _more(
    what: str, early: Sequence[Sample], late: Sequence[Sample], of: Callable[[Sample], int], limit: int
) -> Finding:
    before, after = (statistics.median(map(of, some)) for some in (early, late))
    figure = f"{after - before:+g} ({before:g} -> {after:g})"
    return Finding("L3", f"{what}, last fifth against second", f"≤ +{limit}", figure, after - before <= limit)


# --- L1, L2: how fast -----------------------------------------------------------------------------------------------


def load(course: Course) -> list[Finding]:
    seconds = course.ended - course.began
    cycles, changes = course.counts()["cycles"] / seconds, course.changes / seconds
    pairs, preempts = course.milliseconds("filter + prioritize"), course.milliseconds("preempt")
    found = [
        _rate("scheduling cycles a second", cycles, course.rate),
        _rate("watch events a second", changes, course.events),
    ]
    if pairs:
        mean, high = statistics.fmean(pairs), p99(pairs)
        what = "filter + prioritize of 500 names"
        found += [_time("L1", f"{what}, mean", mean, MEAN_MS), _time("L1", f"{what}, p99", high, P99_MS)]
    if preempts:
        found.append(_time("L2", "preempt of 100-500 candidates, p99", p99(preempts), PREEMPT_MS))
    return found


def _rate(what: str, rate: float, wanted: float) -> Finding:
    limit = f"≥ {RATE_SHARE * wanted:g}"
    return Finding("L3", what, limit, f"{rate:.1f}", rate >= RATE_SHARE * wanted, MACHINE_DEPENDENT)


def _time(requirement: str, what: str, milliseconds: float, limit: float) -> Finding:
    figure = f"{milliseconds:.1f} ms"
    return Finding(requirement, what, f"≤ {limit:g} ms", figure, milliseconds <= limit, MACHINE_DEPENDENT)


# --- answers --------------------------------------------------------------------------------------------------------


def answers(course: Course) -> list[Finding]:
    counts = course.counts()
    total = sum(number for what, number in counts.items() if what.split()[0] in ("filter", "prioritize", "preempt"))
    statuses = {what for what in counts if what.split()[0] in ("filter", "prioritize", "preempt")}
    others = sum(counts[what] for what in statuses if what.split()[1] not in ("200", "503"))
    strict = course.windows(
        ["strict"], CONFIGURATIONS - {"strict"}, MAX_RELOAD_SECONDS + CONFIG_POLL_SECONDS + PREPARE_SECONDS
    )
    beyond = [moment for moment in course.moments("beyond") if not inside(moment, strict)]
    return [
        _none("E1-E9", "wrong answers", counts["wrong answer"], f"of {total:,} calls"),
        _none("E1", "returned nodes that were not sent, except under the preset strict", len(beyond)),
        _none("L1", "failed calls", counts["failed call"], f"of {total:,} calls"),
        _none("L1", "statuses other than 200 and 503", others),
        replace(
            _none("C7", "503 while /readyz said 200", *_unexplained(course, "503")),
            informational=starvation_note(course),
        ),
        _none(
            "C7",
            "undecided answers while /readyz said 200 and the kill switch was off",
            *_unexplained(course, "undecided"),
        ),
        _none("4", "misbehaving clients answered wrongly", counts["bad client answered wrongly"])
        if counts["bad client"]
        else Finding("4", "misbehaving clients", "some", "none", False),
        *_hostile(course),
    ]


def _hostile(course: Course) -> list[Finding]:
    """Return whether hostile pods were decided like any other; no finding for a soak without them."""
    times, counts = course.milliseconds("hostile pod"), course.counts()
    if not times:
        return []
    refused = sum(number for what, number in counts.items() if what.startswith("hostile pod ")) - sum(
        counts[f"hostile pod {status}"] for status in (200, 503)
    )
    return [
        _none("H1", "calls for hostile pods answered neither 200 nor 503", refused, f"of {len(times):,}"),
        Finding("H1", "calls for hostile pods, slowest", "any", f"{max(times):.0f} ms", True),
    ]


CONFIGURATIONS = {"careful", "strict", "usual", "kill switch", "bad file"}


def _unexplained(course: Course, what: str) -> tuple[int, str]:
    """Return the number of events without an explanation, and a text with their total."""
    explained = list(course.unready)
    if what == "undecided":
        explained += course.windows(
            ["kill switch"], CONFIGURATIONS - {"kill switch", "bad file"}, MAX_RELOAD_SECONDS + CONFIG_POLL_SECONDS
        )
    moments = course.moments(what)
    return sum(not inside(moment, explained, READYZ_MARGIN_SECONDS) for moment in moments), f"of {len(moments):,}"


def _none(requirement: str, what: str, count: int, more: str = "") -> Finding:
    return Finding(requirement, what, "0", f"{count} {more}".strip(), count == 0)


# --- the cluster and the operator -----------------------------------------------------------------------------------


def cache_findings(course: Course) -> list[Finding]:
    outages = course.windows(["refuse"], ["accept"], MAX_RESYNC_SECONDS)
    unready = [window for window in course.unready if window[0] < course.ended]
    unexplained = [window for window in unready if not _within(window, outages)]
    longest = max((end - begin for begin, end in unready), default=0.0)
    metrics = course.samples[-1].metrics if course.samples else {}
    relists = sum(number for name, number in metrics.items() if name.startswith("extender_watch_relists_total"))
    struck = any(step.what in ("expire", "refuse", "restart") for step in course.done)
    what = f"times not ready except during an outage and {MAX_RESYNC_SECONDS:g} s after it"
    found = [
        replace(_none("C8", what, len(unexplained), _longest(longest)), informational=starvation_note(course)),
        Finding("C2", "relists", "some" if struck else "any", f"{relists:g}", relists > 0 or not struck),
    ]
    if outages:
        is_unready = any(begin <= end_of and start <= end for begin, end in outages for start, end_of in unready)
        figure = "yes" if is_unready else "no"
        found.append(
            Finding("C7", f"not ready during an outage of more than {STALE_AFTER:g} s", "yes", figure, is_unready)
        )
    if "extender_cache_divergences_total" in metrics:
        found.append(_none("C15", "objects that differed", int(metrics["extender_cache_divergences_total"])))
    rejections = sum(n for name, n in metrics.items() if name.startswith("extender_guard_rejections_total"))
    found.append(
        Finding("E4", "candidates that the guard rejected", "0", f"{rejections:g}", not rejections, STALE_CANDIDATES)
    )
    if course.end is not None:
        found.append(Finding("C14", "the cache at the end", "equal", course.end.equal_text, course.end.equal))
    return found


def _within(window: tuple[float, float], windows: Sequence[tuple[float, float]]) -> bool:
    return any(begin <= window[0] and window[1] <= end for begin, end in windows)


def _longest(seconds: float) -> str:
    return f"(longest {seconds:.1f} s)" if seconds else ""


def operator(course: Course) -> list[Finding]:
    found = []
    for requirement, what, names in (
        ("5", "a new certificate or CA in effect", {"rotate", "rotate authority"}),
        ("6", "another setting in effect", CONFIGURATIONS),
    ):
        steps = [step for step in course.done if step.what in names]
        if not steps:
            continue
        slowest = max(step.seconds or 0.0 for step in steps)
        figure = f"{slowest:.1f} s at most, {len(steps)} times"
        found.append(
            Finding(
                requirement,
                what,
                f"≤ {MAX_RELOAD_SECONDS:g} s",
                figure,
                slowest <= MAX_RELOAD_SECONDS,
                MACHINE_DEPENDENT,
            )
        )
    wrong = [f"{step.what}: {step.wrong}" for step in course.done if step.wrong]
    return [*found, Finding("5, 6", "failed steps", "0", "; ".join(wrong) or "0", not wrong)]


def shutdown(course: Course) -> list[Finding]:
    end = course.end
    if end is None:
        return [Finding("6", "SIGTERM under load", "shutdown", "none", False)]
    failed = sum(moment >= end.signalled for moment in course.moments("failed call"))
    refused = sum(moment >= end.signalled for moment in course.moments("503"))
    unready = [begin for begin, _ in course.unready if begin >= end.signalled - READYZ_MARGIN_SECONDS]
    figure = f"after {max(0.0, unready[0] - end.signalled):.1f} s" if unready else "never"
    return [
        Finding(
            "6",
            "SIGTERM: not ready at once",
            f"≤ {READYZ_MARGIN_SECONDS:g} s",
            figure,
            bool(unready) and unready[0] <= end.signalled + READYZ_MARGIN_SECONDS,
        ),
        _none("6", "SIGTERM: failed calls", failed + refused),
        Finding("6", "SIGTERM: exit code", "0", str(end.code), end.code == 0),
        Finding(
            "6",
            "SIGTERM: ended",
            f"≤ {MAX_SHUTDOWN_SECONDS:g} s",
            f"{end.seconds:.1f} s",
            end.seconds <= MAX_SHUTDOWN_SECONDS,
        ),
    ]


PARTS: tuple[Callable[[Course], list[Finding]], ...] = (growth, load, answers, cache_findings, operator, shutdown)
