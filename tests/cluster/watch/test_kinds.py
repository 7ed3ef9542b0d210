"""The tables of kinds agree: what is read, where it is served, and what it is called."""

from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from extender.k8s.kinds import KIND_LOAD_ORDER, KINDS, ClusterObjects, ObjectTables, kind_without_group

EVERYWHERE = (*RESOURCES, *POD_GROUP_RESOURCES)


def test_every_kind_is_followed_always_or_where_it_is_asked_for():
    assert sorted(one.kind for one in EVERYWHERE) == sorted(KINDS)


def test_a_kind_is_followed_in_the_version_in_which_it_is_read():
    for one in EVERYWHERE:
        kind = KINDS[one.kind]
        root = f"/apis/{kind.group}" if kind.group else "/api"
        assert (one.path, *one.other_paths) == tuple(f"{root}/{version}/{one.plural}" for version in kind.versions)
        assert kind.api_version.rpartition("/")[2] in kind.versions


def test_the_kinds_of_devices_are_followed_in_each_version_that_has_the_same_fields():
    paths = {one.kind: (one.path, *one.other_paths) for one in RESOURCES if "/resource.k8s.io/" in one.path}
    api = "/apis/resource.k8s.io"
    assert paths == {
        "DeviceClass": (f"{api}/v1/deviceclasses", f"{api}/v1beta2/deviceclasses"),
        "ResourceSlice": (f"{api}/v1/resourceslices", f"{api}/v1beta2/resourceslices"),
        "ResourceClaim": (f"{api}/v1/resourceclaims", f"{api}/v1beta2/resourceclaims"),
        "ResourceClaimTemplate": (f"{api}/v1/resourceclaimtemplates", f"{api}/v1beta2/resourceclaimtemplates"),
        "DeviceTaintRule": tuple(f"{api}/{version}/devicetaintrules" for version in ("v1", "v1beta2", "v1alpha3")),
    }


def test_no_two_kinds_are_one():
    assert len({(kind_without_group(kind), of_kind.group) for kind, of_kind in KINDS.items()}) == len(KINDS)
    assert len({of_kind.field for of_kind in KINDS.values()}) == len(KINDS)


def test_both_kinds_of_groups_call_themselves_the_same():
    assert {kind_without_group(one.kind) for one in POD_GROUP_RESOURCES} == {"PodGroup"}
    assert {KINDS[one.kind].group for one in POD_GROUP_RESOURCES} == {"scheduling.k8s.io", "scheduling.x-k8s.io"}
    assert all(kind_without_group(one.kind) == one.kind for one in RESOURCES)


def test_every_kind_has_its_field_and_its_place():
    wanted = {of_kind.field for of_kind in KINDS.values()}
    assert {*ClusterObjects.__struct_fields__} - {"unreadable_tables", "files"} == wanted
    assert {*ObjectTables.__dataclass_fields__} == wanted
    assert sorted(KIND_LOAD_ORDER) == sorted(KINDS)
    assert KIND_LOAD_ORDER[-1] == "Pod"
