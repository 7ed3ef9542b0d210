"""docs/reasons.md has all reasons, codes and messages of the code and no others, and commands and settings that exist.

A message is compared as a template: what is put into it is `{}`.
"""

import functools
import gzip
import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
import typer.main
from typer.core import TyperGroup

from extender import cli, errors
from extender.cluster.apiserver import binding
from extender.cluster.apiserver.binding import BindResult
from extender.cluster.cache import cache
from extender.cluster.files import source as files_source
from extender.cluster.watch import list_watch
from extender.cluster.watch import source as watch_source
from extender.cluster.watch.state import Phase
from extender.config import Configuration
from extender.core import devices
from extender.core.devices.structured import allocator, node_devices, pools
from extender.core.framework import filter as node_filter
from extender.core.framework import plugins, score, status
from extender.core.framework.plugins import FILTERS, dynamic_resources
from extender.core.framework.status import Code
from extender.core.preemption import (
    candidates,
    eligibility,
    protections,
    rate_limits,
    sent_candidates,
)
from extender.core.preemption import rejections as preempt_rejections
from extender.core.scheduling_cycle import fit_error, schedule_one
from extender.core.scheduling_cycle.result import CycleOutcome
from extender.core.snapshot import volume_index
from extender.k8s.devices import selector
from extender.k8s.limits import limits
from extender.k8s.storage import volumes
from extender.report import tried_node
from extender.report.pod_schema import PodState, Verdict
from extender.report.schema import NodeOutcome, PodRole
from extender.report.simulation_schema import NodeState
from extender.server import context, settings
from extender.server.admin import health
from extender.server.events import notices
from extender.server.guard import guard
from extender.server.http import body, deadline, protocol, tls
from extender.server.http import errors as http_errors
from extender.server.observability.metrics import ANSWER_RESULTS, FAILURE_REASONS, REFUSAL_STATUSES
from extender.server.recording import answer_diff
from extender.server.scheduler import bind, filter_dryrun, routes, sent_nodes, verbs
from extender.utilities import daemon_thread
from extender.whatif import drain
from extender.wire import decode
from tests.docs.code_texts import is_text, strings_given_to, texts, with_holes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")

POST_FILTER = {
    dynamic_resources.NO_NEW_CLAIMS, dynamic_resources.DEALLOCATED, dynamic_resources.DELETED,
    dynamic_resources.STILL_NOT_SCHEDULABLE,
}  # fmt: skip
"""What DynamicResources says when kube-scheduler preempts."""

LIMITS = texts(limits, "TOO_MANY_CLAIMS", "TOO_MANY_DEVICE_CONTAINERS", "WorkBudget")

NOT_EVALUATED = {
    *texts(dynamic_resources, "_why_not_evaluated", "_not_followed", "_verdicts"),
    *(text for one in (allocator, node_devices) for text in strings_given_to(one, "NotEvaluated") if is_text(text)),
    *LIMITS,
    *texts(pools, "_terms"),
}
"""Why DynamicResources leaves a pod to kube-scheduler."""

NOT_ELIGIBLE = {eligibility.PREEMPTION_POLICY_NEVER, eligibility.TERMINATING_POD_ON_NOMINATED_NODE}


# --- what the code can say ------------------------------------------------------------------------------------------


def without(found: set[str], parts: set[str]) -> set[str]:
    """Return the texts without some that have no row, all of which must be there."""
    assert found >= parts, parts - found
    return found - parts


def texts_of_package(package: ModuleType) -> set[str]:
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return set[str]().union(*(texts(importlib.import_module(name)) for name in names))


@functools.cache  # it parses 40 modules, for two tests
def of_plugins() -> set[str]:
    found = texts(plugins) | texts_of_package(plugins) | texts_of_package(devices) | texts(score)
    found |= texts(status, "Status", "filter_error") | texts(node_filter, "left_out_by_prefilter")
    found |= texts(volume_index, "not_found") | texts(volumes, "not_for_pod_message")
    found |= texts(selector, "OPTIONAL_FIELD") | texts(limits, "TOO_MANY_HARD_CONSTRAINTS") | LIMITS
    put_in = {"claim {}", "claim {}, request {}", "class {}", "{}: selector #{}"}
    return without(found, put_in | POST_FILTER | NOT_EVALUATED)


