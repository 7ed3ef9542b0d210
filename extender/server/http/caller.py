"""The caller of a request: when its request arrived, and whether it still waits for the answer.

A process that was stopped, starved of CPU or paused with its machine reads a request long after it arrived. Linux knows
more (TCP_INFO): when the last data arrived, and that the caller has closed the connection, also while unread bytes, a
TLS alert or a queue of other callbacks keep the event loop from seeing it.

Rule: without TCP_INFO (macOS) a request arrives when it is read, and a connection is closed once the event loop sees
it.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable

import msgspec

CALLER_KEY = "extender.caller"
"""ASGI scope key of the Caller; set by `LimitedProtocol`."""

_TCP_INFO: int | None = socket.TCP_INFO if sys.platform == "linux" else None
_TCP_INFO_FIELDS = struct.Struct("=B51xI")
"""struct tcp_info of Linux: tcpi_state (u8, offset 0) and tcpi_last_data_recv (u32, offset 52), in milliseconds."""
_TCP_ESTABLISHED = 1

_TICK_SECONDS = 0.01
"""Coarsest resolution of tcpi_last_data_recv, in timer ticks of the kernel: 4 ms, or 10 ms with CONFIG_HZ=100."""


class Caller(msgspec.Struct, frozen=True):
    """The caller of one request; times are by the event loop's clock (`time.monotonic`)."""

    arrived_at: float
    """When the request arrived at this machine: never later than `read_at`, and never earlier than it really did."""
    read_at: float
    """When this process read the request's first byte."""
    is_gone: Callable[[], bool] = lambda: False
    """Returns whether the caller has closed the connection; may be called from any thread."""
    abort: Callable[[], None] = lambda: None
    """Closes the connection at once."""


def caller_now(transport: asyncio.Transport, now: float) -> Caller:
    """Return the caller of the request whose first byte was read from this transport just now."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    _, milliseconds = _tcp_info(connection)

    def is_gone() -> bool:
        return transport.is_closing() or _tcp_info(connection)[0] != _TCP_ESTABLISHED

    return Caller(now - max(0.0, milliseconds / 1000 - _TICK_SECONDS), now, is_gone, transport.abort)


def _tcp_info(connection: socket.socket | None) -> tuple[int, int]:
    """Return the state of the connection and the milliseconds since data last arrived; unknown: open, just now."""
    if _TCP_INFO is None or connection is None:
        return _TCP_ESTABLISHED, 0
    try:
        state, milliseconds = _TCP_INFO_FIELDS.unpack(
            connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _TCP_INFO_FIELDS.size)
        )
    except (OSError, struct.error):  # closed meanwhile (the transport says so), or a kernel without these fields
        return _TCP_ESTABLISHED, 0
    return state, milliseconds
