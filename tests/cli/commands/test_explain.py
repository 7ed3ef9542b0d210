"""extender explain, against a running admin listener, a recording, and what is neither.

The cluster is that of the HTTP tests: `urgent` takes the place of `small` on worker-1 or of `large` on worker-2, which
cost the same.
"""

import http.server
import inspect
import io
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from extender import cli
from extender.cli.commands.explain import explain as explain_command
from extender.cli.output import decision_report, node_report, tables
from extender.cli.output.decision_report import Invocation
from extender.core.profile import PreemptionPolicy
from extender.report.schema import (
    ClaimReport,
    DecisionReport,
    DeviceReport,
    DeviceRequestReport,
    NodeOutcome,
    NodeReport,
    PodReport,
    PodRole,
    RankingReport,
    SchedulerReport,
    StatusReport,
)
from extender.server.context import ServerContext
from extender.server.observability.decision_log import DecisionLog
from extender.server.scheduler import verbs
from extender.server.settings import LiveSettings
from extender.utilities.text import format_amount
from tests.builders import budget, incoming, node, pod
from tests.device_builders import undecided_claim, using_claims
from tests.report.test_render import STRICT, filtered, preempted, scored
from tests.server.conftest import (
    CLUSTER,
    INCOMING,
    configuration,
    filled_cache,
    filter_body,
    listening,
    preempt_body,
)
from tests.server.recording.rig import Rig

HOSTILE_NAME = "evil\x9b31m\u202e\x7f"
LONG = "a-name-as-long-as-kubernetes-allows-" + 200 * "x"


def ask(server_context: ServerContext, verb: str, body: bytes) -> None:
    verbs.answer(verbs.VERBS[verb], server_context, body)


def fill(server_context: ServerContext) -> None:
    """filter-1 and filter-2 are about incoming, preempt-1 about urgent, and prioritize-1 comes last."""
    ask(server_context, "filter", filter_body())
    ask(server_context, "preempt", preempt_body())
    ask(server_context, "filter", filter_body())
    ask(server_context, "prioritize", filter_body(["worker-1", "worker-2"]))


def new_service() -> ServerContext:
    return ServerContext(filled_cache(CLUSTER), LiveSettings(configuration()), decisions=DecisionLog(100, 1 << 26))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server_context = new_service()
    fill(server_context)
    with listening(server_context) as address:
        yield address


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> str:
    rig = Rig(tmp_path_factory.mktemp("recording"))
    rig.recorder.start()
    fill(rig.server_context)
    rig.recorder.stop()
    return str(rig.directory)


@pytest.fixture(params=["a service", "a recording"])
def where(request, url, recording) -> tuple[str, str]:
    """The option that says where to ask."""
    return ("--url", url) if request.param == "a service" else ("--recording", recording)


OUTSIDE = dict.fromkeys(("EXTENDER_ADMIN_URL", "NO_COLOR", "FORCE_COLOR", "COLUMNS"))
"""Variables of whoever runs the tests."""


def explain(*arguments: str, **env: str) -> Any:
    return CliRunner().invoke(cli.app, ["explain", *arguments], env={**OUTSIDE, **env})


