"""Nodes of one decision: what is kept is found again, whatever happened meanwhile."""

import msgspec
import pytest

from extender.core import engine
from extender.core.preemption.potential_victims import _kept
from extender.core.profile import Profile
from extender.k8s.objects import Node
from tests.builders import built, cluster, incoming, node, pod, typed

PROFILE = Profile()


@pytest.fixture
def snapshot():
    nodes = {node("n1"): [pod("a", cpu="3")], node("n2"): [pod("b", cpu="4")]}
    return engine.prepare(built(cluster(nodes)))


def template(name, cpu="8"):
    return msgspec.convert(node(name, cpu).raw, Node)


def decide(snapshot, *names):
    return engine.filter(snapshot, typed(incoming(cpu="4")), names, PROFILE)


def test_the_next_decision_finds_versions_and_potential_victims_that_were_kept(snapshot):
    before = decide(snapshot, "n1", "n2")
    versions, latest, kept = snapshot.node_versions, snapshot.node_versions.latest, dict(_kept(snapshot))
    with snapshot.with_nodes([template("t1"), template("n1", "16")]):
        assert decide(snapshot, "n1", "n2", "t1").accepted == (0, 2)
    assert (snapshot.node_versions, snapshot.node_versions.latest) == (versions, latest)
    assert _kept(snapshot) == kept
    assert decide(snapshot, "n1", "n2") == before


def test_after_an_error_no_node_is_left(snapshot):
    before = snapshot.frozen()
    with pytest.raises(ValueError, match="8x"), snapshot.with_nodes([template("t1"), template("t2", "8x")]):
        raise AssertionError
    with pytest.raises(KeyError), snapshot.with_nodes([template("t1"), template("n2", "1")]):
        raise KeyError
    assert (snapshot.frozen(), snapshot.node_names) == (before, ["n1", "n2"])


def test_a_watch_cannot_take_a_node_of_a_request_for_the_api_servers(snapshot):
    sent = template("n1", "16")
    sent = msgspec.structs.replace(
        sent, metadata=msgspec.structs.replace(sent.metadata, uid="uid-n1", resource_version="7")
    )
    with snapshot.with_nodes([sent]):
        own = snapshot.objects.nodes["", "n1"].metadata
        assert (own.uid, own.resource_version) == ("", "")


def test_observers_hear_of_nothing(snapshot):
    heard = []
    snapshot.observer = lambda *change: heard.append(change)
    with snapshot.with_nodes([template("t1"), template("n1", "16")]):
        pass
    assert heard == []
    snapshot.put("Node", template("n3"))
    assert len(heard) == 1
