"""E11: whatever goes wrong with a call, the failure rule answers it: every fault × verb × setting, over HTTP.

Faults are put in at the seams: another clock, source, recorder or history, another step in the table of verbs. What is
expected stands in FAULTS (what of a call they break) and in `expected`.
"""

import asyncio
import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from extender.cluster.apiserver.stream import ApiError
from extender.cluster.cache.eviction_history import EvictionLog
from extender.core import engine
from extender.core.engine import Candidate
from extender.errors import INTERNAL, UnknownNode
from extender.server.app import create_app
from extender.server.http.caller import CALLER_KEY, Caller
from extender.server.observability import audit_log
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.decision_log import DecisionLog
from extender.server.scheduler import journal, verbs
from extender.server.scheduler.routes import SchedulerApp
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes import api_server
from tests.fakes.api_server import FakeAPI, Hang
from tests.fakes.source import Live
from tests.server.conftest import BODIES, configuration, filled_cache, preempt_body, stop_binding
from tests.server.scheduler.test_bind import LIVE, REQUEST

pytestmark = pytest.mark.anyio

VETO: dict[str, dict] = {"NodeNameToMetaVictims": {}}
LATE = "deadline exceeded: not decided within 80 % of server.httpTimeout"
GONE = "the caller closed the connection before it was answered"
OFFERED = preempt_body(**{"worker-1": ["uid-small"]})
JSON = {"Content-Type": "application/json"}


@dataclass
class FaultyService:
    """A service that a fault is put into before anything is asked."""

    app: SchedulerApp
    source: Live
    monkeypatch: pytest.MonkeyPatch
    verb: str
    body: bytes
    caller: Caller | None = None

    @property
    def server_context(self):
        return self.app.server_context

    def put(self, **parts):
        self.app.server_context = dataclasses.replace(self.server_context, **parts)


# --- faults -----------------------------------------------------------------------------------------------------------


def failing(error):
    def fail(*_args, **_kwargs):
        raise error

    return fail


class LateClock:
    """The machine's monotonic clock, which jumps 1,000 s ahead at the n-th look."""

    def __init__(self, late_from):
        self.looks = 0
        self._late_from = late_from

    def __call__(self):
        self.looks += 1
        return time.monotonic() + (1000.0 if self.looks >= self._late_from else 0.0)


def late_at(look):
    def put(rig):
        rig.put(clock=LateClock(look))

    return put


def gone_at(look):
    """The caller closes the connection before the n-th look."""

    def put(rig):
        looks = iter([False] * (look - 1))
        now = time.monotonic()
        rig.caller = Caller(now, now, lambda: next(looks, True))

    return put


def not_ready(rig):
    rig.source.stale = "the cache has not synced yet"


def stale(rig):
    rig.source.stale = "pods are stale: not watched for 31s: refused"


def unknown_node(rig):
    body = json.loads(rig.body)
    if "NodeNames" in body:
        body["NodeNames"].append("worker-9")
    else:  # /preempt leaves an unknown node out; a node that goes meanwhile is the fault
        rig.monkeypatch.setattr(engine, "preempt", failing(UnknownNode("1 of 1 nodes are not in the cluster cache")))
    rig.body = json.dumps(body).encode()


def overload(rig):
    rig.put(max_in_flight=0)


def engine_raises(error):
    def put(rig):
        rig.monkeypatch.setattr(engine, rig.verb, failing(error))

    return put


def guard_rejects_all(rig):
    """The engine answers what the guard cannot let pass."""
    wrong = {
        "filter": engine.FilterDecision((0,), {}, {}, ()),
        "prioritize": engine.PrioritizeDecision((11,), ()),
        "preempt": engine.PreemptDecision((Candidate("worker-1", (), 0),), {}, (), frozenset()),
    }
    rig.monkeypatch.setattr(engine, rig.verb, lambda *_: wrong[rig.verb])


def late_between_the_tries(rig):
    guard_rejects_all(rig)
    late_at(2)(rig)


def record_raises(rig):
    rig.monkeypatch.setattr(journal, f"record_{rig.verb}", failing(RuntimeError("a bug")))


def step_raises(name, error=None):
    """A step of the verb itself."""

    def put(rig):
        rig.monkeypatch.setattr(verbs.VERBS[rig.verb], name, failing(error or RuntimeError("a bug")))

    return put


class NoRoom(DecisionLog):
    def keep(self, kept):
        raise RuntimeError("a bug")


class Recording:
    is_on = True

    def note(self, *_):
        raise RuntimeError("a bug")


class Forgetful(EvictionLog):
    def record(self, preemptor, victims):
        raise RuntimeError("a bug")


