"""Our entry of kube-scheduler's `extenders` against our configuration: what does not go together, where, how bad."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config import Configuration
from extender.config.decoding import decode
from extender.config.scheduler import check
from extender.config.scheduler.load import kube_scheduler_of
from extender.config.scheduler.schema import KubeSchedulerConfiguration
from extender.server.scheduler.routes import PATHS

DEPLOY = Path(__file__).parents[3] / "deploy" / "scheduler"

OURS = {
    "urlPrefix": "http://127.0.0.1:8888",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "nodeCacheCapable": True,
    "httpTimeout": "5s",
    "ignorable": True,
}
TLS = {"certificate": "tls.crt", "key": "tls.key"}
LISTENING_TLS = {"server": {"host": "10.0.0.1", "tls": TLS}}
REMOTE = {"urlPrefix": "https://10.0.0.1:8888", "enableHTTPS": True, "tlsConfig": {"caFile": "ca.crt"}}
STRICT = {"preemption": {"preset": "strict"}}
CLIENT_CA = {"server": {**LISTENING_TLS["server"], "tls": {**TLS, "clientCA": "ca.crt"}}}
CLIENT = {**REMOTE, "tlsConfig": {"caFile": "ca.crt", "certFile": "c.crt", "keyFile": "c.key"}}


def document(*extenders: dict[str, Any], **top: Any) -> dict[str, Any]:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "extenders": list(extenders), **top}


def entry(written: dict[str, Any], config: dict[str, Any], number: int = 0) -> check.Entry:
    settings = Configuration.model_validate(config)
    return check.Entry(
        number, decode(KubeSchedulerConfiguration, written, ()), settings, kube_scheduler_of(copy.deepcopy(written))
    )


def found(change: dict[str, Any], config: dict[str, Any], *others: dict[str, Any]) -> list[check.Finding]:
    """Findings about our entry with this change; a key that is None is left out."""
    ours = {key: value for key, value in {**OURS, **change}.items() if value is not None}
    return check.check_entry(entry(document(ours, *others), config))


def reported(findings: list[check.Finding]) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(one.severity, one.path[2:]) for one in findings]


@pytest.mark.parametrize(
    ("change", "config"),
    [
        pytest.param({}, {}, id="on loopback"),
        pytest.param({"httpTimeout": None}, {}, id="kube-scheduler's default timeout is ours"),
        pytest.param({"urlPrefix": "http://[::1]:8888"}, {"server": {"host": "::1"}}, id="IPv6"),
        pytest.param({"urlPrefix": "http://localhost:8888/"}, {}, id="a slash at the end is cut off"),
        pytest.param({"httpTimeout": "2500ms"}, {"server": {"httpTimeout": "2500ms"}}, id="the same timeout"),
        pytest.param(REMOTE, LISTENING_TLS, id="TLS"),
        pytest.param(CLIENT, CLIENT_CA, id="TLS with client certificates"),
        pytest.param(
            {"bindVerb": "bind"}, {"bind": {"enabled": True}, "cluster": {"source": "kubernetes"}}, id="binding"
        ),
        pytest.param({"ignorable": False, "filterVerb": None}, STRICT, id="not ignorable, for preemption only"),
    ],
)
def test_nothing_is_found_where_both_agree(change, config):
    assert found(change, config) == []


@pytest.mark.parametrize(
    ("change", "config", "severity", "key", "message"),
    [
        # --- address
        pytest.param({"urlPrefix": "127.0.0.1:8888"}, {}, "error", "urlPrefix", "is not a URL", id="no URL"),
        pytest.param({"urlPrefix": "http://[::1"}, {}, "error", "urlPrefix", "is not a URL", id="half an address"),
        pytest.param({"urlPrefix": "http://a:b"}, {}, "error", "urlPrefix", "is not a URL", id="a port that is none"),
        pytest.param({"urlPrefix": ""}, {}, "error", "urlPrefix", "is not a URL", id="an empty URL"),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1:8889"}, {}, "error", "urlPrefix", "port 8889 is admin.port", id="admin"
        ),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1:1"}, {}, "error", "urlPrefix", "port 1, but server.port is 8888", id="port"
        ),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1"}, {}, "error", "urlPrefix", "port 80, but", id="the scheme's port"
        ),
        pytest.param(
            {**REMOTE, "urlPrefix": "https://10.0.0.1"},
            LISTENING_TLS,
            "warning",
            "urlPrefix",
            "port 443, but server.port is 8888",
            id="a port that a Service may translate",
        ),
        pytest.param(
            {"urlPrefix": "http://10.0.0.1:8888"}, {}, "error", "urlPrefix", "is not served", id="only loopback"
        ),
        pytest.param(
            {**REMOTE, "urlPrefix": "https://127.0.0.1:8888"},
            LISTENING_TLS,
            "error",
            "urlPrefix",
            "is not served",
            id="loopback is not served",
        ),
        pytest.param(
            {**REMOTE, "urlPrefix": "https://extender.kube-system.svc:8888"},
            LISTENING_TLS,
            "warning",
            "urlPrefix",
            "resolves in pods only",
            id="the name of a Service",
        ),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1:8888/v1"}, {}, "error", "urlPrefix", "served at the root", id="a path"
        ),
        pytest.param(
            {"urlPrefix": "http://[::1]:8888"}, {}, "error", "urlPrefix", "is not served", id="IPv6's loopback"
        ),
        pytest.param({"urlPrefix": "http://127.0.0.2:8888"}, {}, "error", "urlPrefix", "is not served", id="127.0.0.2"),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1:8888?x=1"}, {}, "error", "urlPrefix", "must not have a query", id="a query"
        ),
        pytest.param(
            {"urlPrefix": "http://127.0.0.1:8888/#x"},
            {},
            "error",
            "urlPrefix",
            "must not have a fragment",
            id="a fragment",
        ),
        pytest.param(
            {"urlPrefix": "http://a:b@127.0.0.1:8888"}, {}, "warning", "urlPrefix", "password", id="a password"
        ),
        pytest.param({"httpTimeout": "-5s"}, {}, "error", "httpTimeout", "-5s sets no limit", id="a negative timeout"),
        # --- TLS
        pytest.param(
            {"urlPrefix": "https://127.0.0.1:8888", "tlsConfig": {"caFile": "ca.crt"}},
            {},
            "error",
            "urlPrefix",
            "serves plain HTTP",
            id="https to plain HTTP",
        ),
        pytest.param({}, {"server": {"tls": TLS}}, "error", "urlPrefix", "serves HTTPS only", id="http to TLS"),
        pytest.param(
            {"enableHTTPS": True}, {}, "warning", "enableHTTPS", "has no effect", id="enableHTTPS of an http URL"
        ),
        pytest.param(
            {**REMOTE, "tlsConfig": None},
            LISTENING_TLS,
            "warning",
            "tlsConfig.caFile",
            "accepts any certificate",
            id="enableHTTPS without an authority",
        ),
        pytest.param(
            {**REMOTE, "tlsConfig": None, "enableHTTPS": None},
            LISTENING_TLS,
            "note",
            "tlsConfig.caFile",
            "the system's CA certificates are used",
            id="https with the machine's authorities",
        ),
        pytest.param(
            {**REMOTE, "tlsConfig": {"insecure": True}},
            LISTENING_TLS,
            "warning",
            "tlsConfig.insecure",
            "any certificate",
            id="insecure",
        ),
        pytest.param(
            REMOTE, CLIENT_CA, "error", "tlsConfig", "every connection is refused", id="no client certificate"
        ),
        pytest.param(
            {**REMOTE, "tlsConfig": {"caFile": "ca.crt", "certFile": "c.crt"}},
            LISTENING_TLS,
            "warning",
            "tlsConfig",
            "certFile without keyFile",
            id="a certificate without its key",
        ),
        pytest.param(
            CLIENT, LISTENING_TLS, "note", "tlsConfig", "not verified", id="a certificate that is not checked"
        ),
        pytest.param(
            {**REMOTE, "tlsConfig": {"caFile": "ca.crt", "certFile": "c.crt", "keyData": "a2V5"}},
            CLIENT_CA,
            "warning",
            "tlsConfig.keyData",
            "readable",
            id="the key itself",
        ),
        # --- verbs
        pytest.param(
            {"filterVerb": "/filter"}, {}, "error", "filterVerb", '"/filter" is not a path', id="a slash before a verb"
        ),
        pytest.param({"preemptVerb": "preemption"}, {}, "error", "preemptVerb", "is not a path", id="another verb"),
        pytest.param(
            {"filterVerb": None, "preemptVerb": None}, {}, "error", "", "kube-scheduler never calls", id="no verb"
        ),
        pytest.param(
            {"preemptVerb": None}, STRICT, "warning", "preemptVerb", "have no effect", id="policies that are not asked"
        ),
        pytest.param(
            {"bindVerb": "bind", "ignorable": False, "filterVerb": None},
            {},
            "error",
            "bindVerb",
            "no pod can be bound",
            id="binding is not enabled",
        ),
        pytest.param(
            {"bindVerb": "bind"}, {}, "warning", "bindVerb", "after a failed call", id="binding is not enabled, ignored"
        ),
        pytest.param(
            {},
            {"bind": {"enabled": True}, "cluster": {"source": "kubernetes"}},
            "note",
            "bindVerb",
            "binds itself",
            id="binding is not asked for",
        ),
        pytest.param(
            {"nodeCacheCapable": None},
            {},
            "warning",
            "nodeCacheCapable",
            "up to server.maxBodyBytes (128Mi), and its own score plugins then see nodes without pods",
            id="whole nodes",
        ),
        pytest.param(
            {"managedResources": [{"name": "example.com/gpu"}]},
            STRICT,
            "note",
            "managedResources",
            "only pods that request example.com/gpu",
            id="managed resources",
        ),
        pytest.param(
            {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]},
            {},
            "warning",
            "managedResources.0.ignoredByScheduler",
            "NodeResourcesFit ignores example.com/gpu",
            id="resources that nothing checks",
        ),
        # --- time, score, failures
        pytest.param(
            {"httpTimeout": "4s"}, {}, "error", "httpTimeout", "gives up after 4s, but", id="no time for an answer"
        ),
        pytest.param({"httpTimeout": "1m0.5s"}, {}, "warning", "httpTimeout", "60.5s, but", id="more time than used"),
        pytest.param(
            {"prioritizeVerb": "prioritize", "weight": 1},
            {},
            "note",
            "weight",
            "profile default-scheduler: up to 100 points; all other scores together 1500",
            id="the share of a weight",
        ),
        pytest.param(
            {"prioritizeVerb": "prioritize", "weight": 151},
            {},
            "warning",
            "weight",
            "less than one step of this extender's score",
            id="a weight that decides alone",
        ),
        pytest.param({"weight": 1}, {}, "note", "weight", "no effect without prioritizeVerb", id="an idle weight"),
        pytest.param(
            {},
            {"preemption": {"candidates": "AllNodes"}},
            "warning",
            "ignorable",
            "evicted without policies",
            id="a failed call evicts",
        ),
        pytest.param({}, STRICT, "note", "ignorable", "while the extender does not run", id="a stopped extender"),
        pytest.param({"ignorable": False}, {}, "note", "ignorable", "schedules no pod", id="a deadlock"),
    ],
)
def test_a_finding_is(change, config, severity, key, message):
    findings = found(change, config)
    path = tuple(int(one) if one.isdecimal() else one for one in key.split(".") if one)
    matching = [one for one in findings if message in one.message]
    assert [(one.severity, one.path[2:]) for one in matching] == [(severity, path)], findings


def test_errors_come_first_and_name_the_entry():
    findings = found({"httpTimeout": "1s", "nodeCacheCapable": False, "weight": 3}, {})
    assert [one.severity for one in findings] == ["error", "warning", "note"]
    assert {one.path[:2] for one in findings} == {("extenders", 0)}


# --- other extenders --------------------------------------------------------------------------------------------------

OTHER = {"urlPrefix": "http://127.0.0.1:9999", "preemptVerb": "preempt", "nodeCacheCapable": True, "ignorable": True}


def test_an_extender_that_is_called_later_may_undo_the_policies():
    assert reported(found({"ignorable": False, "filterVerb": None}, STRICT, OTHER)) == [("warning", ("preemptVerb",))]
    assert "make both ignorable or neither" in found({"ignorable": False}, STRICT, OTHER)[0].advice
    assert found({"ignorable": False, "filterVerb": None}, {}, OTHER) == []


def test_ignorable_extenders_are_called_last():
    written = decode(KubeSchedulerConfiguration, document(OURS, {**OTHER, "ignorable": False}, OTHER), ())
    assert check.call_order(written) == [1, 0, 2]
    notes = [one for one in found({}, {}, {**OTHER, "ignorable": False}) if one.severity == "note"]
    assert [one.message for one in notes] == [
        "extenders[1] (http://127.0.0.1:9999) is called first: its result is sent here"
    ]


def test_the_weights_of_other_extenders_count():
    scoring = {"urlPrefix": "http://127.0.0.1:9999", "prioritizeVerb": "score", "weight": 5}
    (note,) = found({"prioritizeVerb": "prioritize", "weight": 1}, {}, scoring)
    assert note.message.endswith("all other scores together 2000")


VENDOR = {
    "urlPrefix": "https://127.0.0.1:443",
    "filterVerb": "filter",
    "bindVerb": "bind",
    "managedResources": [{"name": "example.com/vgpu", "ignoredByScheduler": True}],
}


def test_our_entry_has_our_port_or_our_verbs_for_preemption():
    def ours(*extenders):
        return check.own_entries(decode(KubeSchedulerConfiguration, document(*extenders), ()), Configuration())

    behind_a_service = {**OURS, "urlPrefix": "https://10.96.0.88"}
    foreign = {**OTHER, "preemptVerb": "v1/preempt"}
    assert ours() == []
    assert ours(foreign) == []
    assert ours(foreign, OURS) == [1]
    assert ours(foreign, behind_a_service) == [1]
    assert ours(OURS, OURS) == [0, 1]
    assert ours(foreign, foreign) == []
    # A vendor's entry is not ours, although it is the only one and its verbs are called as ours are.
    assert ours(VENDOR) == []
    assert ours(VENDOR, behind_a_service) == [1]
    assert ours({**VENDOR, "preemptVerb": "preempt"}) == []
    assert ours({**VENDOR, "urlPrefix": "http://vgpu.kube-system:8888", "filterVerb": "predicates"}) == []
    assert ours({**OURS, "urlPrefix": "http://10.0.0.5:8888"}, OURS) == [1]
    assert ours({**OURS, "urlPrefix": "http://10.0.0.5:8888"}) == [0]
    assert ours({**OURS, "filterVerb": "predicates"}) == [0]


def test_other_extenders_are_named_in_call_order_without_passwords():
    ignorable = {**OTHER, "urlPrefix": "http://a:b@127.0.0.1:9999"}
    written = decode(KubeSchedulerConfiguration, document(ignorable, OURS, VENDOR, {"urlPrefix": "http://no.verb"}), ())
    found = check.other_extenders(written, Configuration())
    assert [(one.name, one.verbs) for one in found] == [
        ("extenders[2] at https://127.0.0.1:443", ("filter", "bind")),
        ("extenders[0] at http://127.0.0.1:9999", ("preempt",)),
    ]
    assert found[0].managed_resources == {"example.com/vgpu"}


def test_a_profile_without_preemption_never_calls():
    plugins = {"postFilter": {"disabled": [{"name": "*"}]}, "multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": plugins}]
    findings = check.check_entry(entry(document(OURS, profiles=profiles), {}))
    assert [one.message for one in findings] == [
        "profile b has no DefaultPreemption: it never preempts or calls the extender"
    ]


# --- what it must agree with ------------------------------------------------------------------------------------------


def test_the_paths_are_those_that_are_served():
    assert {f"/{verb}" for verb in check.SERVED_VERBS.values()} == set(PATHS)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("preempt-only.yaml", {}),
        ("filter-and-preempt.yaml", {}),
        ("two-profiles.yaml", {}),
        ("managed-resources.yaml", {"bind": {"enabled": True}, "cluster": {"source": "kubernetes"}}),
        ("remote-tls.yaml", {"server": {"host": "0.0.0.0", "tls": {**TLS, "clientCA": "ca.crt"}}}),
    ],
)
def test_the_files_that_ship_have_no_errors_and_no_warnings(name, config):
    written = yaml.safe_load((DEPLOY / name).read_text())
    assert [one for one in check.check_entry(entry(written, config)) if one.severity != "note"] == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 5), ("0", 5), ("250ms", 0.25), ("1m30s", 90), ("1.5s", 1.5), ("100us", 0.0001), ("1h", 3600), ("-5s", -5)],
)
def test_a_timeout_is_read_as_go_writes_it(text, seconds):
    section = decode(KubeSchedulerConfiguration, document({**OURS, "httpTimeout": text}), ()).extenders[0]
    assert check.timeout_seconds(section) == pytest.approx(seconds)
