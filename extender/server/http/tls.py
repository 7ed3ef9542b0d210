"""What a listener that speaks TLS shows, and whom it lets in; made anew when the files change.

`server.http.file_watch` decides when changed certificate, key and CA files are loaded again: 6 s after a change new
connections see it. They get a context of their own (`listener.py`), so that an authority that is gone is
gone; there are no session tickets, and no session outlives its context. Connections that are open stay open, under the
certificates with which they were begun. `allowedNames` is read at the start only.

Rule: files that do not fit together never replace those that did; what they contain is in no message.
"""

import asyncio
import ipaddress
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from extender.config.serving import TLSSection
from extender.errors import ConfigError, printable
from extender.k8s.time import SECOND, format_time
from extender.server.http.file_watch import INTERVAL, Looks, Signature, signature
from extender.server.http.log_throttle import ThrottledLogger

log = logging.getLogger(__name__)

DAY = 86_400.0
SOON = 7 * DAY
"""Seconds before its end from which on a certificate is warned of, once a day."""

_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for."""

_TURNS = 5
"""More than any handshake takes."""

Signatures = tuple[Signature | None, ...]
"""Of each file; None: it cannot be seen."""


class TLSFiles:
    """Certificate, key and authorities of one listener. `follow()` as a task keeps `context` equal to the files."""

    def __init__(self, listener: str, tls: TLSSection, clock: Callable[[], float] = time.time) -> None:
        """ConfigError, which names key and file, if they cannot be used. `listener`: `server` or `admin`."""
        self.listener = listener
        self.problem: str | None = None
        """Why the files as they are now are not in effect; None: they are."""
        self.refused = 0
        """How many connections were closed or refused for want of a certificate that is accepted."""
        self._tls = tls
        self._clock = clock
        self._allowed = frozenset(_canonical(name) for name in tls.allowed_names)
        self._note_failed = ThrottledLogger(log)
        self._note_refused = ThrottledLogger(log)
        self._next_warning = 0.0
        self._looks = Looks(self._signatures())
        self.context, self.expires = self._load()
        """For the next connection; and when what it shows ends, in seconds since 1970."""

    def warnings(self) -> list[str]:
        """What an operator should know, a line each."""
        lines = []
        if self.problem is not None:
            lines.append(f"certificate: {self.problem}; the one before is used")
        left = self.expires - self._clock()
        if left <= 0:
            lines.append(f"{self.listener}.tls.certificate: expired at {_format_expiry(self.expires)}")
        elif left < SOON:
            lines.append(f"{self.listener}.tls.certificate: expires at {_format_expiry(self.expires)}")
        return lines

    # --- changes ---

    async def follow(
        self,
        put: Callable[[ssl.SSLContext], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Follow the files until cancelled; `put` makes new connections use the context."""
        is_new = False
        while True:
            self._warn_of_expiry()
            await sleep(INTERVAL)
            try:
                is_new = await self.poll() or is_new
                if is_new:
                    await put(self.context)
                    is_new = False
            except Exception:  # even a bug of ours must not end the following
                log.exception("%s.tls: the files could not be looked at", self.listener)

    async def poll(self) -> bool:
        """Look once; return whether there is another context."""
        now = await asyncio.to_thread(self._signatures)
        if not self._looks.is_due(now):
            return False
        self._looks.tried = now
        try:
            self.context, self.expires = await asyncio.to_thread(self._load)
        except ConfigError as error:
            if str(error) != self.problem:
                log.error("certificate not read again, the one before stays: %s", error)
            self.problem = str(error)
            if not isinstance(error.__cause__, ssl.SSLError):
                self._looks.tried = None  # not the content's fault: worth another try although nothing changes
            return False
        self.problem = None
        self._next_warning = 0.0
        log.info("%s.tls: read again; the certificate expires at %s", self.listener, _format_expiry(self.expires))
        return True

    def _signatures(self) -> Signatures:
        return tuple(map(_signature, self._paths().values()))

    def _paths(self) -> dict[str, str]:
        """Key of the configuration -> file."""
        files = {"certificate": self._tls.certificate, "key": self._tls.key, "clientCA": self._tls.client_ca}
        return {f"{self.listener}.tls.{key}": path for key, path in files.items() if path is not None}

    def _load(self) -> tuple[ssl.SSLContext, float]:
        for key, path in self._paths().items():
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise ConfigError(f"{key}: {printable(path)}: {error.strerror}") from error
        context = _context(self.listener, self._tls)
        expires = _expiry(self.listener, self._tls, context)
        context.sslobject_class = _reporting(self._handshake_failed)
        return context, expires

    def _warn_of_expiry(self) -> None:
        now = self._clock()
        if now >= self._next_warning and self.expires - now < SOON:
            self._next_warning = now + DAY
            what = "expires" if self.expires > now else "expired"
            log.warning("%s.tls.certificate: %s at %s", self.listener, what, _format_expiry(self.expires))

    # --- who calls ---

    def _handshake_failed(self, error: ssl.SSLError) -> None:
        is_certificate = isinstance(error, ssl.SSLCertVerificationError)
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else (error.reason or "closed")
        if is_certificate or error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self.refused += 1
        self._note_failed("%s.tls: no connection with a client: %s", self.listener, printable(str(why)))

    def refusal(self, connection: ssl.SSLObject) -> str | None:
        """What a client is told whose certificate has none of the allowed names; None: it is let in."""
        if not self._allowed:
            return None
        names = names_of(connection.getpeercert() or {})
        if any(_canonical(name) in self._allowed for name in names):
            return None
        self.refused += 1
        shown = ", ".join(map(printable, names[:5]))[:500] or "none"
        self._note_refused("%s.tls.allowedNames has no name of a client's certificate: %s", self.listener, shown)
        return f"no name of this certificate is in {self.listener}.tls.allowedNames"


