"""Random small clusters with devices, claims and a pod that wants some: what dynamic resource allocation may meet.

A scenario is about a few `TOPICS`, which are its tags: what a topic names is frequent in it, and absent or rare
elsewhere, so that both outcomes of most features come about, and failures for one reason at a time.

Rule: the same seed and number give the same scenario; every object is one that kube-scheduler can be shown, though an
API server would refuse a few of them, such as selectors that do not compile.
"""

from random import Random

from tests.upstream.generate.own_devices.claims import add_device_classes
from tests.upstream.generate.own_devices.cluster import Cluster
from tests.upstream.generate.own_devices.pods import add_nominated_pods, add_running_pods, incoming_pod
from tests.upstream.generate.own_devices.slices import add_node, add_slices, add_taint_rule
from tests.upstream.generate.own_devices.words import FAILING_SELECTORS, SELECTORS, TOPICS
from tests.upstream.generate.words import JSON

__all__ = ["FAILING_SELECTORS", "SELECTORS", "TOPICS", "random_scenario"]


def random_scenario(seed: str, number: int) -> JSON:
    """Return a scenario of random topics: its id, tags, cluster and incoming pod."""
    return _document(Cluster(Random(f"{seed} {number}"), f"dra-own-{seed}-{number:04}"))


def _document(cluster: Cluster) -> JSON:
    for name, zone in zip(cluster.nodes, cluster.zones, strict=True):
        add_node(cluster, name, zone)
    add_device_classes(cluster)
    for driver in cluster.drivers:
        add_slices(cluster, driver)
    if cluster.often("taints", 0.3):
        add_taint_rule(cluster)
    cluster.random.shuffle(cluster.free)
    for name in cluster.nodes:
        add_running_pods(cluster, name)
    pod = incoming_pod(cluster)
    if cluster.about("nominated"):
        add_nominated_pods(cluster)
    listed = {"apiVersion": "v1", "kind": "List", "items": cluster.items}
    scenario: JSON = {"id": cluster.name, "category": "dra", "tags": cluster.topics, "cluster": listed, "pod": pod}
    return scenario | ({"config": _configuration(cluster)} if cluster.about("configured") else {})


def _configuration(cluster: Cluster) -> JSON:
    """Return a KubeSchedulerConfiguration that has something to say about devices."""
    arguments: JSON = {"bindingTimeout": cluster.one_of(("1s", "876000h"))}
    profile: JSON = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": "DynamicResources", "args": arguments}],
        "plugins": cluster.one_of(
            (
                {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
                {"score": {"disabled": [{"name": "DynamicResources"}]}},
                {"postFilter": {"disabled": [{"name": "DynamicResources"}]}},
                {"filter": {"disabled": [{"name": "DynamicResources"}]}},
                {"preFilter": {"disabled": [{"name": "DynamicResources"}]}},
                {"multiPoint": {"enabled": [{"name": "DynamicResources", "weight": 7}]}},
                {},
            )
        ),
    }
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
