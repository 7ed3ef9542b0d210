"""LimitRanger: defaults of containers, and bounds."""

import pytest

from extender.admission.plugins import limit_ranger
from tests.admission.plugins.requests import WHOLE, claim, cluster, pod, request


def limit_range(*limits, name="limits", **metadata):
    return {"kind": "LimitRange", "metadata": {"name": name, **metadata}, "spec": {"limits": list(limits)}}


def container_limits(**fields):
    return limit_range({"type": "Container", **fields})


def admitted(one, *objects, kind="Pod", **options):
    made = request(kind, one, cluster(*objects), **options)
    limit_ranger.admit(made)
    return made


def refused(one, *objects, kind="Pod", **options):
    made = request(kind, one, cluster(*objects), **options)
    limit_ranger.validate(made)
    return [message.partition(" (")[0] for message in made.findings.forbidden]


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_containers_and_init_containers_get_the_defaults():
    defaults = container_limits(default={"cpu": "1"}, defaultRequest={"cpu": "100m", "memory": "1Gi"})
    one = pod("a", {}, {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}, initContainers=[{"name": "i"}])
    spec = admitted(one, defaults).object["spec"]
    filled = {"limits": {"cpu": "1"}, "requests": {"cpu": "100m", "memory": "1Gi"}}
    assert spec["initContainers"][0]["resources"] == spec["containers"][0]["resources"] == filled
    assert spec["containers"][1]["resources"] == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "2", "memory": "1Gi"},
    }


def test_later_items_of_a_limit_range_count_and_of_several_the_first_by_name():
    item = {"type": "Container", "defaultRequest": {"cpu": "1"}}
    later = {"type": "Container", "defaultRequest": {"cpu": "2"}}
    spec = admitted(pod(), limit_range(later, name="b"), limit_range(item, later, item, name="a")).object["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_limit_ranges_of_other_namespaces_and_types_do_not_count():
    elsewhere = limit_range({"type": "Container", "defaultRequest": {"cpu": "1"}}, namespace="other")
    of_pods = limit_range({"type": "Pod", "defaultRequest": {"cpu": "1"}}, name="pods")
    spec = admitted(pod(), elsewhere, of_pods).object["spec"]
    assert not spec["containers"][0]["resources"]


def test_the_object_in_the_cluster_does_not_change_with_the_pod():
    among = cluster(container_limits(default={"cpu": "1"}))
    for _ in range(2):
        made = request("Pod", pod(), among)
        limit_ranger.admit(made)
        made.object["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "9"
    (one,) = among.objects.limit_ranges.values()
    assert (one.spec.limits or [])[0].default == {"cpu": "1"}


def test_limit_ranges_that_are_not_given_are_assumed_not_to_be_there():
    said = ["LimitRanges of namespace shop"]
    assert admitted(pod("a", {"requests": {"cpu": "1"}})).findings.assumed == said
    assert admitted(pod("a", {"requests": {"cpu": "1", "memory": "1Gi"}})).findings.assumed == []
    assert admitted(pod(), WHOLE).findings.assumed == []
    unreadable = request("Pod", pod(), cluster(WHOLE, unreadable=("limit_ranges",)))
    limit_ranger.admit(unreadable)
    assert unreadable.findings.assumed == said


# --- bounds -----------------------------------------------------------------------------------------------------------

ONE_TO_TWO = container_limits(min={"cpu": "1"}, max={"cpu": "2"})


@pytest.mark.parametrize(
    ("resources", "messages"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, []),
        ({"requests": {"cpu": "1000m"}, "limits": {"cpu": "2000m"}}, []),
        (
            {"requests": {"cpu": "999m"}, "limits": {"cpu": "2"}},
            ["minimum cpu usage per Container is 1, but request is 999m"],
        ),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}, ["maximum cpu usage per Container is 2, but limit is 3"]),
        # Only the first amount of each bound is reported.
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}, ["maximum cpu usage per Container is 2, but limit is 3"]),
        (
            {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
            ["maximum cpu usage per Container is 2, but request is 3"],
        ),
        (
            {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}},
            ["minimum cpu usage per Container is 1, but limit is 500m"],
        ),
        (
            {},
            [
                "minimum cpu usage per Container is 1.  No request is specified",
                "maximum cpu usage per Container is 2.  No limit is specified",
            ],
        ),
    ],
)
def test_each_container_keeps_the_bounds(resources, messages):
    assert refused(pod("a", resources), ONE_TO_TWO) == messages
    init = [{"name": "i", "resources": resources}]
    assert (
        refused(pod("a", {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, initContainers=init), ONE_TO_TWO)
        == messages
    )


def test_a_message_names_the_container_and_the_limit_range():
    made = request("Pod", pod("a", {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}), cluster(ONE_TO_TWO))
    limit_ranger.validate(made)
    assert made.findings.forbidden[0].endswith(" (container c0, LimitRange limits)")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, None),
        (
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
    ],
)
def test_the_ratio_of_limit_to_request_is_bounded(resources, message):
    found = refused(pod("a", resources), container_limits(maxLimitRequestRatio={"cpu": "2"}))
    assert found == ([] if message is None else [message])


