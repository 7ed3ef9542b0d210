"""TLS of a listener: server certificate, client CA (mTLS), allowed client names, and the reload of changed files.

New connections use changed certificate, key and CA files at most 6 s after the change (`utilities.file_watch`). Each
reload makes a new SSLContext, and session tickets are disabled, so that no session outlives the trust in a removed
client CA. Open connections keep the certificates they began with. `allowedNames` is read only at startup.

Rule: files that do not match never replace files that do; no message contains file contents.
"""

import asyncio
import contextlib
import ipaddress
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from extender.config.serving import TLSSection
from extender.errors import ConfigError, printable
from extender.k8s.time import SECOND, format_time
from extender.utilities.daemon_thread import ReloadThread
from extender.utilities.file_watch import POLL_INTERVAL_SECONDS, ChangeDetector, signature_of
from extender.utilities.log_throttle import ThrottledLoggers
from extender.utilities.regular_file import descriptor_path, open_regular_file

log = logging.getLogger(__name__)

SECONDS_PER_DAY = 86_400.0

EXPIRY_WARNING_SECONDS = 7 * SECONDS_PER_DAY
"""Remaining validity below which a warning is logged once a day."""

MAX_TLS_FILE_BYTES = 1 << 20
"""Maximum size of a certificate, key or bundle of client CAs."""

_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not export."""

_MAX_HANDSHAKE_TURNS = 5
"""Maximum number of turns of a handshake in memory; every TLS handshake takes fewer."""


class TLSFiles:
    """Certificate, key and client CA of one listener; `run()`, as a task, reloads `context` when the files change."""

    def __init__(self, listener: str, tls: TLSSection, clock: Callable[[], float] = time.time) -> None:
        """Load the files; ConfigError, with key and file, if they are not usable. `listener`: `server` or `admin`."""
        self.listener = listener
        self.problem: str | None = None
        """Reason why the last reload failed; None if the current files are in use."""
        self.refused = 0
        """Number of connections refused because the client presented no accepted certificate."""
        files = {"certificate": tls.certificate, "key": tls.key, "clientCA": tls.client_ca}
        self._files = {name: path for name, path in files.items() if path is not None}
        self._clock = clock
        self._allowed = frozenset(_canonical(name) for name in tls.allowed_names)
        self._log = ThrottledLoggers(log)
        self._next_warning = 0.0
        self._changes = ChangeDetector(signature_of(self._files.values()), must_settle=False)
        self._thread = ReloadThread(f"{listener}.tls")
        self.context, self.expires = self._load()
        """Context of new connections, and expiry of its certificate in seconds since 1970."""

    def warnings(self) -> list[str]:
        """Return one line per problem: a failed reload, a certificate that expires soon or has expired."""
        lines = self._thread.warnings()
        if self.problem is not None:
            lines.append(f"certificate: {self.problem}; using the previous one")
        left = self.expires - self._clock()
        if left <= 0:
            lines.append(f"{self.listener}.tls.certificate: expired at {_format_expiry(self.expires)}")
        elif left < EXPIRY_WARNING_SECONDS:
            lines.append(f"{self.listener}.tls.certificate: expires at {_format_expiry(self.expires)}")
        return lines

    # --- changes ---

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Poll the files until cancelled; new connections use `context`."""
        while True:
            self._warn_of_expiry()
            await sleep(self._thread.pause(POLL_INTERVAL_SECONDS))
            try:
                await self.poll()
            except Exception:  # even a bug of ours must not end the reload loop
                log.exception("%s.tls: reload failed", self.listener)

    async def poll(self) -> bool:
        """Check the files once; return whether a new context was loaded."""
        now = await self._thread.run(signature_of, self._files.values())
        if not self._changes.should_reload(now):
            return False
        try:
            self.context, self.expires = await self._thread.run(self._load)
        except ConfigError as error:
            if str(error) != self.problem:
                log.error("certificate reload failed, keeping the previous one: %s", error)
            self.problem = str(error)
            if not isinstance(error.__cause__, ssl.SSLError):
                self._changes.retry()  # the files may be good: retry although they do not change
            return False
        self.problem = None
        self._next_warning = 0.0
        log.info("%s.tls: certificate reloaded, expires at %s", self.listener, _format_expiry(self.expires))
        return True

    def _load(self) -> tuple[ssl.SSLContext, float]:
        """Return a context for the files, and the expiry of its certificate; ConfigError if a file is not usable."""
        places = {name: f"{self.listener}.tls.{name}: {printable(path)}" for name, path in self._files.items()}
        with contextlib.ExitStack() as opened:
            # OpenSSL reads the file that was opened and checked here, even if another file has taken its path since.
            files = {}
            for name, path in self._files.items():
                try:
                    file = opened.enter_context(open_regular_file(path, MAX_TLS_FILE_BYTES))
                except OSError as error:
                    raise ConfigError(f"{places[name]}: {error.strerror}") from error
                files[name] = descriptor_path(file) or path
            context = _context(files, places)
            expires = _expiry(files["certificate"], places["certificate"], context)
        context.sslobject_class = _reporting_class(self._on_handshake_failure)
        return context, expires

    def _warn_of_expiry(self) -> None:
        now = self._clock()
        if now >= self._next_warning and self.expires - now < EXPIRY_WARNING_SECONDS:
            self._next_warning = now + SECONDS_PER_DAY
            what = "expires" if self.expires > now else "expired"
            log.warning("%s.tls.certificate: %s at %s", self.listener, what, _format_expiry(self.expires))

    # --- clients ---

    def _on_handshake_failure(self, error: ssl.SSLError) -> None:
        is_certificate = isinstance(error, ssl.SSLCertVerificationError)
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else (error.reason or "closed")
        if is_certificate or error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self.refused += 1
        self._log("handshake", "%s.tls: handshake failed: %s", self.listener, printable(str(why)))

    def rejection_message(self, connection: ssl.SSLObject) -> str | None:
        """Return the error for a client whose certificate has no allowed name; None if it is accepted."""
        if not self._allowed:
            return None
        names = certificate_names(connection.getpeercert() or {})
        if any(_canonical(name) in self._allowed for name in names):
            return None
        self.refused += 1
        listed = ", ".join(map(printable, names[:5]))[:500] or "none"
        self._log("names", "%s.tls.allowedNames: client certificate rejected, its names are: %s", self.listener, listed)
        return f"no name of this certificate is in {self.listener}.tls.allowedNames"


