"""Facts about host ports (NodePorts)."""

from collections import defaultdict

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.node_ports import (
    ANY_ADDRESS,
    HostPort,
    HostPortIndex,
    WantedPorts,
    host_ports,
)
from extender.report.facts.schema import FactsOf, PortFact


def port_facts(evaluation: Evaluation) -> FactsOf:
    """Name the pods of the node, or nominated to it, that have a host port of the pod."""
    context = evaluation.context
    snapshot, wanted = context.snapshot, host_ports(context.pod, context.features)
    asked, ports = dict[tuple[str, int], list[str]](), WantedPorts(wanted)
    for port in sorted(wanted):
        asked.setdefault(port.number, []).append(port.ip)
    index = snapshot.index(HostPortIndex)
    held = defaultdict[int, list[tuple[HostPort, int | str]]](list)
    for port in sorted(ports.held(index), key=lambda one: (one.port, one)):
        for pod in index.users[port]:
            held[int(snapshot.pod_node[pod])].append((port, pod))
    for nominee in context.nominees:
        row = snapshot.node_row[nominee.status.nominated_node_name]
        held[row] += [(port, nominee.key) for port in host_ports(nominee, context.features) if ports.conflict(port)]

    def fact(port: HostPort, pod: int | str) -> PortFact:
        addresses = asked[port.number]
        address = port.ip if port.ip in addresses else ANY_ADDRESS if ANY_ADDRESS in addresses else addresses[0]
        return PortFact(
            port=port.port,
            protocol=port.protocol,
            address="" if address == ANY_ADDRESS else address,
            pod=pod if isinstance(pod, str) else snapshot.pods[pod].key,
            held_address="" if port.ip == ANY_ADDRESS else port.ip,
            nominated=isinstance(pod, str),
        )

    def facts(row: int) -> list[PortFact]:
        return sorted((fact(*one) for one in held.get(row, ())), key=lambda one: (one.port, one.held_address, one.pod))

    return facts