class DeafAudit(AuditLog):
    def write(self, data):
        raise RuntimeError("a bug")


def audit_raises(rig):
    audit = DeafAudit(rig.server_context.audit.path)
    audit.start()
    rig.server_context.audit.stop()
    rig.put(audit=audit)


@dataclass(frozen=True)
class Fault:
    put: Callable[[FaultyService], None]
    breaks: str
    """`reading`: the request; `deciding`: what Observe does too, and the kill switch does not; `following`: what comes
    of an answered preemption; `keeping`: nothing that the answer needs."""
    said: str | tuple[str, ...] = INTERNAL
    verbs: tuple[str, ...] = ("filter", "prioritize", "preempt")
    needs: str = ""
    """Where what is broken is used at all: `decision`; empty: always."""


FAULTS = {
    "the cache has not synced yet": Fault(not_ready, "deciding", "the cache has not synced yet"),
    "a stream is broken for too long": Fault(stale, "deciding", "pods are stale: not watched for 31s: refused"),
    "a node is unknown": Fault(unknown_node, "deciding", "1 of"),
    "the deadline has passed before deciding": Fault(late_at(1), "deciding", LATE),
    "the deadline has passed after deciding": Fault(late_at(2), "deciding", LATE),
    "the caller is gone before deciding": Fault(gone_at(1), "deciding", GONE),
    "the caller is gone after deciding": Fault(gone_at(2), "deciding", GONE),
    "the deadline passes between two tries": Fault(late_between_the_tries, "deciding", LATE, verbs=("preempt",)),
    "too many calls are under way": Fault(overload, "deciding", "more than 0 calls in flight"),
    "the engine has a bug": Fault(engine_raises(RuntimeError("a bug")), "deciding"),
    "the memory is exhausted": Fault(engine_raises(MemoryError()), "deciding"),
    "the stack is exhausted": Fault(engine_raises(RecursionError("maximum recursion depth exceeded")), "deciding"),
    "the guard lets nothing pass": Fault(guard_rejects_all, "deciding", ("the filter", "the prioritize", "the guard")),
    "the request cannot be read for a bug": Fault(step_raises("decode"), "reading"),
    "the deciding step has a bug": Fault(step_raises("decide"), "deciding"),
    "the history has a bug": Fault(lambda rig: rig.put(eviction_log=Forgetful()), "following"),
    "what follows has a bug": Fault(step_raises("apply_effects"), "following"),
    "what is kept has a bug": Fault(lambda rig: rig.put(decisions=NoRoom(9, 1 << 20)), "keeping"),
    "the capture has a bug": Fault(record_raises, "keeping", needs="decision"),
    "the recording has a bug": Fault(lambda rig: rig.put(recorder=Recording()), "keeping"),
    "the audit log has a bug": Fault(audit_raises, "keeping", verbs=("preempt",)),
}

SETTINGS: dict[str, dict[str, Any]] = {
    "onFailure: Error": {},
    "onFailure: Veto": {"preemption": {"onFailure": "Veto"}},
    "Strict": {"preemption": {"disruptionBudgets": "Strict"}},
    "kill switch": {"killSwitch": {"enabled": True}},
    "kill switch, passing through": {"killSwitch": {"enabled": True, "preempt": "PassThrough"}},
    "Observe": {"mode": "Observe"},
}

ANSWERS: dict[str, dict[str, Any]] = {
    "decided": {
        "filter": {"NodeNames": ["worker-1"]},
        "prioritize": [{"Host": "worker-1"}, {"Host": "worker-2"}, {"Host": "worker-3"}],
        "preempt": {"NodeNameToMetaVictims": {"worker-1": {"Pods": [{"UID": "uid-small"}], "NumPDBViolations": 0}}},
    },
    "left to kube-scheduler": {
        "filter": {"NodeNames": ["worker-1", "worker-2", "worker-3"]},
        "prioritize": [],
        "preempt": {"NodeNameToMetaVictims": {"worker-1": {"Pods": [{"UID": "uid-small"}], "NumPDBViolations": 0}}},
    },
}


def expected(fault, verb, setting):
    """(`decided`, `left to kube-scheduler`, `veto`, `error` or `no scores`; is it a failure?)."""
    is_passing, is_observing = setting.startswith("kill switch"), setting == "Observe"
    as_usual = "left to kube-scheduler" if is_passing or is_observing else "decided"
    if setting == "kill switch" and verb == "preempt":
        as_usual = "veto"
    if fault.breaks == "keeping":
        return as_usual, not (is_passing and fault.needs == "decision")
    if fault.breaks == "following":
        if is_passing or is_observing or (verb != "preempt" and fault is not FAULTS["what follows has a bug"]):
            return as_usual, False
    elif fault.breaks == "deciding" and (is_passing or is_observing):
        return as_usual, is_observing
    if verb == "prioritize":
        return "no scores", True
    return ("veto" if verb == "preempt" and SETTLED[setting] == "Veto" else "error"), True


