"""Facts about host ports: the port, and the pod that has it."""

from extender.report.facts.schema import MoreFact, PortFact
from tests.builders import incoming, node, pod
from tests.report.facts.diagnosed import diagnosed, facts_on, words_on


def port(number, protocol="TCP", address=None):
    at = {} if address is None else {"hostIP": address}
    return {"containerPort": number, "hostPort": number, "protocol": protocol} | at


def test_the_holder_of_a_port_is_named_on_each_node():
    nodes = {node(name): [pod(f"lb-{name}", ports=[port(80), port(443)], priority=2000)] for name in ("a", "b")}
    found = diagnosed(nodes, incoming(ports=[port(80), port(53, "UDP")]))
    assert facts_on(found, "a") == [PortFact(port=80, protocol="TCP", pod="default/lb-a")]
    assert words_on(found, "b") == ["80/TCP is held by default/lb-b"]
    assert "(80/TCP is held by default/lb-a on a, likewise on 1 more node)" in found.why


def test_an_address_is_told_where_it_is_not_all_addresses():
    nodes = {
        node("a"): [pod("any", ports=[port(80)])],
        node("b"): [pod("own", ports=[port(80, address="10.0.0.1")])],
        node("c"): [pod("other", ports=[port(80, address="10.0.0.2"), port(80, "UDP", "10.0.0.1")])],
    }
    found = diagnosed(nodes, incoming(ports=[port(80, address="10.0.0.1")]))
    assert words_on(found, "a") == ["10.0.0.1:80/TCP is held by default/any"]
    assert words_on(found, "b") == ["10.0.0.1:80/TCP is held by default/own"]
    assert words_on(found, "c") == []
    found = diagnosed(nodes, incoming(ports=[port(80)]))
    assert words_on(found, "b") == ["80/TCP is held at 10.0.0.1 by default/own"]
    assert facts_on(found, "b") == [PortFact(port=80, protocol="TCP", pod="default/own", held_address="10.0.0.1")]


def test_a_sidecar_has_its_ports():
    holder = pod("meshed")
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "ports": [port(15001)]}
    holder["spec"]["initContainers"] = [sidecar]
    found = diagnosed({node("a"): [holder]}, incoming(ports=[port(15001)]))
    assert words_on(found, "a") == ["15001/TCP is held by default/meshed"]


def test_a_pod_that_is_nominated_to_the_node_has_its_ports():
    nominee = incoming("next", ports=[port(80)], priority=5000, status={"nominatedNodeName": "a"})
    found = diagnosed([node("a")], incoming(ports=[port(80)]), others=[nominee])
    assert facts_on(found, "a")[0] == PortFact(port=80, protocol="TCP", pod="default/next", nominated=True)
    assert words_on(found, "a") == [
        "80/TCP is held by default/next, nominated to the node",
        "room is kept for the nominated default/next",
    ]


def test_many_ports_are_counted():
    many = [port(number) for number in range(1000, 1100)]
    found = diagnosed({node("a"): [pod("greedy", ports=many)]}, incoming(ports=many))
    named = facts_on(found, "a")
    assert [one.port for one in named[:-1]] == [*range(1000, 1012)]
    assert named[-1] == MoreFact(count=88)
    assert words_on(found, "a")[-1] == "and 88 more"
