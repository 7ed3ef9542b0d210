"""The caller of a request: when its request arrived, and whether it still waits for the answer.

A process that was stopped, starved of CPU or suspended with its machine reads a request long after its arrival. On
Linux, TCP_INFO has the time of the last data. It also shows that the caller has closed the connection, which the event
loop does not see behind unread bytes, a TLS alert or a queue of other callbacks.

Rule: without TCP_INFO (macOS), a request counts as arriving when it is read, and a connection as closed when the event
loop notices.
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
"""Linux's struct tcp_info: tcpi_state (u8 at offset 0) and tcpi_last_data_recv (u32 at offset 52, milliseconds)."""
_TCP_ESTABLISHED = 1

_TICK_SECONDS = 0.01
"""Coarsest resolution of tcpi_last_data_recv, a timer tick of the kernel: 4 ms, or 10 ms with CONFIG_HZ=100."""


class Caller(msgspec.Struct, frozen=True):
    """The caller of one request; times are by the event loop's clock (`time.monotonic`)."""

    arrived_at: float
    """Time when the request arrived at this machine: an upper bound, and never later than `read_at`."""
    read_at: float
    """Time when this process read the request's first byte."""
    is_gone: Callable[[], bool] = lambda: False
    """Returns whether the caller has closed the connection; may be called from any thread."""
    abort: Callable[[], None] = lambda: None
    """Closes the connection at once."""


def caller_now(transport: asyncio.Transport, now: float) -> Caller:
    """Return the caller of a request whose first byte has just been read from this transport."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    _, milliseconds = _tcp_info(connection)

    def is_gone() -> bool:
        return transport.is_closing() or _tcp_info(connection)[0] != _TCP_ESTABLISHED

    return Caller(now - max(0.0, milliseconds / 1000 - _TICK_SECONDS), now, is_gone, transport.abort)


def _tcp_info(connection: socket.socket | None) -> tuple[int, int]:
    """Return the state of the connection and the milliseconds since its last data; if unknown, established and 0."""
    if _TCP_INFO is None or connection is None:
        return _TCP_ESTABLISHED, 0
    try:
        state, milliseconds = _TCP_INFO_FIELDS.unpack(
            connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _TCP_INFO_FIELDS.size)
        )
    except (OSError, struct.error):  # closed, which the transport knows, or a kernel without these fields
        return _TCP_ESTABLISHED, 0
    return state, milliseconds
