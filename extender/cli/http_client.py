"""HTTP and HTTPS client for commands that call a running service.

Rule: a server certificate that cannot be verified is an error; no option skips the verification.
"""

import shlex
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from extender.errors import RequestError
from extender.utilities.hosts import is_loopback

if TYPE_CHECKING:  # a command imports its dependencies when it runs, so that other commands start fast
    import httpx

DEFAULT_ADMIN_URL = "http://127.0.0.1:8889"
"""Default address of the admin listener (admin.host, admin.port)."""

CAFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="With an https:// --url: CA bundle (PEM) that verifies the service's certificate.",
    ),
]
CertOption = Annotated[
    Path | None,
    typer.Option("--cert", metavar="FILE", help="Client certificate (PEM), if the service requires one; needs --key."),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Private key of --cert (PEM); encrypted keys are not supported."),
]
ServerNameOption = Annotated[
    str | None,
    typer.Option(
        "--tls-server-name",
        metavar="NAME",
        help="Name in the service's certificate, if it is not the host of --url, as with kubectl port-forward.",
    ),
]


@dataclass(frozen=True, slots=True)
class TLSClientConfig:
    """TLS settings of a client: trusted CA, client certificate, server name (client-go's rest.TLSClientConfig)."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def client(self, url: str, timeout: float) -> "httpx.Client":
        """Return a client for `url` with `timeout` in seconds; RequestError for an invalid URL or an unusable file."""
        import httpx

        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise RequestError(f"--url {url}: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise RequestError(f"--url {url}: must be a URL such as http://127.0.0.1:8889")
        if parsed.scheme == "http" and (option := next(self._given_options(), None)):
            raise RequestError(f"--url {url}: {option[0]} requires an https:// URL")
        # Even for http, httpx would build a default context and read a CA bundle; pass an empty context instead.
        is_https = parsed.scheme == "https"
        verify = self._new_ssl_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # A proxy cannot reach a loopback address: ignore HTTP_PROXY and the like.
        client = httpx.Client(timeout=timeout, verify=verify, trust_env=not is_loopback(parsed.host))
        if (name := self.server_name) is not None:
            client.event_hooks = {"request": [lambda request: request.extensions.update(sni_hostname=name)]}
        return client

    def connection_error(self, error: "httpx.HTTPError", url: str, timeout: float) -> str:
        """Return a message about a failed call to the admin listener at `url`, with what to check."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            return f"{url} did not respond within {timeout:g}s"
        if tls_error := self.error_message(error, url):
            return f"{url}: {tls_error}"
        if isinstance(error, httpx.ConnectError):
            return f"cannot connect to {url}: is the service running, and is this admin.port? ({error})"
        return f"{url}: {str(error) or type(error).__name__}"

    def error_message(self, error: "httpx.HTTPError", url: str) -> str:
        """Return advice for a call that failed because of TLS, or without it; "" for any other error."""
        import httpx

        if refused := _tls_error(error):
            return refused
        if not isinstance(error, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
            return ""
        if url.startswith("http:"):
            return f"not an HTTP response: should the URL be https://? ({error})"
        # With TLS 1.3, the server rejects a client certificate when the handshake is already complete for the client.
        if self.cert:
            return ""
        return f"the server closed the connection: if it requires a client certificate, see --cert and --key ({error})"

    def _new_ssl_context(self) -> ssl.SSLContext:
        import httpx

        if (self.cert is None) != (self.key is None):
            raise RequestError("--cert and --key must be given together")
        try:
            # Without --ca-file: SSL_CERT_FILE, or the bundle that httpx uses by default.
            context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else httpx.create_ssl_context()
        except OSError as error:
            raise RequestError(f"--ca-file {self.ca_file}: {_file_error(error)}") from error
        if self.cert is not None:
            try:
                context.load_cert_chain(self.cert, self.key, password="")
            except OSError as error:
                raise RequestError(f"--cert {self.cert}, --key {self.key}: {_file_error(error)}") from error
        return context

    def command_line(self) -> str:
        """Return the given options as on a command line, shell-quoted, each after a space."""
        return "".join(f" {option} {shlex.quote(value)}" for option, value in self._given_options())

    def _given_options(self) -> Iterator[tuple[str, str]]:
        every = (
            ("--ca-file", self.ca_file),
            ("--cert", self.cert),
            ("--key", self.key),
            ("--tls-server-name", self.server_name),
        )
        return ((option, str(value)) for option, value in every if value is not None)


NOT_ADMIN_LISTENER = "is it admin.port rather than the scheduler's port, and is debug.enabled set?"
"""Advice where something else answers."""


def error_in(body: bytes) -> str | None:
    """Return the message of an error response of the service; None if something else answered."""
    try:
        return str(msgspec.json.decode(body)["Error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None


def _file_error(error: OSError) -> str:
    """Describe the problem with a certificate or key file."""
    not_pem = "cannot be read as PEM, or certificate and key do not match"
    # An SSLError is an OSError, too.
    return not_pem if isinstance(error, ssl.SSLError) else error.strerror or str(error)


def _tls_error(error: BaseException) -> str:
    # httpx and httpcore wrap the error of the handshake, each once.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message.rstrip(".")
        return f"certificate not trusted ({reason}): see --ca-file and --tls-server-name"
    if "ALERT" in (cause.reason or ""):
        return f"the server rejected the client certificate or requires one: see --cert and --key ({cause.reason})"
    return f"the server does not speak TLS: should the URL be http://? ({cause.reason})"
