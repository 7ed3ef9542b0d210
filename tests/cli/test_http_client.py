"""How a running service is called over HTTPS: which CA the command line trusts, and what it says when it cannot."""

import http.server
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from extender import cli
from tests.fakes.certificates import Certificates

SUMMARY = {"id": "filter-1", "verb": "filter", "time": "t", "milliseconds": 1.0, "outcome": "answered"}
SUMMARY |= {"sentence": "it fits", "pod": "a/b", "uid": "u"}
DECISIONS = json.dumps({"decisions": [SUMMARY]}).encode()
ELSEWHERE = "extender.kube-system.svc"


class Files(NamedTuple):
    """Authorities and certificates; everything is made for these tests."""

    ours: Certificates
    elsewhere: Certificates
    """A certificate of a server that has another name than its address."""
    directory: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "elsewhere"):
        (directory / name).mkdir()
    return Files(Certificates(directory / "ours"), Certificates(directory / "elsewhere", names=(ELSEWHERE,)), directory)


@contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[str]:
    """The port of something that has one decision to tell."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(DECISIONS)))
            self.end_headers()
            self.wfile.write(DECISIONS)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.fixture
def run(monkeypatch, capsys):
    """(exit code, stdout, stderr) of the console entry point."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["extender", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


def test_it_is_asked_where_its_authority_is_named(files, run):
    with answering(files.ours.server_context()) as place:
        code, out, _ = run("explain", "--url", f"https://{place}", "--ca-file", files.ours.ca_file)
    assert code == 0
    assert "it fits" in out
    assert f"extender explain --url https://{place} --ca-file {files.ours.ca_file} " in out, "what is hinted at works"


def test_an_authority_may_come_from_the_environment(files, run, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ours.ca_file))
    with answering(files.ours.server_context()) as place:
        assert run("explain", "--url", f"https://{place}")[0] == 0


@pytest.mark.parametrize("named", [False, True], ids=["no authority is named", "another one is"])
def test_nobody_is_believed_without_the_authority(files, run, named):
    others = ("--ca-file", files.elsewhere.ca_file) if named else ()
    with answering(files.ours.server_context()) as place:
        code, out, err = run("explain", "--url", f"https://{place}", *others)
    assert (code, out) == (2, "")
    assert err.startswith(f"extender: https://{place}: certificate not trusted (")
    assert "see --ca-file" in err


def test_behind_a_port_forward_the_name_of_the_server_is_given(files, run):
    """There the address is that of this machine, and the certificate's name is not."""
    options = ("--ca-file", files.elsewhere.ca_file)
    with answering(files.elsewhere.server_context()) as place:
        code, _, err = run("explain", "--url", f"https://{place}", *options)
        assert code == 2
        assert "--tls-server-name" in err
        code, out, _ = run("explain", "--url", f"https://{place}", *options, "--tls-server-name", ELSEWHERE)
    assert code == 0
    assert f" --tls-server-name {ELSEWHERE}" in out


def test_a_certificate_is_shown_where_one_is_wanted(files, run):
    pair = files.ours.client("operator")
    with answering(files.ours.server_context(require_client_certificate=True)) as place:
        asked = ("explain", "--url", f"https://{place}", "--ca-file", files.ours.ca_file)
        code, _, err = run(*asked)
        assert code == 2
        assert "see --cert and --key" in err
        assert run(*asked, "--cert", pair.certificate, "--key", pair.key)[0] == 0


def test_plain_http_behind_an_https_address_is_told(files, run):
    with answering(None) as place:
        code, _, err = run("explain", "--url", f"https://{place}", "--ca-file", files.ours.ca_file)
    assert code == 2
    assert f"https://{place}: the server does not speak TLS: should the URL be http://? (" in err


def test_https_behind_a_plain_address_is_told(files, run):
    with answering(files.ours.server_context()) as place:
        code, _, err = run("explain", "--url", f"http://{place}")
    assert code == 2
    assert f"http://{place}: not an HTTP response: should the URL be https://? (" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ca-file", "none"), "--ca-file none: No such file or directory"),
        (("--ca-file", "/"), "--ca-file /: "),
        (("--ca-file", "{text}"), "--ca-file {text}: cannot be read as PEM"),
        (("--cert", "{cert}"), "--cert and --key must be given together"),
        (("--key", "{key}"), "--cert and --key must be given together"),
        (
            ("--cert", "{cert}", "--key", "{other}"),
            "--cert {cert}, --key {other}: cannot be read as PEM, or certificate and key do not match",
        ),
        (("--cert", "{cert}", "--key", "{locked}"), "--cert {cert}, --key {locked}: cannot be read as PEM"),
        (("--cert", "{cert}", "--key", "none"), "--cert {cert}, --key none: No such file or directory"),
    ],
    ids=[
        "no such file",
        "a directory",
        "no PEM",
        "no key",
        "no certificate",
        "the key of another",
        "a passphrase",
        "no such key",
    ],
)
def test_a_file_that_is_no_good_is_named(files, run, options, message):
    from cryptography.hazmat.primitives import serialization as written

    pair, other = files.ours.client("operator"), files.ours.client("another")
    text, locked = files.directory / "text", files.directory / "locked"
    text.write_text("no certificate")
    key = written.load_pem_private_key(pair.key.read_bytes(), None)
    encryption = written.BestAvailableEncryption(b"secret")
    locked.write_bytes(key.private_bytes(written.Encoding.PEM, written.PrivateFormat.PKCS8, encryption))
    names = {"cert": pair.certificate, "key": pair.key, "other": other.key, "text": text, "locked": locked}
    code, _, err = run("explain", "--url", "https://127.0.0.1:1", *(one.format(**names) for one in options))
    assert code == 2
    assert err.startswith(f"extender: {message.format(**names)}")


@pytest.mark.parametrize(
    ("option", "value"), [("--ca-file", "x"), ("--cert", "x"), ("--key", "x"), ("--tls-server-name", "x")]
)
def test_without_https_they_mean_nothing(run, option, value):
    code, _, err = run("explain", "--url", "http://127.0.0.1:8889", option, value)
    assert code == 2
    assert err == f"extender: --url http://127.0.0.1:8889: {option} requires an https:// URL\n"
