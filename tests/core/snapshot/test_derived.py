"""Derived values are kept until what they read changes, and never more than some bytes of them."""

import numpy as np
import pytest

from extender.core.snapshot import derived as module
from extender.core.snapshot.derived import MAX_KEY_BYTES, Versioned, derived, derived_by

built: list[object] = []


@derived("nodes")
def only(_snapshot):
    built.append(None)
    return len(built)


@derived_by("nodes", "pods", max_entries=4)
def of_key(_snapshot, key):
    built.append(key)
    return np.zeros(1000)


@derived_by("nodes")
def labels_of(_snapshot, key):
    built.append(key)
    return {key: ("value",) * 100}


def function_of(kept):
    return kept.__wrapped__


@pytest.fixture
def snapshot():
    built.clear()
    return Versioned()


def test_values_are_kept_until_an_aspect_that_they_read_changes(snapshot):
    for aspect, times in (("taints", 1), ("pods", 1), ("nodes", 2)):
        only(snapshot)
        snapshot._versions[aspect] += 1
        only(snapshot)
        assert len(built) == times
    built.clear()
    of_key(snapshot, "a")
    of_key(snapshot, "a")
    snapshot._versions["pods"] += 1
    of_key(snapshot, "a")
    assert built == ["a", "a"]


def test_the_oldest_key_is_dropped_first(snapshot):
    for key in "abcdea":
        of_key(snapshot, key)
    assert built == list("abcdea")


def test_H4_the_value_of_a_long_key_is_computed_and_not_kept(snapshot):
    for key in ("k" * (MAX_KEY_BYTES - 10), "k" * MAX_KEY_BYTES):
        built.clear()
        assert len(of_key(snapshot, key)) == len(of_key(snapshot, key)) == 1000
        assert len(built) == (1 if len(key) < MAX_KEY_BYTES else 2)
    assert len(snapshot._derived_by[function_of(of_key)]) == 1


def test_H4_all_values_together_keep_to_a_number_of_bytes(snapshot, monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 100_000)
    for nth in range(200):
        of_key(snapshot, f"key-{nth % 7}")
        labels_of(snapshot, f"key-{nth}")
        kept = [entry for values in snapshot._derived_by.values() for entry in values.values()]
        assert snapshot._cached_bytes == sum(entry[2] for entry in kept) <= 100_000
        assert sum(getattr(entry[1], "nbytes", 100 * len(b"value")) for entry in kept) <= 100_000


def test_H4_a_value_that_is_larger_than_all_together_is_not_kept(snapshot, monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 5000)
    assert len(of_key(snapshot, "a")) == 1000
    assert snapshot._cached_bytes == 0
    assert not snapshot._derived_by[function_of(of_key)]
