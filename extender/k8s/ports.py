"""Host ports: what a pod binds on its node, and when two of them conflict.

Mirrors pkg/scheduler/util.GetHostPorts and kube-scheduler/framework HostPortInfo (v1.36).
"""

from itertools import chain
from typing import NamedTuple

from extender.k8s.objects import Pod

ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """The same port, unless both name an address and the addresses differ."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip))


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Of containers and restartable init containers; no address means any, no protocol TCP."""
    sidecars = (c for c in pod.spec.init_containers or () if c.restart_policy == "Always")
    return frozenset(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in chain(pod.spec.containers or (), sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    )