def certificate_names(certificate: dict[str, Any]) -> list[str]:
    """Return common name, DNS names, IP addresses and URIs of a certificate from `SSLObject.getpeercert`."""
    subject: Iterable[tuple[tuple[str, str], ...]] = certificate.get("subject", ())
    common = [value for part in subject for key, value in part if key == "commonName"]
    alternative: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())
    return common + [value for kind, value in alternative if kind in ("DNS", "IP Address", "URI")]


def _canonical(name: str) -> str:
    """Return the canonical spelling of an IP address; any other name unchanged."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


# --- contexts -------------------------------------------------------------------------------------------------------


def _context(files: Mapping[str, str], places: Mapping[str, str]) -> ssl.SSLContext:
    """Return a server context for the files; ConfigError, which names the file, if one is not usable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    _probe_context(files["certificate"], places["certificate"])

    def no_passphrase() -> str:
        raise ConfigError(f"{places['key']}: encrypted private keys are not supported")

    try:
        context.load_cert_chain(files["certificate"], files["key"], no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            owner = places["certificate"].partition(": ")[2]
            raise ConfigError(f"{places['key']}: does not belong to the certificate in {owner}") from error
        if str(error.reason).endswith("_TOO_SMALL"):
            raise ConfigError(f"{places['certificate']}: its key is too small to be safe") from error
        raise ConfigError(f"{places['key']}: holds no private key in PEM form") from error
    if "clientCA" in files:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files["clientCA"])
        except ssl.SSLError as error:
            raise ConfigError(f"{places['clientCA']}: holds no certificates in PEM form") from error
    return context


def _probe_context(path: str, place: str) -> ssl.SSLContext:
    """Return a client context that trusts this certificate, whatever its issuer and validity period."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{place}: holds no certificate in PEM form") from error
    return context


def _expiry(path: str, place: str, context: ssl.SSLContext) -> float:
    """Return the expiry of the certificate in seconds since 1970; ConfigError if no client could use it."""
    # Python's ssl module parses only a peer's certificate, so shake hands in memory.
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _probe_context(path, place).wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_MAX_HANDSHAKE_TURNS):
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                break  # the server's side would still want a client certificate
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
    except ssl.SSLError as error:
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise ConfigError(f"{place}: not usable for a server: {why}") from error
    ends: Any = (client.getpeercert() or {})["notAfter"]
    return float(ssl.cert_time_to_seconds(ends))


def _reporting_class(failed: Callable[[ssl.SSLError], None]) -> type[ssl.SSLObject]:
    """Return an SSLObject class that reports failed handshakes to `failed`, as asyncio does not expose them."""

    class Reporting(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                failed(error)
                raise

    return Reporting


def _format_expiry(seconds: float) -> str:
    return format_time(int(seconds) * SECOND)
