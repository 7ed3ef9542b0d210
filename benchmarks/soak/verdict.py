"""What is required of a soak, each requirement with its limit, its figure, and whether it is met.

Rule: a figure that depends on how busy the machine is says so, and does not decide about the exit code.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.measure import p99
from benchmarks.soak.course import Course, Sample, inside
from benchmarks.soak.schedule import STALE_AFTER

RSS_GROWTH = 5.0
"""Percent."""
MORE_DESCRIPTORS = 5
MORE_THREADS = 1
MORE_TASKS = 5
MEAN_MS, P99_MS, PREEMPT_MS = 6.0, 25.0, 50.0
RATE_SHARE = 0.9
RENEWED = 10.0
"""Seconds within which a new certificate and another setting are in effect."""
RETURNED = 35.0
"""Seconds within which the cache is in sync after the API server returned."""
SHUTDOWN = 20.0
MARGIN = 1.5
"""Seconds by which an answer may come before or after /readyz has said why: it is asked ten times a second."""
POLLS = 2.0
"""Seconds between two looks of the service at its configuration file, with room."""

MADE_READY = 20.0
"""Seconds in which the snapshot is prepared for new policies, beside everything else; until then the old ones apply,
and /readyz says so."""


OF_MACHINE = "on this machine, as busy as it was"
OLD_OFFERS = "what is offered is as old as the soak, and may name none of the pods that are leaving by now"
STARVED = 0.2
"""Share of the time for which the thread that decides had no core: beyond it, being late is the machine's fault."""
WARM_UP = 300.0
"""Seconds; in less, what is kept of the last decisions is still filling up in the second fifth."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A requirement, and what was found."""

    requirement: str
    what: str
    limit: str
    figure: str
    met: bool
    only_told: str = ""
    """Why this does not decide about the whole, if it does not."""


def verdict(course: Course) -> list[Finding]:
    return [finding for part in PARTS for finding in part(course)]


def of_starving(course: Course) -> str:
    """Why being late tells nothing, if that is so."""
    share = course.starved
    return f"there was no core for the service {100 * share:.0f} % of the time" if share > STARVED else ""


def is_met(findings: Sequence[Finding]) -> bool:
    return all(finding.met or finding.only_told for finding in findings)


# --- L3: nothing grows ----------------------------------------------------------------------------------------------


def growth(course: Course) -> list[Finding]:
    early, late = fifths(course.samples)
    if not early or not late:
        return [Finding("L3", "samples", "some early and some late", "too few", False)]
    before, after = (statistics.median(one.rss for one in some) for some in (early, late))
    percent = 100 * (after - before) / before
    rss = f"{percent:+.1f} % ({before / 1024:.0f} -> {after / 1024:.0f} MiB)"
    told = "" if course.ended - course.began >= WARM_UP else f"a run of {WARM_UP / 60:g} minutes and more decides"
    return [
        Finding("L3", "RSS, last fifth against second", f"≤ +{RSS_GROWTH:g} %", rss, percent <= RSS_GROWTH, told),
        _more("open descriptors", early, late, lambda one: one.descriptors, MORE_DESCRIPTORS),
        _more("threads", early, late, lambda one: one.threads, MORE_THREADS),
        _more("asyncio tasks", early, late, lambda one: one.tasks, MORE_TASKS),
    ]


