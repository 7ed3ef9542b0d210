"""Texts of any length leave nothing in the caches of names, quantities and times."""

import pytest

from extender.k8s import quantity, requests, selectors, time
from extender.k8s.limits.limits import MAX_QUALIFIED_NAME_CHARACTERS

LONGEST = "a" * 253 + "/" + "b" * 63

CACHES = {
    "quantities": (quantity.parse, quantity._parse_cached, "1" * 33, "12"),
    "times": (time.parse_time, time._parse_cached, "2026-01-31T08:00:00." + "1" * 30 + "Z", "2026-01-31T08:00:00Z"),
    "label keys": (selectors.is_qualified_name, selectors._is_qualified_name, LONGEST + "c", LONGEST),
    "resource names": (requests.is_extended, requests._is_extended, LONGEST + "c", LONGEST),
}


@pytest.mark.parametrize(("parse", "cached", "long", "short"), CACHES.values(), ids=CACHES)
def test_H4_a_text_longer_than_kubernetes_writes_is_not_kept(parse, cached, long, short):
    cached.cache_clear()
    parse(long)
    assert cached.cache_info().currsize == 0
    parse(short)
    assert cached.cache_info().currsize == 1


def test_a_long_text_has_the_value_that_a_short_one_has():
    assert quantity.parse("0" * 500 + "2") == quantity.parse("2")
    assert time.parse_time("2026-01-31T08:00:00." + "0" * 100 + "Z") == time.parse_time("2026-01-31T08:00:00Z")


def test_a_qualified_name_may_be_as_long_as_its_prefix_and_name_together():
    assert len(LONGEST) == MAX_QUALIFIED_NAME_CHARACTERS
    assert selectors.is_qualified_name(LONGEST)
    assert not selectors.is_qualified_name(LONGEST + "c")
    assert not requests.is_scalar("example.com/" + "a" * 400)
    assert requests.is_scalar("kubernetes.io/" + "a" * 400)