def of_vetoes_of_nodes() -> set[str]:
    """Return what policies say of one node, and how Events name them."""
    found = texts(rate_limits) | texts(candidates) | texts(tried_node, "TriedNode") | texts(notices, "_veto_reason")
    return without(found, {"not {}"} | texts(rate_limits, "preemption_refusal"))


def of_pods_not_tried() -> set[str]:
    found = texts(eligibility) | texts(schedule_one, "not_tried_reason") | texts(context, "not_ours_message")
    return without(found | strings_given_to(context, "LeftToScheduler"), NOT_ELIGIBLE)


def of_preemption_messages() -> set[str]:
    found = without(texts(fit_error), {fit_error.PREEMPTION})  # the other messages begin with it
    return found | POST_FILTER | NOT_ELIGIBLE | set(status.NO_VICTIMS_FOUND.reasons)


def of_dropped_nodes() -> set[str]:
    found = texts(sent_candidates, "RejectionReason") | texts(preempt_rejections, "no_eviction_needed")
    found |= texts(verbs, "Preempt.decide")
    return without(found, strings_given_to(verbs, "GuardError"))


def of_failed_and_refused_calls() -> set[str]:
    found = texts(routes) | texts(body) | texts(deadline) | texts(protocol) | texts(filter_dryrun) | texts(sent_nodes)
    found |= texts(http_errors) | texts(context, "not_ours_message") | texts(errors, "INTERNAL")
    found |= strings_given_to(verbs, "GuardError") | strings_given_to(node_filter, "UnknownNode")
    found |= strings_given_to(decode, "RequestTooLarge")
    no_messages = {"POST /{}", "the connection is closed"}  # the name of a span; told to no client
    return without(found, no_messages)


def of_readiness() -> set[str]:
    found = texts(watch_source, "KubernetesSource.problem", "KubernetesSource._not_synced", "KubernetesSource.run")
    found |= (
        texts(cache, "ClusterCache.snapshot") | texts(settings, "LiveSettings._resolve") | texts(health, "DRAINING")
    )
    put_in = {"the first snapshot", ", for kube-scheduler {} ({})"}
    return without(found, put_in)


def of_warnings() -> set[str]:
    found = texts(list_watch, "no_permission") | texts(files_source, "FileSource.warnings")
    found |= texts(settings, "Settings.notes", "LiveSettings.warnings", "not_evaluated_lines")
    found |= texts(tls, "TLSFiles.warnings") | texts(daemon_thread, "ReloadThread.warnings")
    found |= {line[len("[!] ") :] for line in texts(health, "readiness") if line.startswith("[!] ")}
    return without(
        found, {"no pod is evicted", "kube-scheduler evicts the victims it chose"}
    )  # put in behind `kill switch`


def of_bindings() -> set[str]:
    return without(texts(binding) | texts(bind), {"pod {}/{}"})


def of_plugins_not_evaluated() -> set[str]:
    of_admission = {"no permission to list {}: manifests are admitted without them"}
    found = texts(settings, "not_evaluated_lines") | without(texts(list_watch, "no_permission"), of_admission)
    return found | NOT_EVALUATED


class Column(NamedTuple):
    """A column of a table of the page."""

    heading: str
    place: int = 0
    table: int = 0
    """Its place among the tables below the heading."""


MESSAGES: dict[tuple[Column, ...], Callable[[], set[str]]] = {
    (
        Column("One node"),
        Column("The pod, on every node"),
        Column("A plugin fails"),
        Column("Errors of devices"),
    ): of_plugins,
    (Column("The end of the message: preemption"),): of_preemption_messages,
    (Column("Pods that are not tried", table=1),): of_pods_not_tried,
    (Column("Nodes that are not in the answer to /preempt"),): of_dropped_nodes,
    (Column("On every node"),): partial(texts, rate_limits, "preemption_refusal"),
    (Column("On one node"), Column("On one node", 1)): of_vetoes_of_nodes,
    (Column("Protected pods"),): partial(texts, protections),
    (Column("Plugins that are not evaluated"),): of_plugins_not_evaluated,
    (Column("Failed calls", 1), Column("Refused requests", 1)): of_failed_and_refused_calls,
    (Column("Not ready"),): of_readiness,
    (Column("Warnings"), Column("Warnings", 1)): of_warnings,
    (Column("The guard", table=1),): partial(texts, guard, "_filter_error", "guard_scores"),
    (Column("Bindings", table=1),): of_bindings,
    (Column("Blocked evictions"),): partial(texts, drain, "EvictionAPI", "MORE_THAN_ONE_BUDGET", "_too_many_requests"),
}
"""Columns of the page -> what collects the messages that they have, together."""