def fifths(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The second fifth and the last: after the warm-up, and at the end."""
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
    return Finding("L3", what, limit, f"{rate:.1f}", rate >= RATE_SHARE * wanted, OF_MACHINE)


def _time(requirement: str, what: str, milliseconds: float, limit: float) -> Finding:
    figure = f"{milliseconds:.1f} ms"
    return Finding(requirement, what, f"≤ {limit:g} ms", figure, milliseconds <= limit, OF_MACHINE)


# --- answers --------------------------------------------------------------------------------------------------------


def answers(course: Course) -> list[Finding]:
    counts = course.counts()
    total = sum(number for what, number in counts.items() if what.split()[0] in ("filter", "prioritize", "preempt"))
    statuses = {what for what in counts if what.split()[0] in ("filter", "prioritize", "preempt")}
    others = sum(counts[what] for what in statuses if what.split()[1] not in ("200", "503"))
    strict = course.windows(["strict"], CONFIGURATIONS - {"strict"}, RENEWED + POLLS + MADE_READY)
    beyond = [moment for moment in course.moments("beyond") if not inside(moment, strict)]
    return [
        _none("E1-E9", "wrong answers", counts["wrong answer"], f"of {total:,} calls"),
        _none("E1", "nodes answered that were not offered, but for the preset strict", len(beyond)),
        _none("L1", "failed calls", counts["failed call"], f"of {total:,} calls"),
        _none("L1", "statuses other than 200 and 503", others),
        replace(_none("C7", "503 while /readyz said 200", *_unexplained(course, "503")), only_told=of_starving(course)),
        _none(
            "C7",
            "undecided answers while /readyz said 200 and the kill switch was off",
            *_unexplained(course, "undecided"),
        ),
        _none("4", "wrong, slow and strange clients answered wrongly", counts["nuisance answered wrongly"])
        if counts["nuisance"]
        else Finding("4", "wrong, slow and strange clients", "some", "none", False),
    ]


CONFIGURATIONS = {"careful", "strict", "usual", "kill switch", "bad file"}


def _unexplained(course: Course, what: str) -> tuple[int, str]:
    """How many happened at a moment that nothing explains; and of how many."""
    explained = list(course.unready)
    if what == "undecided":
        explained += course.windows(["kill switch"], CONFIGURATIONS - {"kill switch", "bad file"}, RENEWED + POLLS)
    moments = course.moments(what)
    return sum(not inside(moment, explained, MARGIN) for moment in moments), f"of {len(moments):,}"


def _none(requirement: str, what: str, count: int, more: str = "") -> Finding:
    return Finding(requirement, what, "0", f"{count} {more}".strip(), count == 0)


# --- the cluster and the operator -----------------------------------------------------------------------------------


def cache_findings(course: Course) -> list[Finding]:
    outages = course.windows(["refuse"], ["accept"], RETURNED)
    unready = [window for window in course.unready if window[0] < course.ended]
    unexplained = [window for window in unready if not _within(window, outages)]
    longest = max((end - begin for begin, end in unready), default=0.0)
    metrics = course.samples[-1].metrics if course.samples else {}
    relists = sum(number for name, number in metrics.items() if name.startswith("extender_watch_relists_total"))
    struck = any(step.what in ("expire", "refuse", "restart") for step in course.done)
    what = f"times not ready but for an outage and {RETURNED:g} s after it"
    found = [
        replace(_none("C8", what, len(unexplained), _longest(longest)), only_told=of_starving(course)),
        Finding("C2", "relists", "some" if struck else "any", f"{relists:g}", relists > 0 or not struck),
    ]
    if outages:
        said = any(begin <= end_of and start <= end for begin, end in outages for start, end_of in unready)
        figure = "yes" if said else "no"
        found.append(
            Finding("C7", f"openly not ready in an outage of more than {STALE_AFTER:g} s", "yes", figure, said)
        )
    if "extender_cache_divergences_total" in metrics:
        found.append(_none("C15", "objects that differed", int(metrics["extender_cache_divergences_total"])))
    rejections = sum(n for name, n in metrics.items() if name.startswith("extender_guard_rejections_total"))
    found.append(
        Finding("E4", "candidates that the guard rejected", "0", f"{rejections:g}", not rejections, OLD_OFFERS)
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
        ("5", "a new certificate or authority in effect", {"rotate", "rotate authority"}),
        ("6", "another setting in effect", CONFIGURATIONS),
    ):
        steps = [step for step in course.done if step.what in names]
        if not steps:
            continue
        slowest = max(step.seconds or 0.0 for step in steps)
        figure = f"{slowest:.1f} s at most, {len(steps)} times"
        found.append(Finding(requirement, what, f"≤ {RENEWED:g} s", figure, slowest <= RENEWED, OF_MACHINE))
    wrong = [f"{step.what}: {step.wrong}" for step in course.done if step.wrong]
    return [*found, Finding("5, 6", "steps that did not go as they must", "0", "; ".join(wrong) or "0", not wrong)]


def shutdown(course: Course) -> list[Finding]:
    end = course.end
    if end is None:
        return [Finding("6", "SIGTERM under load", "an end", "none", False)]
    failed = sum(moment >= end.signalled for moment in course.moments("failed call"))
    refused = sum(moment >= end.signalled for moment in course.moments("503"))
    unready = [begin for begin, _ in course.unready if begin >= end.signalled - MARGIN]
    said = f"after {max(0.0, unready[0] - end.signalled):.1f} s" if unready else "never"
    return [
        Finding(
            "6",
            "SIGTERM: not ready at once",
            f"≤ {MARGIN:g} s",
            said,
            bool(unready) and unready[0] <= end.signalled + MARGIN,
        ),
        _none("6", "SIGTERM: failed calls", failed + refused),
        Finding("6", "SIGTERM: exit code", "0", str(end.code), end.code == 0),
        Finding("6", "SIGTERM: ended", f"≤ {SHUTDOWN:g} s", f"{end.seconds:.1f} s", end.seconds <= SHUTDOWN),
    ]


PARTS: tuple[Callable[[Course], list[Finding]], ...] = (growth, load, answers, cache_findings, operator, shutdown)
