"""A certificate authority of our own, for an API server that speaks TLS and for clients that show certificates.

Rule: everything is made at run time, for one test's directory; no key is ever part of the repository.
"""

import ssl
from pathlib import Path
from typing import NamedTuple

import trustme

NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc")


class KeyPair(NamedTuple):
    """PEM files of a certificate, its chain included, and of its key."""

    certificate: Path
    key: Path


class Certificates:
    """A CA, whose certificate is the PEM file `ca_file`, and a server certificate for `names`, in `directory`."""

    def __init__(self, directory: Path, names: tuple[str, ...] = NAMES) -> None:
        self._directory = directory
        self._ca = trustme.CA()
        self.ca_file = directory / "ca.crt"
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        self._server = self._ca.issue_cert(*names)

    def reissue_server(self, *names: str) -> None:
        """Makes another server certificate; FakeAPI shows it after its next `start`."""
        self._server = self._ca.issue_cert(*(names or NAMES))

    def client(self, common_name: str = "kube-scheduler") -> KeyPair:
        """A client certificate of the CA, in files named after `common_name`; a second call overwrites them."""
        issued = self._ca.issue_cert(f"{common_name}.invalid", common_name=common_name)
        pair = KeyPair(self._directory / f"{common_name}.crt", self._directory / f"{common_name}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(pair.key))
        return pair

    def server_context(self, require_client_certificate: bool = False) -> ssl.SSLContext:
        """What a server needs: asks clients for a certificate of the CA, or insists on one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.configure_cert(context)
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED if require_client_certificate else ssl.CERT_OPTIONAL
        return context
