from extender.utilities.lru import LRU


def filled(*keys):
    lru = LRU[str, int](3)
    for number, key in enumerate(keys):
        lru.put(key, number)
    return lru


def test_the_least_recently_used_entry_makes_room():
    lru = filled("a", "b", "c")
    assert lru.use("a") == 0
    lru.put("d", 3)
    assert list(lru) == ["c", "a", "d"]


def test_a_value_that_is_put_again_is_the_most_recently_used():
    assert filled("a", "b", "c", "a", "d") == {"c": 2, "a": 3, "d": 4}


def test_only_uses_count():
    lru = filled("a", "b", "c")
    assert "a" in lru
    assert lru["a"] == lru.get("a") == 0
    assert lru.use("unknown") is None
    lru.put("d", 3)
    assert list(lru) == ["b", "c", "d"]


def test_a_value_is_made_once():
    lru, values = filled("a", "b", "c"), iter([7])
    assert [lru.use_or_make("d", lambda: next(values)) for _ in range(2)] == [7, 7]
    assert list(lru) == ["b", "c", "d"]


def test_the_oldest_value_is_returned():
    lru = filled("a", "b")
    assert lru.pop_oldest() == 0
    assert list(lru) == ["b"]
