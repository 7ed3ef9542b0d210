"""Devices and claims from an API server: in each version that is read, equal parts kept once, no part mixed up."""

import json
from typing import Any

import msgspec
import pytest

from extender.cluster.watch import decode
from extender.k8s.devices.objects import DeviceCounterConsumption, DeviceTaint, ResourceClaim, ResourceSlice
from extender.server.observability.cache_status import check_lines
from tests.builders import pod, thing
from tests.cluster.watch.reflector_rig import server_at
from tests.cluster.watch.source_rig import following
from tests.device_builders import claim, device, device_class, devices, request, resource_slice
from tests.fakes.api_server import FakeAPI

Decoder: Any = decode.Decoder  # what it decodes is of as many types as there are kinds

pytestmark = pytest.mark.anyio

KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule")


def decoded(kind, *objects):
    decoder = Decoder(kind)
    return [decoder.decode(json.dumps(one).encode()) for one in objects]


def gpu_slice(number):
    """Return a slice of two GPUs, as a driver publishes it."""
    found = [
        device(
            f"gpu-{at}",
            attributes={"model": "A100", "uuid": f"GPU-{number}-{at}", "index": at, "cuda": {"version": "12.0.0"}},
            capacity={"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}},
            consumesCounters=[{"counterSet": "c", "counters": {"slots": {"value": "1"}}}],
            taints=[{"key": "k", "effect": "NoSchedule"}],
            nodeSelector={"nodeSelectorTerms": [{"matchFields": []}]},
            bindingConditions=["ready"],
            bindingFailureConditions=["failed"],
            allowMultipleAllocations=True,
        )
        for at in (0, 1)
    ]
    return resource_slice(f"s{number}", f"n{number}", found)


def allocated(number):
    conditions = {"bindingConditions": ["ready"], "consumedCapacity": {"memory": "1Gi"}, "shareID": f"u-{number}"}
    device = {"pool": "n1", "device": f"gpu-{number}", **conditions}
    found = claim(
        f"c{number}", request(), allocated=[device], node="n1", reserved_for=[f"p{number}"], owner=f"p{number}"
    )
    return found | {"metadata": found["metadata"] | {"labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"}}


def test_slices_and_claims_are_decoded_to_the_same_but_metadata_that_no_decision_reads():
    (slice_,), (claim_,) = decoded("ResourceSlice", gpu_slice(1)), decoded("ResourceClaim", allocated(1))
    plain = msgspec.convert(gpu_slice(1), ResourceSlice)
    assert (slice_.spec, slice_.metadata) == (plain.spec, plain.metadata)
    plain_claim = msgspec.convert(allocated(1), ResourceClaim)
    about = msgspec.structs.replace(plain_claim.metadata, labels=None, creation_timestamp=None)
    assert claim_ == msgspec.structs.replace(plain_claim, metadata=about)


def test_a_claim_that_kube_scheduler_created_for_extended_resources_is_still_known_as_such():
    mark = {"resource.kubernetes.io/extended-resource-claim": "true"}
    created = claim("p1-extended-resources-x", owner="p1", metadata={"annotations": mark | {"example.com/a": "b"}})
    (found,) = decoded("ResourceClaim", created)
    assert found.metadata.annotations == mark


def test_devices_of_a_model_share_all_that_is_equal():
    one, other = decoded("ResourceSlice", gpu_slice(1), gpu_slice(2))
    (a, b), (c, _) = one.spec.devices, other.spec.devices
    for field in ("capacity", "consumes_counters", "taints", "node_selector", "binding_conditions"):
        assert getattr(a, field) is getattr(b, field) is getattr(c, field)
    assert a.attributes["model"] is b.attributes["model"] is c.attributes["model"]
    assert a.attributes["index"] is c.attributes["index"]
    assert a.name is c.name
    assert one.spec.node_name is one.spec.pool.name


def test_claims_of_a_template_share_all_that_is_equal():
    one, other = decoded("ResourceClaim", allocated(1), allocated(2))
    assert one.spec is other.spec
    assert one.status.allocation.node_selector is other.status.allocation.node_selector
    assert one.status.allocation.devices.results[0].driver is other.status.allocation.devices.results[0].driver
    assert one.metadata.owner_references[0].uid is one.status.reserved_for[0].uid


def test_what_is_written_alike_but_means_something_else_is_not_mixed_up():
    odd = device("x", taints=[{}], consumesCounters=[{}], capacity={"a": {}}, nodeAllocatableResourceMappings={"a": {}})
    ((read,),) = (one.spec.devices for one in decoded("ResourceSlice", resource_slice("s", "n1", [odd])))
    assert read.taints == [DeviceTaint()]
    assert read.consumes_counters == [DeviceCounterConsumption()]
    assert type(read.taints[0]) is DeviceTaint
    assert type(read.consumes_counters[0]) is DeviceCounterConsumption
    assert read.node_allocatable_resource_mappings == {"a": {}}


def test_pods_of_a_template_share_their_status_although_each_has_its_own_claim():
    def using(number):
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"c-{number}"}]}
        conditions = [{"type": "Ready", "status": "True"}]
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        return pod(f"p{number}", resourceClaims=claims, nodeName="n1", status=status | {"conditions": conditions})

    one, other = decoded("Pod", using(1), using(2))
    assert one.status.conditions is other.status.conditions
    assert one.spec.containers is other.spec.containers
    assert one.spec.resource_claims is other.spec.resource_claims
    assert [each.status.resource_claim_statuses[0].resource_claim_name for each in (one, other)] == ["c-1", "c-2"]