def names_of(certificate: dict[str, Any]) -> list[str]:
    """Common name, DNS names, addresses and URIs of a certificate as `SSLObject.getpeercert` gives it."""
    subject: Iterable[tuple[tuple[str, str], ...]] = certificate.get("subject", ())
    common = [value for part in subject for key, value in part if key == "commonName"]
    alternative: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())
    return common + [value for kind, value in alternative if kind in ("DNS", "IP Address", "URI")]


def _canonical(name: str) -> str:
    """The same text for the same address; other names as they are."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


# --- contexts -------------------------------------------------------------------------------------------------------


def _context(listener: str, tls: TLSSection) -> ssl.SSLContext:
    """ConfigError if the files are not what they should be."""
    assert tls.certificate is not None
    assert tls.key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    certificate, key, authorities = (
        f"{listener}.tls.{name}: {printable(path or '')}"
        for name, path in (("certificate", tls.certificate), ("key", tls.key), ("clientCA", tls.client_ca))
    )
    _probing(certificate, tls.certificate)

    def no_passphrase() -> str:
        raise ConfigError(f"{key}: has a passphrase, which nobody can type here")

    try:
        context.load_cert_chain(tls.certificate, tls.key, no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key}: does not belong to the certificate in {printable(tls.certificate)}") from error
        if str(error.reason).endswith("_TOO_SMALL"):
            raise ConfigError(f"{certificate}: its key is too small to be safe") from error
        raise ConfigError(f"{key}: holds no private key in PEM form") from error
    if tls.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            raise ConfigError(f"{authorities}: holds no certificates in PEM form") from error
    return context


def _probing(certificate: str, path: str) -> ssl.SSLContext:
    """A client that believes this certificate, whoever issued it and whenever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{certificate}: holds no certificate in PEM form") from error
    return context


def _expiry(listener: str, tls: TLSSection, context: ssl.SSLContext) -> float:
    """When the certificate ends, as a client is shown it; ConfigError if no client could use it.

    A handshake in memory: the standard library reads certificates of peers only.
    """
    assert tls.certificate is not None
    key = f"{listener}.tls.certificate: {printable(tls.certificate)}"
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = _probing(key, tls.certificate).wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_TURNS):
            if _is_through(client):
                break
            _is_through(server)
    except ssl.SSLError as error:
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise ConfigError(f"{key}: not usable for a server: {why}") from error
    ends: Any = (client.getpeercert() or {})["notAfter"]
    return float(ssl.cert_time_to_seconds(ends))


def _is_through(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _reporting(failed: Callable[[ssl.SSLError], None]) -> type[ssl.SSLObject]:
    """Connections that tell why there was none: asyncio keeps that to itself."""

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


def _signature(path: str) -> Signature | None:
    try:
        return signature(path)
    except OSError:
        return None


def _format_expiry(seconds: float) -> str:
    return format_time(int(seconds) * SECOND)