def explain_stdout(*arguments: str, **env: str) -> str:
    result = explain(*arguments, **env)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    """(exit code, stderr) of the console entry point."""
    monkeypatch.setattr(sys, "argv", ["extender", "explain", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert out == ""
    assert isinstance(ended.value.code, int)
    return ended.value.code, err


# --- which decision ---------------------------------------------------------------------------------------------------


def test_without_an_argument_the_latest_decisions_are_listed(where):
    header, *lines = explain_stdout(*where).splitlines()
    assert header.split() == ["ID", "TIME", "VERB", "POD", "SUMMARY"]
    assert [line.split()[0] for line in lines[:-1]] == ["prioritize-1", "filter-2", "preempt-1", "filter-1"]
    assert lines[2].endswith("evicts shop/small from worker-1 for shop/urgent: "
                             "both candidates cost the same, and its name comes first")  # fmt: skip
    assert lines[-1] == f"show one decision: extender explain {where[0]} {where[1]} prioritize-1"


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["--verb", "filter"], ["filter-2", "filter-1"]),
        (["--limit", "2"], ["prioritize-1", "filter-2"]),
        (["--list", "shop/small"], ["preempt-1"]),
        (["--list", "uid-incoming"], ["prioritize-1", "filter-2", "filter-1"]),
        (["--list", "incoming", "--verb", "filter"], ["filter-2", "filter-1"]),
        (["--since", "1h"], ["prioritize-1", "filter-2", "preempt-1", "filter-1"]),
        (["--since", "2026-01-01T00:00:00Z", "--limit", "1"], ["prioritize-1"]),
        (["--node", "worker-3"], ["filter-2", "filter-1"]),
    ],
)
def test_the_list_can_be_narrowed(where, arguments, ids):
    found = json.loads(explain_stdout(*where, *arguments, "-o", "json"))["decisions"]
    assert [one["id"] for one in found] == ids


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        pytest.param(["preempt-1"], "preempt-1 evicts shop/small", id="1: by id"),
        pytest.param(["shop/urgent"], "preempt-1 evicts shop/small", id="2: by the preemptor"),
        pytest.param(["small"], "preempt-1 evicts shop/small", id="3: by a victim"),
        pytest.param(["uid-urgent"], "preempt-1 evicts shop/small", id="4: by UID"),
        pytest.param(["incoming"], "prioritize-1 worker-1 scored best", id="5: without a preemption the latest"),
        pytest.param(["incoming", "--verb", "filter"], "filter-2 shop/incoming fits on 1 of 3", id="6: of a verb"),
        pytest.param(["filter-1"], "filter-1 shop/incoming fits on 1 of 3 nodes", id="7: an older one by its id"),
        pytest.param(["incoming", "--node", "worker-3"], "filter-2 ", id="8: the latest that speaks of the node"),
        pytest.param(["incoming", "--node", "worker-2"], "filter-2 ", id="9: filters say more of a node than scores"),
    ],
)
def test_the_decision_is_found(where, arguments, start):
    assert explain_stdout(*where, *arguments).startswith(start)


def test_how_many_others_speak_of_the_pod_is_said_with_how_to_see_them(where):
    command = f"extender explain {where[0]} {where[1]} incoming --list"
    assert explain_stdout(*where, "incoming").endswith(f"2 other decisions mention this pod: {command}\n")
    assert "other decision" not in explain_stdout(*where, "urgent")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["shop/urgnt"],
            (
                "no retained decision mentions 'shop/urgnt' (did you mean shop/urgent?); "
                "run extender explain to list the retained decisions"
            ),
        ),
        (["smal"], "no retained decision mentions 'smal' (did you mean shop/small?); run extender explain to list"),
        (["preempt-99"], "no retained decision mentions 'preempt-99'; run extender explain to list the retained"),
        (
            ["unknown", "--list"],
            "no retained decision mentions 'unknown'; run extender explain to list the retained",
        ),
        (
            ["urgent", "--node", "worker-3"],
            "preempt-1 does not mention node 'worker-3'; it mentions worker-2, worker-1",
        ),
        (["urgent", "--node", "x\x1b[31m"], r"preempt-1 does not mention node 'x\x1b[31m'; it mentions worker-"),
    ],
)
def test_what_is_not_there_ends_with_1_and_what_is_there_instead(monkeypatch, capsys, where, arguments, message):
    code, err = fails(monkeypatch, capsys, *where, *arguments)
    assert code == 1
    assert err.startswith(f"extender: {message}")
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("arguments", "restrictions", "retained"),
    [
        (["shop/incoming", "--verb", "preempt"], "of preempt", "1 of prioritize and 2 of filter"),
        (["shop/urgent", "--verb", "filter", "--list"], "of filter", "1 of preempt"),
        (["small", "--node", "worker-9", "--list"], "with node worker-9", "1 of preempt"),
        (
            ["incoming", "--verb", "filter", "--since", "2200-01-01T00:00:00Z"],
            "of filter since 2200-01-01T00:00:00Z",
            "1 of prioritize and 2 of filter",
        ),
    ],
)
def test_decisions_about_the_pod_that_the_options_leave_out_are_named_with_how_to_see_them(
    monkeypatch, capsys, where, arguments, restrictions, retained
):
    pod, command = arguments[0], f"extender explain {where[0]} {where[1]} {arguments[0]} --list"
    assert fails(monkeypatch, capsys, *where, *arguments) == (
        1,
        f"extender: no retained decision {restrictions} mentions {pod!r}; retained are {retained}: {command}\n",
    )


def test_where_nothing_was_decided_yet_it_says_so(monkeypatch, capsys):
    with listening(new_service()) as address:
        assert explain_stdout("--url", address).startswith("No decisions retained")
        code, err = fails(monkeypatch, capsys, "--url", address, "x")
    assert (code, "none are retained" in err) == (1, True)


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ([], "/decisions?limit=20"),
        (["urgent", "--list"], "/decisions?pod=urgent&limit=20"),
        (["urgent"], "/decisions/preempt-1"),
        (["urgent", "--node", "worker-2"], "/decisions/preempt-1?node=worker-2"),
    ],
)
def test_json_is_what_the_service_answers(url, arguments, path):
    assert (
        json.loads(explain_stdout("--url", url, "-o", "json", *arguments))
        == httpx.get(url + path, trust_env=False).json()
    )


