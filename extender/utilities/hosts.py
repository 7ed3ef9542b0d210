"""Addresses of hosts."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether the name or address is one of this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
