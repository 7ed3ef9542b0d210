"""Steps of an operator on a running service: a new certificate, a new CA, new settings.

Files are replaced as the kubelet replaces those of a Secret or a ConfigMap: the names are symbolic links into a
directory, which one rename replaces by another.

Rule: a step is done when its effect is visible from outside, and reports the seconds until then.
"""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trustme
import yaml

from benchmarks.soak.course import Done
from benchmarks.soak.load import CLIENT_CERTIFICATE, CLIENT_KEY, SERVER_CA, client_context
from benchmarks.soak.schedule import Operator
from benchmarks.soak.watching import Admin

SCHEDULER = "kube-scheduler"
MAX_EFFECT_SECONDS = 20.0
"""Maximum time to wait for a step to take effect."""
POLL_INTERVAL_SECONDS = 0.25


class Mounted:
    """A directory whose files are replaced atomically, like a mounted Secret."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        directory.mkdir()

    def put(self, files: Mapping[str, bytes]) -> None:
        self._number += 1
        real = self._directory / f"..{self._number}"
        real.mkdir()
        for name, content in files.items():
            (real / name).write_bytes(content)
        link = self._directory / "..data_tmp"
        link.symlink_to(real.name)
        os.replace(link, self._directory / "..data")
        for name in files:
            with contextlib.suppress(FileExistsError):
                (self._directory / name).symlink_to(f"..data/{name}")

    def __truediv__(self, name: str) -> Path:
        return self._directory / name


class Certificates:
    """Certificates of the scheduler's port: the server certificate, and the CA of the clients."""

    def __init__(self, directory: Path, renew: Callable[[], None]) -> None:
        """`renew` makes the schedulers reload their certificate."""
        self._renew = renew
        self._server_ca, self._client_ca = trustme.CA(), trustme.CA()
        self.server, self.client = Mounted(directory / "server"), Mounted(directory / "clients")
        self.client_directory = directory / "clients"
        self._served = self._issue_server()
        self._trusted = [self._client_ca]
        self._put_server(self._served)
        self._put_client()

    def settings(self) -> dict[str, Any]:
        """server.tls of the service's configuration."""
        return {
            "certificate": str(self.server / "tls.crt"),
            "key": str(self.server / "tls.key"),
            "clientCA": str(self.server / "ca.crt"),
            "allowedNames": [SCHEDULER],
        }

    def rotate(self, port: int) -> Done:
        """Replace certificate and key; record the seconds until a new connection sees them."""
        self._served = self._issue_server()
        begin = time.monotonic()
        self._put_server(self._served)
        seen = until(lambda: self._shown(port) == _der(self._served))
        return Done(begin, "rotate", seen, "" if seen is not None else "the new certificate was not served")

    def mismatch(self, port: int) -> Done:
        """Write a certificate with a key that does not match; the previous pair must stay in use."""
        begin, other = time.monotonic(), self._issue_server()
        self._put_server(other, key=self._served)
        changed = until(lambda: self._shown(port) != _der(self._served), 11.0)
        return Done(
            begin, "mismatch", None, "" if changed is None else "a certificate with a mismatched key was loaded"
        )

    def rotate_authority(self, port: int) -> Done:
        """Trust both CAs, then issue client certificates of the new one, then drop the old one."""
        old, self._client_ca = self._client_ca, trustme.CA()
        before = client_context(self.client_directory)
        self._trusted = [old, self._client_ca]
        begin = time.monotonic()
        self._put_server(self._served)
        time_to = until(lambda: _is_accepted(port, self._context_of(self._client_ca)))
        if time_to is None:
            return Done(begin, "rotate authority", None, "the new authority was not accepted")
        self._put_client()
        self._renew()
        self._trusted = [self._client_ca]
        self._put_server(self._served)
        refused = until(lambda: not _is_accepted(port, before))
        wrong = "" if refused is not None else "the old authority is still accepted"
        return Done(begin, "rotate authority", max(time_to, refused or 0.0), wrong)

    def _issue_server(self) -> trustme.LeafCert:
        return self._server_ca.issue_cert("127.0.0.1", "localhost")

    def _put_server(self, shown: trustme.LeafCert, key: trustme.LeafCert | None = None) -> None:
        self.server.put(
            {
                "tls.crt": _chain(shown),
                "tls.key": (key or shown).private_key_pem.bytes(),
                "ca.crt": b"".join(ca.cert_pem.bytes() for ca in self._trusted),
            }
        )

    def _put_client(self) -> None:
        mine = self._client_ca.issue_cert(f"{SCHEDULER}.invalid", common_name=SCHEDULER)
        self.client.put(
            {
                CLIENT_CERTIFICATE: _chain(mine),
                CLIENT_KEY: mine.private_key_pem.bytes(),
                SERVER_CA: self._server_ca.cert_pem.bytes(),
            }
        )

    def _context_of(self, authority: trustme.CA) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._server_ca.cert_pem.bytes().decode())
        authority.issue_cert(f"{SCHEDULER}.invalid", common_name=SCHEDULER).configure_cert(context)
        return context

    def _shown(self, port: int) -> bytes | None:
        """Return the certificate that a new connection gets, as DER."""
        with contextlib.suppress(OSError), _connected(port, client_context(self.client_directory)) as sock:
            return sock.getpeercert(binary_form=True)
        return _der(self._served)  # a failed connection must not count as a change


class SettingsFile:
    """The configuration file of the service."""

    def __init__(self, directory: Path, start: Mapping[str, Any], admin: Admin) -> None:
        self._start = start
        self._admin = admin
        self._mounted = Mounted(directory)
        self.path = self._mounted / "extender.yaml"
        self._put({})

    def usual(self) -> Done:
        return self._changed("usual", {}, lambda now: now["extender_kill_switch"] == 0 and now[VALID] == 1)

    def preset(self, name: Operator) -> Done:
        return self._changed(name, {"preemption": {"preset": name}}, lambda now: now[VALID] == 1)

    def kill_switch(self) -> Done:
        return self._changed(
            "kill switch", {"killSwitch": {"enabled": True}}, lambda now: now["extender_kill_switch"] == 1
        )

    def bad_file(self) -> Done:
        return self._changed("bad file", {"preemptoin": {}}, lambda now: now[VALID] == 0)

    def _changed(
        self, what: Operator, sections: Mapping[str, Any], shows: Callable[[Mapping[str, float]], bool]
    ) -> Done:
        begin = time.monotonic()
        self._put(sections)
        seconds = until(lambda: bool(now := self._admin.metrics()) and shows(now))
        return Done(begin, what, seconds, "" if seconds is not None else "not in effect")

    def _put(self, sections: Mapping[str, Any]) -> None:
        self._mounted.put({"extender.yaml": yaml.safe_dump({**self._start, **sections}).encode()})


VALID = "extender_config_valid"


def until(condition: Callable[[], bool], most: float = MAX_EFFECT_SECONDS) -> float | None:
    """Return the seconds until the condition holds; None if it did not."""
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < most:
        if condition():
            return passed
        time.sleep(POLL_INTERVAL_SECONDS)
    return None


def _is_accepted(port: int, context: ssl.SSLContext) -> bool:
    """Return whether the service accepts the client certificate; TLS 1.3 reports a rejection only on the first read."""
    try:
        with _connected(port, context) as sock:
            sock.sendall(b"GET /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return sock.recv(8) == b"HTTP/1.1"
    except OSError:
        return False


def _connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=5)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except OSError:
        plain.close()
        raise


def _chain(issued: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in issued.cert_chain_pems)


def _der(issued: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())