def test_a_recording_says_in_json_what_the_service_said(url, recording):
    """But for when that was."""
    differs = {"time", "milliseconds", "cache"}
    sources = ("--url", url), ("--recording", recording)
    answers = [json.loads(explain_stdout(*source, "preempt-1", "-o", "json")) for source in sources]
    service, again = ({key: value for key, value in one.items() if key not in differs} for one in answers)
    assert service == again


# --- where it asks ----------------------------------------------------------------------------------------------------


def test_the_address_may_come_from_the_environment(url):
    out = explain_stdout("urgent", EXTENDER_ADMIN_URL=url)
    assert out.startswith("preempt-1 ")
    assert "--url" not in out


def test_where_nothing_answers_it_says_what_to_look_at(monkeypatch, capsys):
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    code, err = fails(monkeypatch, capsys, "--url", f"http://127.0.0.1:{port}")
    assert code == 2
    assert err.startswith(
        f"extender: cannot connect to http://127.0.0.1:{port}: is the service running, and is this admin.port? ("
    )


def test_a_service_that_does_not_answer_is_not_waited_for(monkeypatch, capsys):
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        place = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert fails(monkeypatch, capsys, "--url", place, "--timeout", "0.05") == (
            2,
            f"extender: {place} did not respond within 0.05s\n",
        )


