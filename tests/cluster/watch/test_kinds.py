"""The tables of kinds agree: what is read, where it is served, and what it is called."""

from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from extender.core.snapshot.snapshot import BUILDING_ORDER
from extender.k8s.kinds import KINDS, ClusterObjects, ObjectTables, name_of

EVERYWHERE = (*RESOURCES, *POD_GROUP_RESOURCES)


def test_every_kind_is_followed_always_or_where_it_is_asked_for():
    assert sorted(one.kind for one in EVERYWHERE) == sorted(KINDS)


def test_a_kind_is_followed_in_the_version_in_which_it_is_read():
    for one in EVERYWHERE:
        kind = KINDS[one.kind]
        assert one.path.removesuffix(f"/{one.plural}") == f"/{'apis' if kind.group else 'api'}/{kind.api_version}"


def test_no_two_kinds_are_one():
    assert len({(name_of(kind), of_kind.group) for kind, of_kind in KINDS.items()}) == len(KINDS)
    assert len({of_kind.field for of_kind in KINDS.values()}) == len(KINDS)


def test_both_kinds_of_groups_call_themselves_the_same():
    assert {name_of(one.kind) for one in POD_GROUP_RESOURCES} == {"PodGroup"}
    assert {KINDS[one.kind].group for one in POD_GROUP_RESOURCES} == {"scheduling.k8s.io", "scheduling.x-k8s.io"}
    assert all(name_of(one.kind) == one.kind for one in RESOURCES)


def test_every_kind_has_its_field_and_its_place():
    wanted = {of_kind.field for of_kind in KINDS.values()}
    assert {*ClusterObjects.__struct_fields__} - {"unread"} == wanted == {*ObjectTables.__dataclass_fields__}
    assert sorted(BUILDING_ORDER) == sorted(KINDS)
    assert BUILDING_ORDER[-1] == "Pod"
