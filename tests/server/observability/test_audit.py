"""The audit line: one for each /preempt and /bind, there before the answer, with all that an auditor needs."""

import dataclasses
import json
import re

import msgspec
import pytest

from extender.core import engine
from extender.core.engine import Candidate
from extender.report.audit.schema import BindLine, PreemptLine
from extender.server.app import create_app
from extender.server.observability import audit_log
from extender.server.observability.audit import encode_line
from extender.server.observability.audit_log import AuditLog
from tests.cluster.watch.reflector_rig import server_at
from tests.cluster.watch.source_rig import serving
from tests.fakes.api_server import Answer, FakeAPI, Fault
from tests.fakes.source import STALE, Stale
from tests.server.conftest import (
    BODIES,
    CLUSTER,
    URGENT,
    admin_client,
    client_for,
    configuration,
    filled_cache,
    preempt_body,
    stop_binding,
)
from tests.server.conftest import pod as shop_pod
from tests.server.scheduler.test_bind import LIVE, REQUEST

pytestmark = pytest.mark.anyio


def budget(name, app, allowed):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1 - allowed},
    }


WITH_BUDGETS = {
    "kind": "List",
    "items": [*CLUSTER["items"], budget("for-small", "small", 0), budget("for-large", "large", 1)],
}


def decisions(text):
    """The lines of calls, without those of starts and stops."""
    return [line for line in map(json.loads, text.splitlines()) if line["event"] == "audit"]