@contextmanager
def answering(status: int, body: bytes, media_type: str = "application/json") -> Iterator[str]:
    """Something that says the same of every path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # a client need not read all of an answer that is too large
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


NO_LISTENER = "does not serve decisions"


@pytest.mark.parametrize(
    ("status", "body", "media_type", "message"),
    [
        pytest.param(200, b"<html>", "text/html", NO_LISTENER, id="1: a web page"),
        pytest.param(404, b'{"Error":"no such path"}', "application/json", NO_LISTENER, id="2: the scheduler's port"),
        pytest.param(405, b'{"Error":"POST it"}', "application/json", NO_LISTENER, id="3: another service"),
        pytest.param(
            500, b'{"Error":"internal error"}', "application/json", "internal error", id="4: it fails, and says how"
        ),
        pytest.param(503, b"[]", "application/json", "unexpected response: b'[]'", id="5: it fails otherwise"),
        pytest.param(200, b"{", "application/json", "cannot decode the response", id="6: no JSON"),
        pytest.param(200, b'{"decisions":[{}]}', "application/json", "another version?", id="7: other decisions"),
    ],
)
def test_what_is_no_admin_listener_is_told_from_one(monkeypatch, capsys, status, body, media_type, message):
    with answering(status, body, media_type) as place:
        code, err = fails(monkeypatch, capsys, "--url", place)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("place", ["worker:8889", "ftp://x", "http://", "http://x:y"])
def test_an_address_that_is_none_is_an_error(monkeypatch, capsys, place):
    code, err = fails(monkeypatch, capsys, "--url", place)
    assert code == 2
    assert err.startswith(f"extender: --url {place}: ")


def test_keys_of_a_newer_service_are_passed_over():
    summary = {"id": "filter-1", "verb": "filter", "time": "t", "milliseconds": 1.0, "outcome": "answered"}
    summary |= {"sentence": "it fits", "pod": "a/b", "uid": "u"}
    body = json.dumps({"decisions": [{**summary, "mood": "good"}], "next": "x"}).encode()
    with answering(200, body) as place:
        assert "it fits" in explain_stdout("--url", place)


def test_bad_questions_are_refused_in_the_words_of_the_service(monkeypatch, capsys, where):
    code, err = fails(monkeypatch, capsys, *where, "--since", "yesterday")
    assert code == 2
    assert "since" in err
    assert "must be a time such as 2026-03-01T12:00:00Z" in err
    assert "'yesterday'" in err


def test_a_recording_that_is_not_there_is_an_error(monkeypatch, capsys, tmp_path):
    code, err = fails(monkeypatch, capsys, "--recording", str(tmp_path / "none"))
    assert code == 2
    assert "none" in err


def test_of_a_recording_with_two_calls_of_one_id_the_later_one_is_meant(tmp_path):
    """A restarted service numbers its decisions from 1 again."""
    for wanted in ("first", "second"):
        rig = Rig(tmp_path)
        rig.recorder.start()
        ask(
            rig.server_context,
            "filter",
            filter_body(incoming={**INCOMING, "metadata": {"name": wanted, "uid": wanted}}),
        )
        rig.recorder.stop()
    out = explain_stdout("--recording", str(tmp_path), "filter-1")
    assert "/second fits on 1 of 3 nodes" in out.splitlines()[0]
    assert len(json.loads(explain_stdout("--recording", str(tmp_path), "-o", "json"))["decisions"]) == 2


def test_decisions_of_a_recording_say_that_they_were_made_again(url, recording):
    assert " UTC, replayed in " in explain_stdout("--recording", recording, "urgent")
    assert " UTC, decided in " in explain_stdout("--url", url, "urgent")


def test_decisions_of_a_recording_are_made_by_another_version_and_configuration(recording, tmp_path):
    path = tmp_path / "scheduler-config.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(json.dumps({**kind, "profiles": [{"percentageOfNodesToScore": 50}]}))
    shown = explain_stdout("--recording", recording, "--scheduler-version", "1.33", "urgent")
    assert "  scheduler  1.33 (configured), profile default-scheduler" in shown.splitlines()
    assert f"explain --recording {recording} --scheduler-version 1.33 " in shown
    shown = explain_stdout("--recording", recording, "--scheduler-config", str(path), "urgent")
    assert "  scheduler  1.37 (assumed: its version is not known), profile default-scheduler" in shown.splitlines()


def test_a_service_has_decided_already_by_its_own_version(monkeypatch, capsys, url):
    code, err = fails(monkeypatch, capsys, "--url", url, "--scheduler-version", "1.33", "urgent")
    assert (code, "requires --recording" in err) == (2, True)


# --- the report -------------------------------------------------------------------------------------------------------


def printed(decision: DecisionReport, subject: str = "", width: int = 300, color: bool = False, **options: Any) -> str:
    """One decision as on a terminal so wide."""
    return on_console(decision_report.render(decision, subject, Invocation(), **options), width, color)


def printed_node(decision: DecisionReport, name: str, width: int = 300) -> str:
    (found,) = (one for one in decision.nodes if one.name == name)
    return on_console(node_report.render(decision, found, Invocation()), width)


def on_console(pieces: Any, width: int, color: bool = False) -> str:
    file = io.StringIO()
    system: Any = "standard" if color else None
    console = Console(file=file, width=width, force_terminal=True, color_system=system, highlight=False, markup=False)
    for part in pieces:
        console.print(part)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


TWO = {node("n1", cpu="1"): [pod("a", priority=10)], node("n2", cpu="1"): [pod("b", priority=20, labels={"app": "x"})]}


def test_a_preemption_is_told_from_the_sentence_to_what_to_ask_next():
    nodes = {**TWO, node("n3", cpu="1"): [pod("c", priority=5000)], node("n4", unschedulable=True): []}
    found = preempted(nodes, policy=PreemptionPolicy(ranking=("HighestPriority", "VictimCount")))
    assert printed(found).splitlines() == [
        (
            "preempt-1 evicts default/a from n1 for default/incoming: "
            "best of 2 candidates by the highest priority among its victims, 10 against 20"
        ),
        "",
        "  pod        default/incoming, priority 1000, requests 1 cpu",
        "  when       2026-01-01 00:00:30 UTC, decided in 1.0 ms",
        "  cache      version=1",
        "  scheduler  1.37 (assumed: its version is not known), profile default-scheduler",
        "  policies   ranking: HighestPriority, VictimCount",
        "  mode       answered",
        "",
        "victims on n1",
        "  POD        PRIORITY  STARTED              REQUESTS  BUDGETS",
        "  default/a  10        2026-01-01 00:00:00  cpu 1",
        "  all potential victims are evicted: none could be reprieved",
        "",
        "2 candidates, best first",
        "  #  NODE  OUTCOME    HighestPriority  VictimCount  VICTIMS",
        "  1  n1    chosen     10               1            default/a",
        "  2  n2    outranked  20 *             1            default/b",
        "  * first criterion on which a node is worse than the best; HighestPriority decided",
        "",
        "other nodes",
        "  NODES  OUTCOME               REASON                                         NAMES",
        "  1      no potential victims  no pods of lower priority                      n3",
        "  1      not evaluated         NodeUnschedulable: node(s) were unschedulable  n4",
        "",
        "explain a node: extender explain preempt-1 --node n2",
    ]


def test_budgets_are_shown_before_and_after():
    out = printed(preempted({node("n1", cpu="1"): [pod("a", labels={"app": "x"})]}, budgets=[budget(app="x")]))
    assert "  default/budget  n1    0        1     -1 (violated)" in out.splitlines()
    assert "default/budget (violated)" in out


def test_what_the_guard_rejected_and_what_was_not_evaluated_is_said():
    wanted, claims = incoming(**using_claims("gpu")), undecided_claim("gpu")
    sent, rejected = {"n1": ["a"], "n2": ["b"]}, {"n1": "unknown victim"}
    found = preempted(TWO, sent, preemptor=wanted, keep=None, rejected=rejected, others=claims)
    lines = printed(found).splitlines()
    place = lines.index("rejected by the guard; this is a bug in the extender, see its log")
    assert lines[place + 1] == "  n1: unknown victim"
    assert "  DynamicResources: not evaluated here, so kube-scheduler may decide otherwise" in lines
    assert "  chosen by kube-scheduler: a plugin that is not evaluated here affects this node" in lines


def test_claims_of_the_pod_are_facts_and_those_of_a_node_are_explained():
    wanted = incoming(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    found = preempted(TWO, preemptor=wanted | {"metadata": {"name": "x", "namespace": "ml"}})
    (fact,) = (line for line in printed(found).splitlines() if line.startswith("  claims"))
    assert fact.split(maxsplit=1)[1] == (
        'gpu: pod "ml/x": ResourceClaim not created yet; ResourceClaimTemplate ml/t: it does not exist'
    )
    request = DeviceRequestReport(name="r", summary="a", fails=True, devices=[DeviceReport(device="d")], omitted=2)
    claim = ClaimReport(name="gpu", claim="ml/x-gpu", summary="cannot be allocated", requests=[request])
    one = NodeReport(name="n1", outcome="unresolvable", claims=[claim], not_followed="a feature")
    shown = on_console(node_report.render(crafted(nodes=[one]), one, Invocation(), show_all=True), 200).splitlines()
    assert [line.strip() for line in shown[shown.index("resource claims on n1") + 1 :]] == [
        "not evaluated here, kube-scheduler decides: a feature",
        "gpu (ml/x-gpu): cannot be allocated",
        "r: a",
        "DEVICE  REASON  DETAIL",
        "d       free",
        "and 2 more devices",
    ]


def test_of_many_candidates_and_nodes_a_few_are_shown_unless_all_are_wanted():
    nodes = {node(f"n{place:02}", cpu="1"): [pod(f"p{place}", priority=place)] for place in range(25)}
    nodes |= {node(f"m{place:02}", unschedulable=True): [] for place in range(8)}
    found = preempted(nodes)
    few, every = printed(found), printed(found, show_all=True)
    assert "  and 5 more (use --all)" in few.splitlines()
    assert "n19" in few
    assert "n20" not in few
    assert "m00, m01, m02, m03, m04 and 3 more" in few
    assert all(name in every for name in ("n24", "m07"))
    assert "--all" not in every


def test_the_victim_that_is_asked_about_stands_out():
    found = preempted({node("n1", cpu="2"): [pod("a"), pod("b")]}, preemptor=incoming(cpu="2"))
    assert "\x1b[1;31mdefault/b" in printed(found, "b", color=True)
    assert "\x1b[1;31mdefault/a" not in printed(found, "b", color=True)


def test_a_filter_groups_its_nodes_by_what_is_said_of_them():
    nodes = {node("n1"): [], node("n2", cpu="1"): [pod("a")], node("n3", cpu="1"): [pod("b")]}
    assert printed(filtered(nodes, ["n1", "n2", "n3"])).splitlines()[-5:] == [
        "  NODES  OUTCOME                                 REASON                              NAMES",
        "  2      does not fit; evicting pods would help  NodeResourcesFit: Insufficient cpu  n2, n3",
        "  1      fits                                                                        n1",
        "",
        "explain a node: extender explain filter-1 --node n2",
    ]


def test_scores_are_shown_best_first_with_what_every_plugin_gives():
    soft = [{"key": "maint", "effect": "PreferNoSchedule"}]
    nodes = {node("n1", taints=soft): [pod("a", "3")], node("n2"): [], node("n3", cpu="1"): [pod("b")]}
    out = printed(scored(nodes, ["n1", "n2", "n3"]))
    header, *rows = out.splitlines()[out.splitlines().index("scores, highest first") + 1 :]
    assert header.split()[:5] == ["NODE", "SCORE", "(of", "10)", "TOTAL"]
    assert "NodeResourcesFit" in header
    assert [row.split()[0] for row in rows[:3]] == ["n2", "n1", "n3"]
    assert "not scored by plugins" in out


@pytest.mark.parametrize("found", [preempted(TWO), filtered(TWO, ["n1", "n2"]), scored(TWO, ["n1", "n2"])])
@pytest.mark.parametrize("width", [80, 60])
def test_on_narrow_terminals_no_line_is_too_long_and_no_name_is_broken(found, width):
    for out in (printed(found, width=width), printed_node(found, "n2", width=width)):
        assert max(map(len, out.splitlines())) <= width
        assert "default/incoming" in out
        for word in ("NodeResourcesFit", "HighestPriority"):
            assert word[:4] not in out or word in out or word[:7] in out


def test_where_a_table_is_too_wide_it_becomes_a_list():
    lines = printed(preempted(TWO), width=80).splitlines()
    place = lines.index("2 candidates, best first")
    assert lines[place + 1 : place + 4] == [
        "  1  n1  chosen",
        "     PDBViolations 0, HighestPriority 10, PrioritySum 10 (1 victim), VictimCount",
        "     1, LatestStartTime 2026-01-01T00:00:00Z, victims default/a",
    ]


def test_no_name_is_cut_off_where_the_output_is_no_terminal(tmp_path):
    rig = Rig(tmp_path)
    rig.recorder.start()
    ask(rig.server_context, "filter", filter_body(incoming={**INCOMING, "metadata": {"name": LONG, "uid": "x"}}))
    rig.recorder.stop()
    where = "--recording", str(tmp_path)
    assert LONG in explain_stdout(*where)
    assert LONG in explain_stdout(*where, "filter-1").splitlines()[0]
    assert "\x1b" not in explain_stdout(*where)


def test_no_name_steers_the_terminal_in_json(tmp_path):
    rig = Rig(tmp_path)
    rig.recorder.start()
    ask(
        rig.server_context, "filter", filter_body(incoming={**INCOMING, "metadata": {"name": HOSTILE_NAME, "uid": "x"}})
    )
    rig.recorder.stop()
    for arguments in ((), ("filter-1",)):
        out = explain_stdout("--recording", str(tmp_path), *arguments, "-o", "json")
        assert out.isascii()
        assert "\x7f" not in out
        assert json.dumps(HOSTILE_NAME)[1:-2] in out


def test_color_is_for_terminals_that_want_it(url):
    selection = "--url", url, "urgent"
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm"}
    assert "\x1b[" in explain_stdout(*selection, **terminal)
    assert "\x1b[" not in explain_stdout(*selection, "--no-color", **terminal)
    assert "\x1b[" not in explain_stdout(*selection, NO_COLOR="1", **terminal)
    assert "\x1b[" not in explain_stdout(*selection, TERM="xterm")


# --- one node ---------------------------------------------------------------------------------------------------------


def test_why_not_that_node_is_told_with_its_pods():
    """n2 has 2 cpu: c stays, whose budget is spent, and b goes."""
    nodes = {
        node("n1", cpu="1"): [pod("a")],
        node("n2", cpu="3"): [pod("b", priority=7), pod("c", labels={"app": "x"}), pod("d", priority=5000)],
    }
    policy = PreemptionPolicy(ranking=("HighestPriority",))
    found = preempted(nodes, {"n1": ["a"], "n2": ["b"]}, policy, budgets=[budget(app="x")])
    assert printed_node(found, "n2").splitlines() == [
        "preempt-1 n2 was not chosen for default/incoming: n1 is better by HighestPriority, 0 against 7",
        "",
        "  pod        default/incoming, priority 1000, requests 1 cpu",
        "  when       2026-01-01 00:00:30 UTC, decided in 1.0 ms",
        "  cache      version=1",
        "  scheduler  1.37 (assumed: its version is not known), profile default-scheduler",
        "  policies   ranking: HighestPriority",
        "  mode       answered",
        "",
        "filters, before preemption",
        "  NodeResourcesFit: Insufficient cpu (Unschedulable)",
        "  passed: NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts",
        (
            "  not run: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, "
            "InterPodAffinity, DynamicResources, NodeDeclaredFeatures"
        ),
        "",
        "rank 2 of 2 candidates, compared with n1, the best",
        "  #  NODE  OUTCOME    HighestPriority  VICTIMS",
        "  1  n1    chosen     0                default/a",
        "  2  n2    outranked  7 *              default/b",
        "  * first criterion on which a node is worse than the best; HighestPriority decided",
        "",
        "resources",
        "  RESOURCE  ALLOCATABLE  USED  FREED  AVAILABLE  NEEDED",
        "  cpu       3            3     1      1          1",
        "  memory    8Gi          0     0      8Gi        0",
        "  pods      110          3     1      108        1",
        "",
        "pods on n2, most important first",
        "  1 victim, 1 reprieved, 1 kept",
        "  POD        ROLE       REPRIEVE  PRIORITY  STARTED              REQUESTS  BUDGETS         NOTES",
        "  default/d  kept                 5000      2026-01-01 00:00:00  cpu 1",
        (
            "  default/b  victim     2         7         2026-01-01 00:00:00  cpu 1                     "
            "chosen by kube-scheduler"
        ),
        (
            "  default/c  reprieved  1         0         2026-01-01 00:00:00  cpu 1     default/budget  "
            "eviction violates a budget"
        ),
    ]


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        ({"outcome": "chosen", "victims": ["a", "b"]}, "n1 was chosen for x/p: evicting a, b makes room"),
        ({"outcome": "outranked", "rank": 2, "loses_by": "name"},
         "n1 was not chosen for x/p: it ties with best on every criterion, and best comes first by name"),
        ({"outcome": "outranked", "rank": 2, "loses_by": "named"},
         "n1 was not chosen for x/p: it ties with best on every criterion, "  # noqa: ISC004
         "and the victims on best are closer to kube-scheduler's choice"),
        ({"outcome": "rejectedByPolicy", "victims": ["a"], "why": "would break disruption budget b"},
         "n1 was ruled out for x/p: evicting a would break disruption budget b"),
        ({"outcome": "rejectedByPolicy", "victims": ["a"], "why": "2 victims are more than 1"},
         "n1 was ruled out for x/p: evicting a is not allowed: 2 victims are more than 1"),
        ({"outcome": "insufficientAfterPreemption", "counts": {"reprieved": 1},
          "emptied": StatusReport(code="Unschedulable", plugin="Fit", reasons=["Insufficient cpu"])},
         "x/p does not fit on n1 even after evicting its only potential victim: Fit: Insufficient cpu"),
        ({"outcome": "noVictims"}, "n1 has no potential victims for x/p: no pods of lower priority"),
        ({"outcome": "noVictims", "counts": {"protected": 2}},
         "n1 has no potential victims for x/p: 2 pods of lower priority are protected"),
        ({"outcome": "fits"}, "x/p fits on n1 without preemption"),
        ({"outcome": "notEvaluated", "why": "it is cordoned"}, "n1 was not evaluated for x/p: it is cordoned"),
        ({"outcome": "rejected", "why": "a rule"}, "n1 was removed from the response for x/p by the guard: a rule"),
        ({"outcome": "vetoed", "why": "not now"}, "no pods on n1 are evicted for x/p: not now"),
        ({"outcome": "accepted"}, "x/p fits on n1"),
        ({"outcome": "failed", "why": "no cpu"},
         "x/p does not fit on n1 (no cpu); evicting pods of lower priority would help"),
        ({"outcome": "unresolvable", "why": "no cpu"},
         "x/p does not fit on n1 (no cpu); evicting pods would not help"),
        ({"outcome": "scored", "score": 7}, "n1 scored 7 of 10 for x/p"),
        ({"outcome": "unscored", "score": 0, "why": "no"}, "n1 scored 0 of 10 for x/p: no"),
        ({"outcome": "notEvaluated", "why": "{pod} {0}"}, "n1 was not evaluated for x/p: {pod} {0}"),
    ],
)  # fmt: skip
def test_the_sentence_about_a_node(shown, sentence):
    best = NodeReport(name="best", outcome="chosen", rank=1)
    assert node_report.sentence(crafted(nodes=[best]), NodeReport(name="n1", **shown)) == sentence


def crafted(**settings: Any) -> DecisionReport:
    given = {"id": "preempt-1", "verb": "preempt", "time": "2026-01-01T00:00:00.000Z", "milliseconds": 1.0}
    given |= {"outcome": "answered", "sentence": "a sentence", "pod": "x/p", "uid": "u"}
    given |= {"scheduler": SchedulerReport(version="1.36", release="1.36", version_source="default")}
    return DecisionReport(**{**given, "incoming": PodReport(key="x/p", uid="u"), **settings})


def test_a_node_on_which_the_pod_fits_passed_all_filters():
    assert "  all passed: NodeName, NodeUnschedulable, " in printed_node(filtered({node("n1"): []}, ["n1"]), "n1")


def test_a_filter_decision_shows_what_is_free_where_resources_reject_the_node():
    shown = printed_node(filtered({node("n1", cpu="1500m"): [pod("a")]}, ["n1"]), "n1")
    rows = [line.split() for line in shown.splitlines()]
    assert ["RESOURCE", "FREE", "NEEDED"] in rows
    assert ["cpu", "500m", "1000m"] in rows


def test_nominated_pods_and_policies_that_found_the_victims_are_named():
    waiting = [incoming("nominee", priority=1000, status={"nominatedNodeName": "n1"})]
    found = preempted({node("n1", cpu="2"): [pod("a"), pod("b")]}, {"n1": []}, waiting=waiting)
    assert "  default/nominee, priority 1000, is nominated to this node and requests cpu 1" in printed_node(found, "n1")
    found = preempted({node("n1", cpu="2"): [pod("a"), pod("b")]}, {"n1": ["a"]})
    how = "among equal pods, those that kube-scheduler chose"
    assert f"  victims: {how}" in printed_node(found, "n1").splitlines()
    assert f"  {how}" in printed(found).splitlines()


# --- what others wrote ------------------------------------------------------------------------------------------------

HOSTILE = "[red]x[/red]\x1b[31m\x9b\u202e:smile:[link=file:///etc]"


def hostile() -> DecisionReport:
    """Every text of it."""

    def spoiled(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoiled(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [spoiled(one, key) for one in value]
        kept = key in ("verb", "outcome", "role", "time", "code", "losesBy", "decidedBy", "criteria")
        return value if kept or not isinstance(value, str) else value + HOSTILE

    found = preempted(
        {**TWO, node("n3", cpu="1"): [pod("c", priority=5000)]},
        keep=None,
        budgets=[budget(app="x")],
        policy=PreemptionPolicy(limits=STRICT.limits),
        rejected={"n1": "x"},
    )
    raw = json.loads(msgspec.json.encode(found)) | {"notEvaluated": ["x"], "error": "x", "policies": ["x"]}
    return msgspec.json.decode(json.dumps(spoiled(raw)).encode(), type=DecisionReport)


@pytest.mark.parametrize("width", [80, 2000])
def test_nothing_that_others_wrote_steers_the_terminal(width):
    found = hostile()
    pieces = [
        *decision_report.render(found, "x", Invocation()),
        *decision_report.render_list([found], Invocation(), width, 1),
    ]
    for one in found.nodes:
        pieces += node_report.render(found, one, Invocation())
    out = on_console(pieces, width)
    assert not any(character in out for character in "\x1b\x9b\u202e\x00")
    if width > 80:
        assert r"[red]x[/red]\x1b[31m\x9b\u202e:smile:[link=file:///etc]" in out


def test_a_decision_of_which_nothing_is_known_can_be_shown():
    for outcome in ("failed", "passthrough"):
        assert printed(crafted(outcome=outcome, error="it broke")).startswith("preempt-1 a sentence")
    nowhere = crafted(verb="prioritize")
    assert "scores" not in printed(nowhere)


def test_a_ranking_without_candidates_is_not_shown():
    found = crafted(outcome="noVictims", ranking=RankingReport(criteria=["VictimCount"], candidates=0))
    assert "candidates" not in printed(found)


# --- the page about it ------------------------------------------------------------------------------------------------

PAGE = (Path(cli.__file__).parents[2] / "docs/explain.md").read_text()


def test_the_page_names_every_option():
    (command,) = (one.callback for one in cli.app.registered_commands if one.callback is explain_command)
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(command).parameters} - {"--subject"}
    renamed = {"--list-all": "--list", "--show-all": "--all", "--output": "-o json", "--timeout": "--url"}
    renamed["--audit-log"] = "--from"
    assert [one for one in options if renamed.get(one, one) not in PAGE] == []


@pytest.mark.parametrize("word", [*get_args(NodeOutcome), *get_args(PodRole)])
def test_the_page_says_what_becomes_of_nodes_and_pods(word):
    assert f"`{word}`" in PAGE


# --- amounts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "value", "shown"),
    [
        ("cpu", 250, "250m"),
        ("cpu", 3000, "3"),
        ("cpu", 0, "0"),
        ("cpu", -500, "-500m"),
        ("memory", 4 << 30, "4Gi"),
        ("memory", 3 << 29, "1.5Gi"),
        ("memory", 128 << 20, "128Mi"),
        ("memory", 1000, "1000"),
        ("memory", -(2 << 30), "-2Gi"),
        ("ephemeral-storage", 5 << 40, "5Ti"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("pods", 110, "110"),
        ("example.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_written_as_in_manifests(resource, value, shown):
    assert format_amount(resource, value) == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("2026-03-01T12:00:00.123Z", "2026-03-01 12:00:00"), ("not started", "not started")]
)
def test_times_are_shown_by_the_second(text, shown):
    assert tables.format_timestamp(text) == shown
