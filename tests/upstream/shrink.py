"""Make a scenario small that differs: remove objects, then fields, while it still differs in the same way.

Candidates are asked in batches, halves first: whatever may go alone is then removed together, as far as that differs.

Rule: a smaller scenario counts only if the judge and the engine still differ in the same kind; an invalid one does not.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

JSON = dict[str, Any]
FieldPath = tuple[str | int, ...]
Kinds = Callable[[Sequence[JSON]], list[frozenset[str]]]
"""Scenarios -> the kinds of difference of each."""

ASKS: Final = 400
SECONDS: Final = 60.0
TOGETHER: Final = 16
"""Candidates per batch."""
REQUIRED: Final = {
    *("apiVersion", "kind", "metadata", "spec", "name", "namespace", "uid", "containers", "schedulerName", "profiles"),
    *("key", "operator", "values", "topologyKey", "maxSkew", "whenUnsatisfiable", "nodeSelectorTerms"),
    *("driver", "pool", "generation", "resourceSliceCount", "devices", "device", "request", "requests", "exactly"),
    *("allocationMode", "count", "deviceClassName"),
}
"""Fields that an API server asks for or adds, or that say which object it is."""


@dataclass(slots=True)
class Shrinker:
    """Removes parts of a scenario as long as asks and time last."""

    kinds: Kinds
    kind: str
    asks: int = ASKS
    deadline: float = 0.0

    @property
    def over(self) -> bool:
        return self.asks <= 0 or monotonic() >= self.deadline

    def differ(self, scenarios: Sequence[JSON]) -> list[bool]:
        """Return whether each still differs in the same way; False once asks or time are used up."""
        found: list[bool] = []
        while len(found) < len(scenarios) and not self.over:
            batch = scenarios[len(found) : len(found) + min(TOGETHER, self.asks)]
            self.asks -= len(batch)
            found += [self.kind in kinds for kinds in self.kinds(batch)]
        return found + [False] * (len(scenarios) - len(found))

    def without(self, scenario: JSON, paths: Sequence[FieldPath]) -> JSON:
        """Remove as many of the paths as can go, halves first."""
        size = max(1, len(paths) // 2)
        while paths and not self.over:
            chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
            alone = self.differ([_removed(scenario, chunk) for chunk in chunks])
            gone = self._together(scenario, [chunk for chunk, may_go in zip(chunks, alone, strict=True) if may_go])
            scenario, left = _removed(scenario, gone), frozenset(gone)
            paths = _moved([path for path in paths if path not in left], gone)
            if size == 1:
                break
            size = max(1, size // 2)
        return scenario

    def _together(self, scenario: JSON, chunks: Sequence[Sequence[FieldPath]]) -> list[FieldPath]:
        """Return those of the chunks, each of which may go alone, that may go together: all of them if possible."""
        whole = [path for chunk in chunks for path in chunk]
        if len(chunks) < 2 or self.differ([_removed(scenario, whole)])[0]:
            return whole
        first = self._together(scenario, chunks[: len(chunks) // 2])
        for chunk in chunks[len(chunks) // 2 :]:
            if self.differ([_removed(scenario, [*first, *chunk])])[0]:
                first = [*first, *chunk]
        return first


def shrink(scenario: JSON, kind: str, kinds: Kinds, asks: int = ASKS, seconds: float = SECONDS) -> JSON:
    """Return a scenario that differs in the same way, with fewer objects and fields, or the scenario itself."""
    shrinker = Shrinker(kinds, kind, asks, monotonic() + seconds)
    asked = {key: scenario[key] for key in ("id", "category", "cluster", "pod", "config") if key in scenario}
    small: JSON = json.loads(json.dumps(asked))  # a copy in which no two parts are the same object
    if "config" in small:
        small = shrinker.without(small, [("config",)])
    before = None
    while before != small and not shrinker.over:
        before = small
        small = shrinker.without(
            small, [("cluster", "items", place) for place in range(len(small["cluster"]["items"]))]
        )
        depth = 0
        while (paths := list(_parts(small, depth))) or depth < 3:
            small = shrinker.without(small, paths)
            depth += 1
    return small


def _parts(scenario: JSON, depth: int) -> Iterator[FieldPath]:
    """Yield the removable parts so deep inside an object, the pod or the configuration."""
    roots: list[FieldPath] = [("cluster", "items", place) for place in range(len(scenario["cluster"]["items"]))]
    roots += [(key,) for key in ("pod", "config") if key in scenario]
    for root in roots:
        yield from _inside(_at(scenario, root), root, depth)


def _inside(value: Any, path: FieldPath, depth: int) -> Iterator[FieldPath]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in entries:
        if depth:
            yield from _inside(one, (*path, key), depth - 1)
        elif key not in REQUIRED and not (key == 0 and path[-1] in REQUIRED):  # no required list becomes empty
            yield (*path, key)


def _at(value: Any, path: FieldPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _removed(scenario: JSON, paths: Sequence[FieldPath]) -> JSON:
    result = deepcopy(scenario)
    for path in sorted(paths, key=_place, reverse=True):  # the last of a list first
        del _at(result, path[:-1])[path[-1]]
    return result


def _place(path: FieldPath) -> list[tuple[int, str]]:
    return [(key, "") if isinstance(key, int) else (-1, key) for key in path]


def _moved(paths: Sequence[FieldPath], gone: Sequence[FieldPath]) -> list[FieldPath]:
    """Return the paths after others are gone, which lowers places in their lists. All have the same depth."""
    lists: dict[FieldPath, list[int]] = {}
    for path in gone:
        if isinstance(path[-1], int):
            lists.setdefault(path[:-1], []).append(path[-1])
    moved = []
    for path in paths:
        last = path[-1]
        if isinstance(last, int):
            last -= sum(place < last for place in lists.get(path[:-1], ()))
        moved.append((*path[:-1], last))
    return moved


def as_text(scenario: JSON) -> str:
    """Return JSON with a line for each object, to be pasted."""
    items = ",\n".join(f"  {json.dumps(item)}" for item in scenario["cluster"]["items"])
    cluster = json.dumps(scenario["cluster"] | {"items": []})[:-2] + f"\n{items}\n ]}}"
    rest = {key: json.dumps(value) for key, value in scenario.items() if key != "cluster"}
    lines = [f'"{key}": {cluster if key == "cluster" else rest[key]}' for key in scenario]
    return "{" + ",\n ".join(lines) + "}"