def test_a_pod_counts_with_all_of_its_containers_and_its_own_resources():
    of_pods = limit_range({"type": "Pod", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}})
    each = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "1"}}
    assert refused(pod("a", each, each), of_pods) == []
    assert refused(pod("a", each, each, each), of_pods) == ["maximum cpu usage per Pod is 2, but limit is 3"]
    assert refused(pod("a", each), of_pods) == ["minimum memory usage per Pod is 1Gi, but request is 512Mi"]
    init = {"name": "i", "resources": {"limits": {"cpu": "2500m"}}}
    assert refused(pod("a", each, each, initContainers=[init]), of_pods) == [
        "maximum cpu usage per Pod is 2, but limit is 2500m"
    ]
    sidecar = {**init, "restartPolicy": "Always"}
    assert refused(pod("a", each, each, initContainers=[sidecar]), of_pods) == [
        "maximum cpu usage per Pod is 2, but limit is 4500m"
    ]
    own = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    assert refused(pod("a", each, each, each, resources=own), of_pods) == []
    assert refused(pod("a", each, each, overhead={"cpu": "1"}), of_pods) == [], "overhead does not count"


def test_pod_level_resources_do_not_count_before_their_gate():
    of_pods = limit_range({"type": "Pod", "max": {"cpu": "2"}})
    made = request("Pod", pod("a", {}, resources={"limits": {"cpu": "1"}}), cluster(of_pods, minor=33))
    limit_ranger.validate(made)
    assert made.findings.forbidden[0].startswith("maximum cpu usage per Pod is 2.  No limit is specified")


def test_a_claim_keeps_the_bounds_by_its_requests_alone():
    of_claims = limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}})
    kind = "PersistentVolumeClaim"
    assert refused(claim(storage="10Gi"), of_claims, kind=kind) == []
    assert refused(claim(storage="20Gi"), of_claims, kind=kind) == [
        "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi"
    ]
    assert refused(claim(storage="1Mi"), of_claims, kind=kind) == [
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
    ]
    no_amount = {"metadata": {"name": "data", "namespace": "shop"}, "spec": {}}
    assert refused(no_amount, of_claims, kind=kind) == [
        "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified",
        "maximum storage usage per PersistentVolumeClaim is 10Gi.  No request is specified",
    ]
    assert refused(claim(storage="20Gi", volumeName="v"), of_claims, kind=kind, is_state=True) == [], "bound"
    assert refused(claim(storage="20Gi"), of_claims, kind=kind, is_state=True) != []


def test_a_running_pod_gets_defaults_and_is_not_refused():
    among = container_limits(defaultRequest={"cpu": "1"}, max={"cpu": "1"})
    running = pod("a", {"limits": {"cpu": "4"}}, nodeName="n")
    assert refused(running, among, is_state=True) == []
    assert admitted(running, among, is_state=True).object["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "1"
    }
    assert refused(pod("a", {"limits": {"cpu": "4"}}), among, is_state=True), "pending"