# --- the API server ---------------------------------------------------------------------------------------------------


def publish(api):
    api.put("DeviceClass", device_class())
    api.put("ResourceSlice", resource_slice("a", "n1", devices(2)))
    api.put("ResourceClaim", claim("mine", request()))
    api.put("ResourceClaimTemplate", thing("ResourceClaimTemplate", "gpu", namespace="default"))
    api.put("DeviceTaintRule", thing("DeviceTaintRule", "off", spec={"taint": {"key": "k", "effect": "None"}}))


class Older:
    """An API server that serves each kind in its oldest version only."""

    def __init__(self, api: FakeAPI) -> None:
        self._api = server_at(api.url)

    def get(self, path, params=None, **options):
        return self._api.get(self._of(path), params, **options)

    def stream(self, path, params=None, **options):
        return self._api.stream(self._of(path), params, **options)

    def close(self):
        self._api.close()

    @staticmethod
    def _of(path):
        """The path at the fake, which serves the newer one."""
        if "/resource.k8s.io/" not in path:
            return path
        oldest = "v1alpha3" if path.endswith("/devicetaintrules") else "v1beta2"
        asked = path.split("/")[3]
        return path.replace(f"/{asked}/", f"/{'v1' if asked == oldest else 'v0'}/")


async def test_devices_and_claims_are_followed(api):
    publish(api)
    async with following(api.url) as rig:
        await rig.read()
        assert rig.holds(api, KINDS)
        assert [rig.state(kind).phase for kind in KINDS] == ["watching"] * 5
        api.put("ResourceClaim", allocated(1))
        api.delete("ResourceSlice", "a")
        await rig.until(lambda: rig.holds(api, KINDS))
        assert rig.names("ResourceClaim") == {"mine", "c1"}
        assert [await rig.source.verification.verify(kind) for kind in KINDS] == [0] * 5


async def test_an_older_api_server_is_read_in_the_older_version(api):
    publish(api)
    async with following(Older(api)) as rig:
        await rig.read()
        assert rig.holds(api, KINDS)
        assert [rig.state(kind).phase for kind in KINDS] == ["watching"] * 5
        api.delete("ResourceClaim", "mine", "default")
        await rig.until(lambda: rig.holds(api, KINDS))
        assert await rig.source.verification.verify("ResourceClaim") == 0


async def test_without_permission_devices_and_claims_are_unreadable_not_absent(api):
    publish(api)
    for kind in KINDS:
        api.forbid(kind)
    async with following(api.url) as rig:
        await rig.read()
        fields = {"device_classes", "resource_slices", "resource_claims", "resource_claim_templates"}
        assert rig.cache.snapshot().unreadable_tables == fields | {"device_taint_rules"}
        api.allow("ResourceClaim")
        await rig.until(lambda: rig.names("ResourceClaim") == {"mine"})
        assert "resource_claims" not in rig.cache.snapshot().unreadable_tables


async def test_a_cluster_without_the_api_has_no_devices(api, caplog):
    caplog.set_level("INFO", "extender")
    for kind in KINDS:
        api.remove_resource(kind)
    async with following(api.url) as rig:
        await rig.read()
        assert [rig.state(kind).phase for kind in KINDS] == ["absent"] * 5
        assert all(line.startswith("[+] ") for line in check_lines(rig.source))
        assert not rig.cache.snapshot().unreadable_tables
    said = [record for record in caplog.records if " absent, " in record.getMessage()]
    assert [record.levelname for record in said] == ["INFO"] * 5