CODES: dict[Column, set[str]] = {
    Column("Nodes that do not take the pod"): {code.text for code in Code},
    Column("Pods that are not tried"): set(get_args(PodState)),
    Column("Failed calls"): set(FAILURE_REASONS),
    Column("Results of calls"): {result for results in ANSWER_RESULTS.values() for result in results},
    Column("The guard"): {guard.DUPLICATE_NODE, *(name for name, _ in guard.rules())},
    Column("Bindings"): set(get_args(get_type_hints(BindResult)["outcome"])),
    Column("Differences in a replay"): strings_given_to(answer_diff, "Difference")
    | {text for text in texts(answer_diff, "_filter_statements") if text.startswith("node ")},
}
"""Column of the page -> the codes that it has."""


# --- the page -------------------------------------------------------------------------------------------------------


def cells(column: Column, page: str = PAGE) -> list[str]:
    """Return the cells of a column below a heading; those below its own subheadings do not count."""
    found = re.search(rf"^#+ {re.escape(column.heading)}\n((?:(?!#).*\n?)*)", page, re.MULTILINE)
    assert found is not None, f"the page has no heading {column.heading!r}"
    table = re.findall(r"(?:^\|.*\n)+", found[1], re.MULTILINE)[column.table]
    return [row.strip("|").split(" | ")[column.place] for row in table.splitlines()[2:]]


def named(text: str) -> list[str]:
    """Return what stands between backquotes."""
    return re.findall(r"`([^`\n]+)`", text)


def messages(columns: tuple[Column, ...]) -> list[str]:
    """Return the messages of these columns as templates; what is not a line with a blank is a code or a setting."""
    found = [with_holes(text) for column in columns for cell in cells(column) for text in named(cell)]
    return [text for text in found if is_text(text)]


def missing(columns: tuple[Column, ...]) -> list[str]:
    return sorted(MESSAGES[columns]() - set(messages(columns)))


def unknown(columns: tuple[Column, ...]) -> list[str]:
    return sorted(set(messages(columns)) - MESSAGES[columns]())


EACH = pytest.mark.parametrize("columns", MESSAGES, ids=lambda columns: columns[0].heading)


@EACH
def test_every_message_of_the_code_has_a_row(columns):
    assert missing(columns) == []


@EACH
def test_every_row_is_a_message_of_the_code(columns):
    assert unknown(columns) == []


@pytest.mark.parametrize("column", CODES, ids=lambda column: column.heading)
def test_the_codes_are_those_of_the_code(column):
    found = [with_holes(text) for cell in cells(column) for text in named(cell)]
    assert sorted(found) == sorted(CODES[column])


SOURCE = """
from typing import Final

PREFIX: Final = "not tried: "
TABLE = {"a name": "of a table"}

class One:
    "A docstring is none."

    def say(self, what: "type of it") -> "another type":
        log.info("a log line is none")
        self._log_failed("so is this")
        words = ", ".join(["single", "words"])
        return f"{PREFIX}{what} is " "short of " f"{what.amount:.0f} by {'no more' if what else words}"

def other():
    raise ValueError(f"{1} of two")
"""


def test_texts_are_read_from_the_source(tmp_path, monkeypatch):
    (tmp_path / "module_with_texts.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_with_texts")
    said = {"not tried: {} is short of {} by {}", "no more"}
    assert texts(module) == said | {"not tried: ", "of a table", "{} of two"}
    assert texts(module, "One.say") == said
    assert texts(module, "PREFIX", "other") == {"not tried: ", "{} of two"}
    assert strings_given_to(module, "ValueError") == {"{} of two"}
    with pytest.raises(AssertionError, match="Two"):
        texts(module, "Two")


def test_a_text_that_is_in_the_code_or_on_the_page_only_is_noticed(monkeypatch):
    columns = (Column("Blocked evictions"),)
    of_code = MESSAGES[columns]()
    monkeypatch.setitem(MESSAGES, columns, lambda: of_code | {"The disruption budget {} is new"})
    assert missing(columns) == ["The disruption budget {} is new"]
    monkeypatch.setitem(MESSAGES, columns, set)
    assert len(unknown(columns)) == 4


