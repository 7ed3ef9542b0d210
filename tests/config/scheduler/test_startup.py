"""What kube-scheduler 1.37.2 does not start with, as its binary answered, is what `config check` finds, and no more.

tests/e2e/control_plane/test_scheduler_files.py asks the binary again. 1.30, 1.33 and 1.36 say the same of extenders.
"""

import base64
import json
import subprocess
from pathlib import Path

import pytest

from extender.config.document import path_text
from extender.config.scheduler.load import kube_scheduler_of, read_configuration
from extender.config.scheduler.startup import find_refusals

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def new_pair(folder, name):
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate.read_bytes(), key.read_bytes()


def new_data(folder):
    """Placeholder in the table -> data of a certificate or key."""
    (certificate, key), (_, other) = new_pair(folder, "a"), new_pair(folder, "b")

    def encoded(plain):
        return base64.b64encode(plain).decode()

    return {
        "CA2": encoded(encoded(certificate).encode()),
        "KEY2": encoded(encoded(key).encode()),
        "CAPEM": json.dumps(certificate.decode()),
        "CABAD": encoded(b"-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n"),
        "CABOTH": encoded(b"-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n" + certificate),
        "OTHERKEY": encoded(other),
        "CA": encoded(certificate),
        "KEY": encoded(key),
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return new_data(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def found(tmp_path, data):
    """Findings about a file as (path, message), with the placeholders of the table replaced."""

    def found(text, version="1.37", gates=None):
        for name, value in data.items():
            text = text.replace(f"${name}$", value)
        path = tmp_path / "k.yaml"
        path.write_text(HEAD + text, encoding="utf-8")
        scheduler = kube_scheduler_of(path, version=version, feature_gates=gates or {})
        return [(path_text(one.path), one.message) for one in find_refusals(read_configuration(path), scheduler)]

    return found


def tls(text, url="http://x"):
    return f'extenders: [{{urlPrefix: "{url}", filterVerb: f, tlsConfig: {{{text}}}}}]\n'


TLS = "extenders[0].tlsConfig."
REFUSED = {
    "caData twice": (tls("caData: $CA2$"), TLS + "caData", "is not a certificate in PEM, but base64 of base64"),
    "caData as PEM": (tls("caData: $CAPEM$"), TLS + "caData", "is not base64"),
    "caData is text": (tls('caData: "not base64!"'), TLS + "caData", "is not base64"),
    "caData without PEM": (tls("caData: Zm9v"), TLS + "caData", "is not a certificate in PEM"),
    "caData is a key": (tls("caData: $KEY$"), TLS + "caData", "is not a certificate in PEM"),
    "caData holds no certificate": (tls("caData: $CABAD$"), TLS + "caData", "is not a certificate in PEM"),
    "certData twice": (tls("certData: $CA2$, keyData: $KEY$"), TLS + "certData", "base64 of base64"),
    "keyData twice": (
        tls("certData: $CA$, keyData: $KEY2$"),
        TLS + "keyData",
        "is not a private key in PEM, but base64",
    ),
    "keyData without PEM": (tls("certData: $CA$, keyData: Zm9v"), TLS + "keyData", "is not a private key in PEM"),
    "a key as certData": (tls("certData: $KEY$, keyData: $KEY$"), TLS + "certData", "is not a certificate"),
    "another key": (tls("certData: $CA$, keyData: $OTHERKEY$"), TLS + "keyData", "not the private key of certData"),
    "keyData that is not base64, without a certificate": (tls("keyData: '!'"), TLS + "keyData", "is not base64"),
    "insecure with caData": (tls("insecure: true, caData: $CA$"), TLS + "insecure", "must not be true with caData"),
    "insecure with caFile, https": (tls("insecure: true, caFile: a", "https://x"), TLS + "insecure", "with caFile"),
    "insecure with a bad caData": (tls("insecure: true, caData: Zm9v"), TLS + "insecure", "must not be true"),
    "another entry": (
        (
            "extenders: [{urlPrefix: 'http://127.0.0.1:8888', preemptVerb: preempt}, "
            "{urlPrefix: 'http://y', filterVerb: f, tlsConfig: {insecure: true, caData: $CA$}}]"
        ),
        "extenders[1].tlsConfig.insecure",
        "must not be true",
    ),
    "two binders": ("extenders: [{bindVerb: b}, {bindVerb: b}]", "extenders[1].bindVerb", "only one extender can bind"),
    "no weight": ("extenders: [{prioritizeVerb: f}]", "extenders[0].weight", "must be positive"),
    "a native resource": (
        "extenders: [{filterVerb: f, managedResources: [{name: cpu}]}]",
        "extenders[0].managedResources[0].name",
        "not the name of an extended resource",
    ),
    "a resource of two extenders": (
        (
            "extenders: [{filterVerb: f, managedResources: [{name: a.b/c}]}, "
            "{filterVerb: f, managedResources: [{name: a.b/c}]}]"
        ),
        "extenders[1].managedResources[0].name",
        "duplicate a.b/c",
    ),
    "ignored without NodeResourcesFit": (
        (
            "extenders: [{filterVerb: f, managedResources: [{name: a.b/c, ignoredByScheduler: true}]}]\n"
            "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]"
        ),
        "profiles[0]",
        "NodeResourcesFit is off",
    ),
}
STARTS = {
    "caData": tls("caData: $CA$"),
    "no caData": tls('caData: ""'),
    "a second certificate is wrong": tls("caData: $CABOTH$"),
    "certData and keyData": tls("certData: $CA$, keyData: $KEY$"),
    "certData alone": tls("certData: Zm9v"),
    "keyData alone": tls("keyData: Zm9v"),
    "files that are not here": tls("certFile: /none"),
    "insecure": tls("insecure: true, serverName: a"),
    "a negative timeout": "extenders: [{urlPrefix: x, filterVerb: f, httpTimeout: -1s}]",
    "no address": "extenders: [{filterVerb: f}]",
    "NodeResourcesFit filters nothing": (
        "extenders: [{filterVerb: f, managedResources: [{name: a.b/c, ignoredByScheduler: true}]}]\n"
        "profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]"
    ),
}


@pytest.mark.parametrize(("text", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_what_kube_scheduler_does_not_start_with_is_found(found, text, path, message):
    (one,) = found(text)
    assert one[0] == path
    assert message in one[1]
    assert one[1].endswith(": kube-scheduler does not start with it")


@pytest.mark.parametrize("text", STARTS.values(), ids=STARTS)
def test_what_kube_scheduler_starts_with_has_no_finding(found, text):
    assert found(text) == []


# --- the table of test_validation -------------------------------------------------------------------------------------

CASES = [json.loads(line) for line in (Path(__file__).parent / "judged.jsonl").read_text("utf-8").splitlines()]
NOT_FOUND = (
    "filterTimeout",
    '"Foo" does not exist',  # kube-scheduler may have been built with it
    "could overflow",
    "queue sort plugin args",
    "queueSort must be the same",
    'unknown unit "x"',
    'invalid duration ""',
    "number 1.0",  # in JSON; in YAML it is 1
)


# Of the extenders, the judge of the table reads the configuration only and builds no client.
STARTING = [case for case in CASES if not case["verdict"] and "extenders" not in case["config"]]
ONLY_REFUSED = [
    case
    for case in CASES
    if case["verdict"] and not case["said"] and not any(one in case["verdict"] for one in NOT_FOUND)
]


def rest(case):
    return json.dumps({key: value for key, value in case["config"].items() if key not in ("apiVersion", "kind")})


@pytest.mark.parametrize("case", STARTING, ids=rest)
def test_a_configuration_that_starts_has_no_finding(found, case):
    assert found(as_yaml(case), case["version"], case["featureGates"]) == []


@pytest.mark.parametrize("case", ONLY_REFUSED, ids=rest)
def test_a_configuration_that_only_kube_scheduler_refuses_has_a_finding(found, case):
    assert found(as_yaml(case), case["version"], case["featureGates"])


def as_yaml(case):
    """The keys of the configuration in JSON's notation, one a line."""
    own = {key: value for key, value in case["config"].items() if key not in ("apiVersion", "kind")}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in own.items())
