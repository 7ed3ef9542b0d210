"""A cluster with devices in the making: its chance, its objects, and what is left of its devices."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.upstream.generate.own_devices.words import DRIVERS, PAST, TOPICS, WEIGHTS
from tests.upstream.generate.words import JSON

FreeDevice = tuple[str, str, str | None, JSON]
"""Driver, pool, the node if it is of one, device."""


class Cluster:
    """A cluster in the making."""

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name
        count = random.choice((1, 1, 2, 2, 3))
        self.topics = sorted({random.choices(TOPICS, WEIGHTS)[0] for _ in range(count)})
        self.items: list[JSON] = []
        self.uids = 0
        self.zones = [f"z{1 + n % random.choice((1, 2))}" for n in range(random.choice((1, 2, 3, 3, 4, 5)))]
        self.nodes = [f"node-{n}" for n in range(len(self.zones))]
        self.drivers = random.sample(DRIVERS, random.choice((1, 1, 1, 2, 3)))
        self.free: list[FreeDevice] = []
        """Devices that no claim has."""
        self.extended: list[str] = []
        """Names of extended resources that classes back, or seem to."""

    # --- chance -------------------------------------------------------------------------------------------------------

    def about(self, topic: str) -> bool:
        return topic in self.topics

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def often(self, topic: str, probability: float, elsewhere: float = 0.0) -> bool:
        """Draw with this probability in scenarios of the topic."""
        return self.chance(probability if self.about(topic) else elsewhere)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def add(self, api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> JSON:
        self.uids += 1
        metadata = {"name": name, "uid": f"uid-{self.uids}", "creationTimestamp": PAST} | rest.pop("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        item = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
        self.items.append(item)
        return item