def test_outcomes_of_nodes_are_those_of_preemptions():
    column = Column("Nodes that are not in the answer to /preempt", 1)
    of_preempt = set(get_args(NodeOutcome)) - {"accepted", "failed", "unresolvable", "scored", "unscored"}
    assert {text for cell in cells(column) for text in named(cell)} == of_preempt - {"chosen"}


def test_statuses_of_refused_requests_are_those_that_are_counted_and_two_more():
    assert {int(cell) for cell in cells(Column("Refused requests"))} == {*REFUSAL_STATUSES, 405, 431}


# --- what kube-scheduler's own code says ----------------------------------------------------------------------------

CORPUS = ROOT / "tests" / "parity" / "corpus" / "versions"
HELP = {"Unschedulable": "may help", "UnschedulableAndUnresolvable": "not helpful"}


def rejections() -> set[tuple[str, str, str]]:
    """Return (code, plugin, reason) of the nodes and pods that kube-scheduler's own filters reject in the corpus."""
    return {
        (one["code"], one["plugin"], reason)
        for path in CORPUS.glob("*.jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines()
        for one in _statuses(json.loads(line))
        for reason in one["reasons"] or ()
        if one["plugin"] != "SchedulingGates" and one["code"] in HELP and reason not in status.NO_VICTIMS_FOUND.reasons
    }


def _statuses(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and {"code", "plugin", "reasons"} <= value.keys():
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _statuses(one)


def rejecting_rows() -> Iterator[tuple[list[re.Pattern[str]], str, str]]:
    """Yield (patterns of its messages, plugins, whether evictions may help) of each row about nodes and pods."""
    for heading in ("One node", "The pod, on every node"):
        reasons, plugins = cells(Column(heading)), cells(Column(heading, 1))
        helps = cells(Column(heading, 2)) if heading == "One node" else ["not helpful"] * len(reasons)
        for reason, of, help_ in zip(reasons, plugins, helps, strict=True):
            parts = (map(re.escape, with_holes(text).split("{}")) for text in named(reason))
            yield [re.compile(".*".join(one)) for one in parts], of, help_


def test_plugins_and_whether_evictions_may_help_are_those_of_kube_scheduler():
    found, rows = rejections(), list(rejecting_rows())
    assert len({plugin for _, plugin, _ in found}) > 12
    for code, plugin, reason in found:
        own = [row for row in rows if (plugin or "the framework") in row[1] and HELP[code] in row[2]]
        assert any(pattern.fullmatch(reason) for patterns, _, _ in own for pattern in patterns), (code, plugin, reason)


def test_every_filter_plugin_has_a_reason():
    plugins = ", ".join(cells(Column("One node", 1))).split(", ")
    assert set(FILTERS) <= set(plugins) <= {*FILTERS, "the framework", "any"}


# --- commands, settings and other pages -----------------------------------------------------------------------------


def test_commands_are_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("pod.yaml", "node.yaml", "config.yaml", "extender.yaml"):
        (tmp_path / name).touch()
    commands = set(re.findall(r"(?:^|`)(extender [a-z]+ [^`\n]+)", PAGE, re.MULTILINE))
    assert len(commands) > 10
    for command in commands:
        words, group = shlex.split(command)[1:], typer.main.get_command(cli.app)
        while isinstance(group, TyperGroup):
            group = group.commands[words.pop(0)]
        assert not group.make_context("extender", words).args, command


def test_settings_exist():
    told = Configuration().model_dump(by_alias=True)
    sections = "|".join(told)
    settings_on_page = {text for text in named(PAGE) if re.fullmatch(rf"(?:{sections})\.[\w.]+", text)}
    assert len(settings_on_page) > 10
    for setting in settings_on_page:
        value: Any = told
        for key in setting.split("."):
            assert key in value, setting
            value = value[key]


@pytest.mark.parametrize(
    ("page", "heading", "vocabulary"),
    [
        ("explain.md", "Node outcomes", get_args(NodeOutcome)),
        ("explain.md", "Pod roles", get_args(PodRole)),
        ("why.md", "Exit codes", get_args(Verdict)),
        ("simulate.md", "Result", (*get_args(CycleOutcome), *get_args(NodeState))),
        ("cluster.md", "Cache status", tuple(Phase)),
    ],
)
def test_a_page_that_is_said_to_have_them_all_has_them_all(page, heading, vocabulary):
    anchor = heading.lower().replace(" ", "-")
    assert f"]({page}#{anchor})" in PAGE
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert [word for word in vocabulary if f"`{word}`" not in text] == []
