"""The admin listener: which client may read what, and that the scheduler's listener has none of its paths."""

import json
from typing import Any

import httpx
import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.config.serving import TLSSection
from extender.server.admin.app import PUBLIC_PATHS, SECURITY_HEADERS, create_admin_app, is_loopback
from extender.server.admin.health import DRAINING
from extender.server.app import create_app
from extender.server.http.tls import TLSFiles
from extender.server.observability.metrics import CONTENT_TYPE
from tests.fakes.certificates import Certificates
from tests.server.conftest import (
    BODIES,
    INCOMING,
    admin_client,
    configuration,
    error_of,
    filled_cache,
    filter_body,
    listening,
    scheduler_client,
)

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
REMOTE = ("10.0.0.7", 1)
FOR_PEOPLE = (
    *("/", "/ui", "/ui/", "/ui/app.js", "/status", "/recording", "/simulate"),
    *("/decisions", "/decisions/filter-1", "/decisions/filter-1/pod"),
)


def app_with(cache=None, **sections):
    return create_app(cache or filled_cache(), configuration(**sections))


def admin(client=("127.0.0.1", 50000), cache=None, **sections):
    return admin_client(app_with(cache, **sections).server_context, client, **sections)


# --- apart from the scheduler's port ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", [*sorted(PUBLIC_PATHS), *FOR_PEOPLE])
async def test_nothing_of_it_is_on_the_scheduler_s_port(path, method):
    async with scheduler_client(app_with()) as scheduler:
        answer = await scheduler.request(method, path, content=b"{}" if method == "POST" else None, headers=JSON)
    assert answer.status_code == 404
    assert "health, metrics and debug pages are on the admin listener" in error_of(answer)


@pytest.mark.parametrize("path", [*BODIES, "/bind"])
async def test_nothing_of_the_scheduler_s_port_is_here(path):
    async with admin() as people:
        answer = await people.post(path, content=BODIES.get(path, b"{}"), headers=JSON)
    assert answer.status_code == 404
    assert error_of(answer).startswith("no such path; available: GET /livez")


async def test_both_ports_speak_of_one_service():
    app = app_with()
    async with scheduler_client(app) as scheduler, admin_client(app.server_context) as people:
        assert (await scheduler.post("/filter", content=filter_body(), headers=JSON)).status_code == 200
        assert [one["id"] for one in (await people.get("/decisions")).json()["decisions"]] == ["filter-1"]


@pytest.mark.parametrize("path", ["/livez/", "/readyz/", "/metrics/", "/decisions/", "/status/", "/ui/app.js/", "//ui"])
async def test_no_path_redirects(path):
    async with admin() as people:
        answer = await people.get("http://127.0.0.1:8889" + path)
    assert answer.status_code == 404
    error_of(answer)


# --- health and metrics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False], ids=["beside debug", "without debug"])
@pytest.mark.parametrize("client", [("127.0.0.1", 1), REMOTE, ("fd00::7", 1)], ids=lambda client: client[0])
@pytest.mark.parametrize("host", ["10.1.2.3:8889", "extender.kube-system.svc:8889", "[fd00::7]:8889", "evil.example"])
async def test_probes_and_prometheus_come_from_anywhere_and_name_it_as_they_like(host, client, enabled):
    async with admin(client, debug={"enabled": enabled}) as machine:
        for path in PUBLIC_PATHS:
            assert (await machine.get(path, headers={"Host": host})).status_code == 200


async def test_health_and_metrics_are_text():
    async with admin() as machine:
        live, ready, metrics = [await machine.get(path) for path in ("/livez", "/readyz", "/metrics")]
    assert (live.text, ready.text) == ("ok", "ok")
    assert live.headers["content-type"] == ready.headers["content-type"] == "text/plain; charset=utf-8"
    assert metrics.headers["content-type"] == CONTENT_TYPE
    assert metrics.text.startswith("# HELP ")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", sorted(PUBLIC_PATHS))
async def test_they_are_read_with_get_and_nothing_else(path, method):
    async with admin(REMOTE) as machine:
        answer = await machine.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    error_of(answer)


def test_head_is_refused_without_a_body_and_the_connection_goes_on():
    with listening(app_with().server_context) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/livez").text == "ok"
        head = client.head("/readyz")
        assert (head.status_code, head.content) == (405, b"")
        error_of(client.get("/nothing"))


SECTIONS = {
    "a synced cache": {},
    "the kill switch": {"killSwitch": {"enabled": True}},
    "Observe": {"mode": "Observe"},
}


@pytest.mark.parametrize("sections", SECTIONS.values(), ids=SECTIONS.keys())
async def test_who_is_about_to_end_is_not_ready(sections):
    app = app_with(**sections)
    async with admin_client(app.server_context, REMOTE, **sections) as machine:
        assert (await machine.get("/readyz")).text == "ok"
        before = await machine.get("/readyz?verbose")
        app.server_context.lifecycle.is_draining = True
        ready, verbose, live = [await machine.get(path) for path in ("/readyz", "/readyz?verbose", "/livez")]
    assert (before.status_code, before.text.splitlines()[-2:]) == (200, ["[+] not draining", "readyz check passed"])
    assert (ready.status_code, error_of(ready)) == (503, DRAINING)
    assert verbose.status_code == 503
    assert verbose.text.splitlines()[-2:] == [f"[-] {DRAINING}", "readyz check failed"]
    assert live.status_code == 200, "a graceful shutdown must not be killed"


