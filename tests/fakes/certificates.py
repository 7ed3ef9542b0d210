"""A certificate authority of our own, for an API server that speaks TLS and for clients that show certificates.

Rule: everything is made at run time, for one test's directory; no key is ever part of the repository.
"""

import datetime
import ssl
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc")


class KeyPair(NamedTuple):
    """PEM files of a certificate, its chain included, and of its key."""

    certificate: Path
    key: Path


class Certificates:
    """A CA, whose certificate is the PEM file `ca_file`, and a server certificate for `names`, in `directory`."""

    def __init__(self, directory: Path, names: tuple[str, ...] = NAMES) -> None:
        self._directory = directory
        self.ca_file = directory / "ca.crt"
        self.rotate(*names)

    def rotate(self, *names: str) -> None:
        """Makes another CA and a server certificate of it; FakeAPI shows and trusts them after its next `start`."""
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        self.reissue_server(*names)

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

    def server(self, name: str = "server", ends: datetime.datetime | None = None) -> KeyPair:
        """Another server certificate for NAMES, in files of this name; a second call overwrites them."""
        return self._write(
            name, self._ca.issue_cert(*NAMES, common_name=name, not_before=_before(ends), not_after=ends)
        )

    def client_with(
        self,
        name: str,
        *names: str,
        common_name: str | None = None,
        uri: str | None = None,
        ends: datetime.datetime | None = None,
    ) -> KeyPair:
        """A client certificate with these DNS names and addresses and this URI, in files of this name."""
        issued = self._ca.issue_cert(
            *(names or ("client.invalid",)), common_name=common_name, not_before=_before(ends), not_after=ends
        )
        pair = self._write(name, issued)
        if uri is not None:
            pair.certificate.write_bytes(self._with_uri(pair.certificate.read_bytes(), uri))
        return pair

    def _write(self, name: str, issued: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(pair.key))
        return pair

    def _with_uri(self, certificate: bytes, uri: str) -> bytes:
        """This certificate again, with a URI instead of its other alternative names; trustme issues none of these."""
        like = x509.load_pem_x509_certificate(certificate)
        builder = x509.CertificateBuilder(like.issuer, like.subject, like.public_key(), like.serial_number)
        builder = builder.not_valid_before(like.not_valid_before_utc).not_valid_after(like.not_valid_after_utc)
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        key = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())  # type: ignore[arg-type]
        return signed.public_bytes(Encoding.PEM)

    def server_context(self, require_client_certificate: bool = False) -> ssl.SSLContext:
        """What a server needs: asks clients for a certificate of the CA, or insists on one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.configure_cert(context)
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED if require_client_certificate else ssl.CERT_OPTIONAL
        return context


def _before(ends: datetime.datetime | None) -> datetime.datetime | None:
    """When a certificate begins that ends then."""
    return None if ends is None else ends - datetime.timedelta(days=30)