SETTLED = {name: configuration(**sections).preemption.on_failure for name, sections in SETTINGS.items()}
OF_PREEMPT_ONLY = ("onFailure: Veto", "Strict", "kill switch, passing through")
CASES = [
    (name, verb, setting)
    for name, fault in FAULTS.items()
    for verb in fault.verbs
    for setting in SETTINGS
    if verb == "preempt" or setting not in OF_PREEMPT_ONLY
]


@pytest.mark.parametrize(("name", "verb", "setting"), CASES, ids=[" - ".join(case) for case in CASES])
async def test_E11_every_fault_is_answered_by_the_failure_rule(name, verb, setting, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(audit_log, "MAX_WAIT_SECONDS", 60.0)  # on a busy machine
    fault, source = FAULTS[name], Live()
    app = create_app(filled_cache(), configuration(**SETTINGS[setting]), source)
    rig = FaultyService(app, source, monkeypatch, verb, OFFERED if verb == "preempt" else BODIES[f"/{verb}"])
    audit = AuditLog(tmp_path / "audit.log")
    audit.start()
    rig.put(audit=audit, decisions=DecisionLog(9, 1 << 20), timeout=4.0)
    fault.put(rig)
    with caplog.at_level(logging.WARNING):
        response = await asked(rig)
    rig.server_context.audit.stop()
    answer, is_failure = expected(fault, verb, setting)

    check_answer(response, answer, verb, fault)
    said = [
        record
        for record in caplog.records
        if record.name != "extender.server.scheduler.verbs" or "guard" not in record.msg
    ]
    assert len(said) == (1 if is_failure else 0), caplog.messages
    assumes = verb == "preempt" and answer == "decided"
    assert len(rig.server_context.cache.assumed) == (2 if assumes else 0)
    counted = failures(rig.server_context.metrics)
    assert counted == (1 if is_failure and fault.breaks != "keeping" else 0)
    if verb == "preempt" and not isinstance(rig.server_context.audit, DeafAudit):
        check_line(tmp_path / "audit.log", response, answer, failed=is_failure and fault.breaks != "keeping")


async def asked(rig):
    async def app(scope, receive, send):
        await rig.app(scope | ({CALLER_KEY: rig.caller} if rig.caller else {}), receive, send)

    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://extender", headers=JSON) as client:
        return await client.post(f"/{rig.verb}", content=rig.body)


def check_answer(response, answer, verb, fault):
    assert response.status_code == (503 if answer == "error" else 200)
    said = response.json()
    if answer == "error":
        assert list(said) == ["Error"]
        assert said["Error"].startswith(fault.said)
        return
    if answer == "veto":
        assert said == VETO
        return
    if answer == "no scores":
        assert said == []
        return
    wanted = ANSWERS[answer][verb]
    if verb == "filter":
        assert said["NodeNames"][:3] == wanted["NodeNames"]
    elif verb == "prioritize":
        assert [{"Host": one["Host"]} for one in said] == wanted
    else:
        assert said == wanted


def check_line(path, response, answer, *, failed):
    """One audit line, which says what was answered."""
    _, line, _ = map(json.loads, path.read_text().splitlines())  # between start and stop of the process
    told = {"error": "error", "veto": "noVictims", "left to kube-scheduler": "asSent"}
    assert line["answer"] == told.get(answer, answer)
    assert line["status"] == response.status_code
    assert (line["mode"] == "failed") == failed
    assert ("error" in line) == failed


def failures(metrics):
    return sum(metrics.nonzero("failures").values())


async def test_E11_without_a_fault_a_preemption_is_assumed_and_nothing_is_logged(caplog, monkeypatch):
    """What the table above compares with."""
    source = Live()
    rig = FaultyService(create_app(filled_cache(), configuration(), source), source, monkeypatch, "preempt", OFFERED)
    with caplog.at_level(logging.WARNING):
        response = await asked(rig)
    assert response.json() == ANSWERS["decided"]["preempt"]
    assert len(rig.server_context.cache.assumed) == 2
    assert caplog.records == []


# --- the deadline -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheduler", "deadline"), [("5s", 4.0), ("500ms", 0.4), ("1m", 48.0)])
def test_E11_the_deadline_is_80_percent_of_the_scheduler_s_timeout(scheduler, deadline):
    app = create_app(filled_cache(), configuration(server={"httpTimeout": scheduler}))
    assert app.server_context.timeout == pytest.approx(deadline)


async def test_E11_the_time_that_the_body_takes_counts(monkeypatch, caplog):
    """Nothing is decided for a call whose body took too long to come."""
    app = create_app(filled_cache(), configuration())
    decided = []
    monkeypatch.setattr(engine, "filter", lambda *_: decided.append(1))
    clock = LateClock(math.inf)
    app.server_context = dataclasses.replace(app.server_context, clock=clock)
    pieces = [BODIES["/filter"][:9], BODIES["/filter"][9:]]

    async def receive():
        if len(pieces) == 1:
            clock._late_from = 0
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    sent = await called(app, "/filter", receive)
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"]) == {"Error": LATE}
    assert decided == []


async def test_E11_a_late_binding_is_not_sent(monkeypatch):
    with FakeAPI() as api:
        server = server_at(api.url)
        app = create_app(filled_cache(), configuration(**LIVE, bind={"enabled": True}), api=server)
        app.server_context = dataclasses.replace(app.server_context, clock=LateClock(1))
        rig = FaultyService(app, Live(), monkeypatch, "bind", json.dumps(REQUEST).encode())
        response = await asked(rig)
        assert (response.status_code, response.json()) == (200, {"Error": LATE})
        assert api.requests == []
        stop_binding(app)
        server.close()


class Asked:
    """An API server that refuses, and notes how long it might have taken."""

    def __init__(self):
        self.timeouts = []

    def get(self, path, *, timeout):
        raise NotImplementedError

    def post(self, path, body, *, timeout):
        self.timeouts.append(sum(timeout))
        raise ApiError(403, "Forbidden", "no")

    def patch(self, path, body, *, timeout):
        raise NotImplementedError


async def test_E11_the_api_server_is_given_no_more_than_what_is_left(monkeypatch):
    forget_preemption = Asked()
    app = create_app(
        filled_cache(), configuration(**LIVE, bind={"enabled": True, "timeout": "4s"}), api=forget_preemption
    )
    app.server_context = dataclasses.replace(app.server_context, timeout=2.0)
    rig = FaultyService(app, Live(), monkeypatch, "bind", json.dumps(REQUEST).encode())
    assert "Forbidden" in (await asked(rig)).json()["Error"]
    (timeout,) = forget_preemption.timeouts
    assert timeout < 2.0
    stop_binding(app)


async def test_E11_a_binding_ends_before_the_deadline(monkeypatch):
    """Whatever bind.timeout says; what the API server may take is what is left of the call's time."""
    with FakeAPI() as api:
        hang = Hang()
        api.faults.add(api_server.Fault("*", "Pod", hang, times=None))
        server = server_at(api.url)
        sections = {"server": {"httpTimeout": "5m"}, "bind": {"enabled": True, "timeout": "4m"}}
        app = create_app(filled_cache(), configuration(**LIVE, **sections), api=server)
        app.server_context = dataclasses.replace(app.server_context, timeout=1.5)
        rig, began = FaultyService(app, Live(), monkeypatch, "bind", json.dumps(REQUEST).encode()), time.monotonic()
        response = await asked(rig)
        took = time.monotonic() - began
        assert "not known whether" in response.json()["Error"]
        assert took < 60  # of 1.5 s; without the deadline it would have been minutes
        hang.release()
        stop_binding(app)
        server.close()


# --- calls without a waiting caller -----------------------------------------------------------------------------------


async def called(app, path, receive):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "app": app}
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("path", BODIES)
async def test_E11_a_caller_that_goes_away_before_its_request_is_complete_decides_nothing(path, caplog):
    source, body = Live(), BODIES[path]
    app = create_app(filled_cache(), configuration(), source)
    messages = [{"type": "http.request", "body": body[:9], "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    with caplog.at_level(logging.WARNING):
        sent = await called(app, path, receive)
    assert sent[0]["status"] == (200 if path == "/prioritize" else 503)
    assert len(app.server_context.cache.assumed) == 0
    assert caplog.messages == [f"{path[1:]} failed: the caller closed the connection before its request was complete"]
    assert failures(app.server_context.metrics) == 1


@pytest.mark.parametrize("path", BODIES)
async def test_E11_a_call_that_is_cancelled_at_the_end_decides_nothing(path, caplog):
    source = Live()
    app = create_app(filled_cache(), configuration(), source)
    waiting = asyncio.Event()

    async def receive():
        waiting.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.WARNING):
        call = asyncio.create_task(called(app, path, receive))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert len(app.server_context.cache.assumed) == 0
    assert app.server_context.metrics.in_flight == 0
    assert caplog.records == []