async def test_certificate_problems_are_warnings_and_the_process_stays_ready(tmp_path):
    pair = Certificates(tmp_path).client("extender")
    section = TLSSection(certificate=str(pair.certificate), key=str(pair.key))
    app = app_with()
    files = app.server_context.lifecycle.certificates["server"] = TLSFiles("server", section)
    async with admin_client(app.server_context) as people:
        assert "certificate" not in (await people.get("/readyz?verbose")).text
        files.problem = "server.tls.key: no key"
        verbose, status = await people.get("/readyz?verbose"), await people.get("/status")
    assert verbose.status_code == 200
    assert "[!] certificate: server.tls.key: no key; using the previous one\n" in verbose.text
    checks = verbose.text.splitlines()[:-1]
    assert status.json()["checks"] == checks, "the header of the page shows what /readyz?verbose does"


async def test_draining_is_reported_before_any_other_problem():
    app = app_with(ClusterCache())
    app.server_context.lifecycle.is_draining = True
    async with admin_client(app.server_context) as machine:
        ready, verbose = await machine.get("/readyz"), await machine.get("/readyz?verbose")
    assert error_of(ready) == DRAINING
    assert [line[:3] for line in verbose.text.splitlines()] == ["[+]", "[-]", "[+]", "[+]", "[-]", "rea"]


# --- who may ask what is for people -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*FOR_PEOPLE, "/nothing", "/livez/", "/livez/../status", "/%2e%2e/status", "//status"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_other_machines_see_nothing_that_is_for_people(path, method):
    async with admin(REMOTE) as stranger:
        answer = await stranger.request(method, "http://127.0.0.1:8889" + path, headers=JSON, content=b"{}")
    assert answer.status_code == 403
    assert "kubectl port-forward" in error_of(answer)
    assert "debug.allowRemote: true" in error_of(answer)


async def test_other_machines_can_be_allowed():
    async with admin(REMOTE, debug={"allowRemote": True}) as guest:
        assert (await guest.get("/status")).status_code == 200
        assert (await guest.get("/status", headers={"Host": "evil.example"})).status_code == 403


@pytest.mark.parametrize(
    ("client", "is_here"),
    [
        (("127.0.0.1", 1), True),
        (("::1", 1), True),
        (("::ffff:127.0.0.1", 1), True),
        (("10.0.0.7", 1), False),
        (("fd00::7", 1), False),
        (("::ffff:10.0.0.7", 1), False),
        (("::127.0.0.1", 1), False),
        (("127.0.0.6", 1), False),
        (("fe80::1%eth0", 1), False),
        (("0.0.0.0", 1), False),
        (("localhost", 1), False),
        (("", 0), False),
        (None, False),
    ],
    ids=str,
)
def test_who_asks_from_this_machine(client, is_here):
    assert is_loopback(client) == is_here


async def test_who_has_no_address_is_no_neighbour():
    """As with a Unix socket."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/status", "query_string": b"", "client": None}
    scope["headers"] = [(b"host", b"localhost")]
    await create_admin_app(app_with().server_context, Configuration())(scope, receive, send)
    assert sent[0]["status"] == 403


@pytest.mark.parametrize("path", ["/ui", "/decisions", "/decisions/nothing", "/nothing", "/metrics", "/readyz"])
async def test_every_answer_keeps_a_browser_careful(path):
    async with admin() as people:
        answer = await people.get(path)
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


@pytest.mark.parametrize("allow_remote", [False, True], ids=["from here only", "from anywhere"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8889", 200),
        ("[::1]:8889", 200),
        ("10.1.2.3", 200),
        ("localhost:8889", 200),
        ("LOCALHOST", 200),
        ("extender.internal:8889", 200),
        ("evil.example", 403),
        ("evil.example:8889", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
async def test_the_host_header_decides_whether_it_is_answered(host, status, allow_remote):
    sections = {
        "admin": {"host": "extender.internal", "allowPlainHTTP": True},
        "debug": {"allowRemote": allow_remote},
    }
    async with admin(**sections) as people:
        assert (await people.get("/status", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json"}, 200),
        ({"Content-Type": "application/json; charset=utf-8", "Origin": "http://127.0.0.1:8889"}, 200),
        ({"Content-Type": "application/json", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "application/json", "Origin": "null"}, 403),
        ({"Content-Type": "application/yaml"}, 200),
        ({"Content-Type": "application/yaml", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/yaml"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({}, 415),
    ],
    ids=str,
)
async def test_no_other_site_can_have_a_browser_ask(headers, status):
    question = json.dumps({"pod": INCOMING}).encode()
    async with admin() as people:
        assert (await people.post("/simulate", content=question, headers=headers)).status_code == status


async def test_only_a_simulation_is_asked_in_yaml():
    async with admin() as people:
        answer = await people.post("/recording", content=b"enabled: true", headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 415


@pytest.mark.parametrize("client", [("127.0.0.1", 1), REMOTE], ids=lambda client: client[0])
@pytest.mark.parametrize("path", FOR_PEOPLE)
async def test_where_debug_is_off_it_says_how_to_switch_it_on(path, client):
    async with admin(client, debug={"enabled": False}) as people:
        answer = await people.get(path)
    assert answer.status_code == 404
    assert "debug.enabled: true" in error_of(answer)