class Audited:
    """A service whose audit lines can be read."""

    def __init__(self, path, sections=None, cluster=WITH_BUDGETS, app=None):
        self.path = path
        self.app = app or create_app(filled_cache(cluster), configuration(**(sections or {})))
        self.audit = AuditLog(path)
        self.audit.start()
        self.put(audit=self.audit)

    def put(self, **parts):
        self.app.server_context = dataclasses.replace(self.app.server_context, **parts)

    async def post(self, path="/preempt", body=None):
        async with client_for(self.app) as client:
            return await client.post(path, content=preempt_body() if body is None else body)

    def lines(self):
        return decisions(self.path.read_text())

    def line(self):
        """The only one, of the shape that is documented."""
        (raw,) = (line for line in self.path.read_bytes().splitlines() if b'"event":"audit",' in line)
        kind = BindLine if b'"verb":"bind"' in raw else PreemptLine
        msgspec.json.decode(raw, type=kind, strict=True)
        return json.loads(raw)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine may take longer than an answer waits."""
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)


@pytest.fixture
def audited(tmp_path):
    made = []

    def make(sections=None, cluster=WITH_BUDGETS, app=None):
        made.append(Audited(tmp_path / "audit.log", sections, cluster, app))
        return made[-1]

    yield make
    for one in made:
        one.audit.stop()


# --- what a line says -------------------------------------------------------------------------------------------------


async def test_a_line_names_preemptor_victims_nodes_and_budgets(audited):
    service = audited({"preemption": {"keepCandidates": "All"}})
    response = await service.post(body=preempt_body(**{"worker-1": ["uid-small"], "worker-2": ["uid-large"], "w9": []}))
    line = service.line()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert 0 < line.pop("milliseconds") < 10_000
    assert (line.pop("process"), line.pop("sequence")) == (service.audit.process, 1)
    assert response.headers["X-Extender-Decision"] == "preempt-1"
    assert line == {
        "event": "audit",
        "id": "preempt-1",
        "verb": "preempt",
        "mode": "answered",
        "status": 200,
        "answer": "decided",
        "preemptor": {
            "namespace": "shop",
            "name": "urgent",
            "uid": "uid-urgent",
            "priority": 100,
            "schedulerName": "default-scheduler",
        },
        "sent": 3,
        "schedulerVersion": "1.37",
        "schedulerRelease": "1.37",
        "kept": [
            {
                "node": "worker-2",
                "victims": [
                    {
                        "namespace": "shop",
                        "name": "large",
                        "uid": "uid-large",
                        "priority": 10,
                        "budgets": ["shop/for-large"],
                    }
                ],
                "numPDBViolations": 0,
                "budgets": [{"name": "shop/for-large", "before": 1, "after": 0}],
            },
            {
                "node": "worker-1",
                "victims": [
                    {
                        "namespace": "shop",
                        "name": "small",
                        "uid": "uid-small",
                        "priority": 10,
                        "budgets": ["shop/for-small"],
                    }
                ],
                "numPDBViolations": 1,
                "budgets": [{"name": "shop/for-small", "before": 0, "after": -1}],
            },
        ],
        "dropped": {"node is not in the cluster cache": ["w9"]},
        "policies": ["keepCandidates: All"],
        "cache": {"version": 1},
    }


async def test_nodes_are_grouped_by_why_they_are_not_in_the_answer(audited):
    service = audited()
    await service.post(body=preempt_body(**{"worker-1": ["uid-small"], "worker-2": ["uid-large"], "a": [], "b": []}))
    assert service.line()["dropped"] == {
        "node is not in the cluster cache": ["a", "b"],
        "another node is the better candidate": ["worker-1"],
    }


async def test_keys_without_a_value_are_not_in_the_line(audited):
    service = audited()
    await service.post(body=preempt_body(**{"worker-1": ["uid-small"]}))
    assert service.line().keys().isdisjoint({"dropped", "vetoed", "error", "notEvaluated", "policies"})


async def test_a_veto_says_why(audited):
    service = audited({"preemption": {"disruptionBudgets": "Strict"}})
    response = await service.post(body=preempt_body(**{"worker-1": ["uid-small"]}))
    line = service.line()
    assert (line["answer"], line["vetoed"]) == ("noVictims", response.headers["X-Extender-Vetoed"])
    assert "for-small" in line["vetoed"]
    assert "kept" not in line
    assert "disruptionBudgets: Strict" in line["policies"]


async def test_live_accounting_says_what_it_counted(audited):
    cluster = {"kind": "List", "items": [*CLUSTER["items"], budget("for-small", "small", 1)]}
    unready = audited({"preemption": {"budgetAccounting": "Live"}}, cluster)
    await unready.post(body=preempt_body(**{"worker-1": ["uid-small"]}))
    ((one,),) = [node["budgets"] for node in unready.line()["kept"]]
    assert one["name"] == "shop/for-small"
    assert one["after"] == one["before"] - 1


async def test_a_node_that_the_guard_rejects_is_dropped_and_says_so(audited, monkeypatch):
    service, right = audited(), engine.preempt

    def planted(snapshot, pod, sent, *more):
        decision = right(snapshot, pod, sent, *more)
        wrong = Candidate("worker-2", (), 0)
        return dataclasses.replace(decision, kept=(wrong, *decision.kept)) if "worker-2" in sent else decision

    monkeypatch.setattr(engine, "preempt", planted)
    await service.post(body=preempt_body(**{"worker-1": ["uid-small"], "worker-2": []}))
    reasons = {node: why for why, nodes in service.line().get("dropped", {}).items() for node in nodes}
    assert "rejected by the guard" in reasons["worker-2"]


@pytest.mark.parametrize(
    ("sections", "mode", "answer"),
    [
        ({"mode": "Observe"}, "observed", "asSent"),
        ({"killSwitch": {"enabled": True}}, "passthrough", "noVictims"),
        ({"killSwitch": {"enabled": True, "preempt": "PassThrough"}}, "passthrough", "asSent"),
    ],
    ids=["Observe", "kill switch, Veto", "kill switch, PassThrough"],
)
async def test_the_answer_and_the_decision_are_separate_keys(audited, sections, mode, answer):
    service = audited(sections)
    await service.post()
    line = service.line()
    assert (line["mode"], line["answer"], line["status"]) == (mode, answer, 200)
    assert ("kept" in line) == (mode == "observed")


@pytest.mark.parametrize(("on_failure", "answer", "status"), [("Error", "error", 503), ("Veto", "noVictims", 200)])
async def test_a_failure_has_a_line_too(audited, on_failure, answer, status):
    app = create_app(filled_cache(), configuration(preemption={"onFailure": on_failure}), Stale())
    service = audited(app=app)
    await service.post()
    line = service.line()
    assert (line["mode"], line["answer"], line["status"]) == ("failed", answer, status)
    assert line["error"] == STALE
    assert line["preemptor"]["name"] == "urgent"


async def test_a_call_that_was_not_read_for_overload_has_a_line(audited):
    service = audited()
    service.put(max_in_flight=0)
    response = await service.post()
    line = service.line()
    assert response.status_code == 503
    assert (line["mode"], line["answer"], line["id"]) == ("failed", "error", "preempt-1")
    assert "server.maxInFlight" in line["error"]
    assert "preemptor" not in line


async def test_what_is_no_request_has_none(audited):
    service = audited()
    assert (await service.post(body=b"{")).status_code == 400
    assert service.lines() == []


async def test_other_verbs_have_none_but_their_answers_say_their_id_too(audited):
    service = audited()
    for path in ("/filter", "/prioritize"):
        response = await service.post(path, BODIES[path])
        assert response.headers["X-Extender-Decision"] == f"{path[1:]}-1"
    assert service.lines() == []


async def test_the_id_leads_to_the_decision(audited):
    service = audited()
    header = (await service.post()).headers["X-Extender-Decision"]
    async with admin_client(service.app.server_context) as people:
        shown = (await people.get(f"/decisions/{header}")).json()
    line = service.line()
    assert (shown["id"], shown["uid"], shown["chosen"]) == (line["id"], "uid-urgent", [line["kept"][0]["node"]])
    assert shown["victims"] == [f"{one['namespace']}/{one['name']}" for one in line["kept"][0]["victims"]]


async def test_the_line_is_there_before_the_answer(audited):
    service = audited()
    seen = []

    async def send(message):
        seen.append((message["type"], len(service.lines())))

    async def receive():
        return {"type": "http.request", "body": preempt_body(), "more_body": False}

    scope = {"type": "http", "method": "POST", "path": "/preempt", "headers": [], "query_string": b""}
    await service.app(scope | {"app": service.app}, receive, send)
    assert seen == [("http.response.start", 1), ("http.response.body", 1)]


async def test_of_a_live_cluster_it_says_version_and_age_of_each_kind(tmp_path):
    with FakeAPI() as api:
        for one in CLUSTER["items"]:
            api.put(one["kind"], one)
        sections = {"audit": {"path": str(tmp_path / "audit.log")}}
        async with serving(api.url, sections) as (client, live):
            await live.read()
            await client.post("/preempt", content=preempt_body())
    (line,) = decisions((tmp_path / "audit.log").read_text())
    cache = line["cache"]
    assert cache["version"] > 0
    assert {"Node", "Pod", "PodDisruptionBudget"} <= set(cache["kinds"])
    assert int(cache["kinds"]["Pod"]["version"]) > 0
    assert 0 <= cache["kinds"]["Pod"]["age"] < 60


# --- /bind ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def api():
    with FakeAPI() as fake:
        fake.put("Pod", shop_pod("web-0"))
        yield fake


async def bound(audited, api, **changes):
    server = server_at(api.url)
    app = create_app(filled_cache(), configuration(**LIVE, bind={"enabled": True, "timeout": "2s"}), api=server)
    service = audited(app=app)
    response = await service.post("/bind", json.dumps(REQUEST | changes).encode())
    stop_binding(app)
    server.close()
    line = service.line()
    assert response.headers["X-Extender-Decision"] == line["id"] == "bind-1"
    assert 0 <= line["milliseconds"] < 10_000
    return line


async def test_a_binding_has_a_line(audited, api):
    line = await bound(audited, api)
    assert (line["mode"], line["outcome"], line["tries"], line["status"]) == ("answered", "bound", 1, 200)
    assert line["pod"] == {"namespace": "shop", "name": "web-0", "uid": "uid-web-0"}
    assert line["node"] == "worker-1"
    assert "error" not in line


async def test_a_binding_that_is_refused_says_why(audited, api):
    line = await bound(audited, api, PodUID="of-before")
    assert (line["mode"], line["outcome"]) == ("answered", "refused")
    assert "another UID" in line["error"]


async def test_a_binding_that_is_unknown_says_so(audited, api):
    api.faults.add(Fault("*", "Pod", Answer(500), times=None))
    line = await bound(audited, api)
    assert line["outcome"] == "unknown"
    assert line["tries"] >= 1


async def test_a_binding_that_meets_a_bug_is_a_failure(audited, api, monkeypatch):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("extender.cluster.apiserver.binding.bind", fail)
    line = await bound(audited, api)
    assert (line["mode"], line["error"]) == ("failed", "internal error; the log says more")


# --- which lines there are --------------------------------------------------------------------------------------------


async def test_lines_are_written_while_the_service_runs_and_only_then(tmp_path):
    """What `extender serve` asks itself before it listens is not a request."""
    path = tmp_path / "audit.log"
    app = create_app(filled_cache(), configuration(audit={"path": str(path)}))
    async with client_for(app) as client:
        await client.post("/preempt", content=preempt_body())
        assert not path.exists()
        async with app.lifespan():
            await client.post("/preempt", content=preempt_body())
    (line,) = decisions(path.read_text())
    assert line["id"] == "preempt-2"
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["auditStarted", "audit", "auditStopped"]


async def test_by_default_they_go_to_standard_output(capfd):
    app = create_app(filled_cache(), configuration())
    async with app.lifespan(), client_for(app) as client:
        await client.post("/preempt", content=preempt_body())
    out, _ = capfd.readouterr()
    assert [line["id"] for line in decisions(out)] == ["preempt-1"]


async def test_they_can_be_switched_off(capfd):
    app = create_app(filled_cache(), configuration(audit={"enabled": False}))
    async with app.lifespan(), client_for(app) as client:
        await client.post("/preempt", content=preempt_body())
    assert capfd.readouterr().out == ""


# --- what names may hold ----------------------------------------------------------------------------------------------

HOSTILE = "a\nb\r\x1b[31m\x00\x7f\x9b\u2028é"


async def test_names_that_would_break_a_line_or_steer_a_terminal_are_escaped(audited):
    service = audited()
    hostile = {**URGENT, "metadata": {**URGENT["metadata"], "name": HOSTILE}}
    await service.post(body=preempt_body(hostile, **{"worker-1": ["uid-small"], HOSTILE: []}))
    raw = service.path.read_bytes()
    assert raw.count(b"\n") == 2  # the start of the process, and the call
    assert all(0x20 <= byte < 0x7F for byte in raw.replace(b"\n", b""))
    line = service.line()
    assert line["preemptor"]["name"] == HOSTILE
    assert [HOSTILE] in line["dropped"].values()


def test_a_delete_character_is_escaped_where_all_else_is_plain():
    assert encode_line({"error": "a\x7f"}) == b'{"error":"a\\u007f"}\n'


def test_a_lone_surrogate_breaks_no_line():
    raw = encode_line({"error": "\ud800 and \udc80"})
    assert raw.isascii()
    assert json.loads(raw) == {"error": "\ud800 and \udc80"}
