"""Host ports that a pod binds on its node, and conflicts between them.

Mirrors pkg/scheduler/util.GetHostPorts and kube-scheduler/framework HostPortInfo (v1.36).

Rule: facts about pods, from the pods alone.
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
        """Return whether port and protocol are equal, and the addresses are equal or one of them is any address."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip))


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Return the host ports of containers and sidecars; the default address is any, the default protocol TCP."""
    sidecars = (c for c in pod.spec.init_containers or () if c.restart_policy == "Always")
    return frozenset(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in chain(pod.spec.containers or (), sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    )
