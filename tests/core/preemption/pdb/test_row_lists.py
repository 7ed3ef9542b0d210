"""Lists of numbers by row read as they were written, and take room for their numbers only."""

import random

import numpy as np

from extender.core.preemption.pdb.row_lists import RowLists


def test_lists_read_as_they_were_written():
    chance, lists, expected = random.Random(1), RowLists(), dict.fromkeys(range(100), frozenset[int]())
    lists.reserve(100)
    for _ in range(200):
        written = {
            row: frozenset(chance.sample(range(50), chance.choice((0, 1, 1, 7))))
            for row in chance.sample(range(100), chance.randrange(1, 9))
        }
        lists.replace(written)
        expected |= written
        rows = np.array(chance.choices(range(100), k=20))
        places, numbers = lists.of(rows)
        found = list(zip(places.tolist(), numbers.tolist(), strict=True))
        assert sorted(found) == sorted((place, one) for place, row in enumerate(rows) for one in expected[row])
        assert places.tolist() == sorted(places.tolist())


def test_H1_what_is_replaced_makes_room():
    lists = RowLists()
    lists.reserve(10)
    for nth in range(1000):
        lists.replace({nth % 10: range(100)})
    assert len(lists._numbers) <= 4 * 1000
