"""How a running service is called from the command line, over HTTP or HTTPS.

Rule: a certificate that cannot be checked ends the command; there is no option to go on without.
"""

import ipaddress
import shlex
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.errors import RequestError

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    import httpx

ADMIN_LISTENER = "http://127.0.0.1:8889"
"""Where a service listens for people unless it is told otherwise."""

CAFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="With an https --url: authorities (PEM) that the service is checked against."
    ),
]
CertOption = Annotated[
    Path | None,
    typer.Option("--cert", metavar="FILE", help="Certificate (PEM) to show, where the service wants one; with --key."),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Key of --cert (PEM), without a passphrase.")
]
ServerNameOption = Annotated[
    str | None,
    typer.Option(
        "--tls-server-name",
        metavar="NAME",
        help="Name in the service's certificate, where that is not the address: with kubectl port-forward.",
    ),
]


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose certificate is believed, and which one is shown."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def client(self, url: str, timeout: float) -> "httpx.Client":
        """A client for that address, of seconds of patience; RequestError if it is none, or a file is no good."""
        import httpx

        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise RequestError(f"--url {url}: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise RequestError(f"--url {url}: must be an address such as http://127.0.0.1:8889")
        if parsed.scheme == "http" and (option := next(self._given(), None)):
            raise RequestError(f"--url {url}: {option[0]} needs an address that begins with https://")
        verify = self._context() if parsed.scheme == "https" else True
        # No proxy can reach what listens on this machine only.
        client = httpx.Client(timeout=timeout, verify=verify, trust_env=not _is_here(parsed.host))
        if self.server_name is not None:
            client.event_hooks = {"request": [self._name_the_server]}
        return client

    def why(self, error: "httpx.HTTPError", url: str) -> str:
        """What to look at where a call failed for HTTPS, its absence included; "" if it failed for something else."""
        import httpx

        if refused := _of_tls(error):
            return refused
        if not isinstance(error, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
            return ""
        if url.startswith("http:"):
            return f"it does not answer in HTTP: is it https://? ({error})"
        # TLS 1.3 refuses a client only after the client believes that it is connected.
        return (
            "" if self.cert else f"it closed the connection: if it wants a certificate, see --cert and --key ({error})"
        )

    def _context(self) -> ssl.SSLContext:
        import httpx

        if (self.cert is None) != (self.key is None):
            raise RequestError("--cert and --key are needed both, or neither")
        try:
            # Without a file of authorities: SSL_CERT_FILE, or those that come with httpx.
            context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else httpx.create_ssl_context()
        except OSError as error:
            raise RequestError(f"--ca-file {self.ca_file}: {_complaint(error)}") from error
        if self.cert is not None:
            try:
                context.load_cert_chain(self.cert, self.key, password="")
            except OSError as error:
                raise RequestError(f"--cert {self.cert}, --key {self.key}: {_complaint(error)}") from error
        return context

    def _name_the_server(self, request: "httpx.Request") -> None:
        request.extensions["sni_hostname"] = self.server_name

    def options(self) -> str:
        """As they are written on a command line, with a space before each."""
        return "".join(f" {option} {shlex.quote(value)}" for option, value in self._given())

    def _given(self) -> Iterator[tuple[str, str]]:
        every = (
            ("--ca-file", self.ca_file),
            ("--cert", self.cert),
            ("--key", self.key),
            ("--tls-server-name", self.server_name),
        )
        return ((option, str(value)) for option, value in every if value is not None)


def _complaint(error: OSError) -> str:
    """What is wrong with a file of certificates or keys; ssl.SSLError is an OSError too."""
    no_pem = "cannot be read as PEM, or do not fit each other"
    return no_pem if isinstance(error, ssl.SSLError) else error.strerror or str(error)


def _of_tls(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = cause.verify_message.rstrip(".")
        return f"its certificate is not trusted ({why}): see --ca-file and --tls-server-name"
    if "ALERT" in (cause.reason or ""):
        return f"it refuses the certificate that is shown, or wants one: see --cert and --key ({cause.reason})"
    return f"no TLS is spoken there: is it http://? ({cause.reason})"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
