"""The categories of random scenarios, by name.

A scenario is a JSON object: `id`, `category`, `tags`, `cluster` (a List, as `kubectl get -o json` prints one), `pod`
(the pending pod that is scheduled) and in some categories `config`, a KubeSchedulerConfiguration that may be refused.

Rule: the same category, seed and number give the same scenario, on every Python. An edit that changes the random stream
of a category changes the digests in test_catalogue.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from tests.upstream.generate import configurations, own_devices
from tests.upstream.generate.basic import basic_scenario
from tests.upstream.generate.v137 import scenario_of_137
from tests.upstream.generate.wide import wide_scenario
from tests.upstream.generate.words import JSON

OLDEST: Final = 29
"""The oldest minor that the judge is built for."""
RESOURCE_API: Final = 34
"""The first minor with resource.k8s.io/v1: earlier ones see no slice, class or claim of these scenarios."""


@dataclass(frozen=True, slots=True)
class Category:
    """Generator of the scenarios of one category: `CATEGORIES["pdb"](seed, number)`."""

    generate: Callable[[str, int], JSON]
    since: int = OLDEST
    """First minor that reads what the category is about. Older ones can be asked, too, to little use."""

    def __call__(self, seed: str, number: int) -> JSON:
        return self.generate(seed, number)


def _configured(seed: str, number: int) -> JSON:
    """Return a scenario of another category, its pods of several profiles, with a configuration of these.

    No extender answers where a scenario is judged: they are left out, and NodeResourcesFit ignores what they'd manage.
    """
    random = Random(f"configurations/{seed}/{number}")
    base = random.choice([name for name in CATEGORIES if name != "configurations"])
    scenario = configurations.random_scenario(random, CATEGORIES[base](seed, number))
    return scenario | {
        "id": f"configurations-{seed}-{number:04}",
        "category": "configurations",
        "tags": sorted({*scenario["tags"], base}),
        "config": configurations.without_extenders(scenario["config"]),
    }


_basic: Final = partial(partial, basic_scenario)
_wide: Final = partial(partial, wide_scenario)
_137: Final = partial(partial, scenario_of_137)

CATEGORIES: Final[Mapping[str, Category]] = {
    # One topic each, and several together:
    "resources": Category(_basic("resources")),
    "pdb": Category(_basic("pdb")),
    "priorities": Category(_basic("priorities")),
    "taints": Category(_basic("taints")),
    "affinity": Category(_basic("affinity")),
    "ports": Category(_basic("ports")),
    "spread": Category(_basic("spread")),
    "interpod": Category(_basic("interpod")),
    "nominated": Category(_basic("nominated")),
    "eligibility": Category(_basic("eligibility")),
    "volumes": Category(_basic("volumes")),
    "images": Category(_basic("images")),
    "mixed": Category(_basic("mixed")),
    # Many kinds of a thing at once:
    "podlevel": Category(_wide("podlevel")),
    "volumes2": Category(_wide("volumes2")),
    "owners": Category(_wide("owners")),
    "devices": Category(_wide("devices"), RESOURCE_API),
    "dra": Category(_wide("dra"), RESOURCE_API),
    "features": Category(_wide("features")),
    "config": Category(_wide("config")),
    "everything": Category(_wide("everything")),
    # What 1.37 changed, or the others leave out:
    "resize": Category(_137("resize")),
    "unstarted": Category(_137("unstarted")),
    "budgets37": Category(_137("budgets37")),
    "gated": Category(_137("gated")),
    "namespaces": Category(_137("namespaces")),
    "taintrules": Category(_137("taintrules"), RESOURCE_API),
    "capacity": Category(_137("capacity"), RESOURCE_API),
    "constraints": Category(_137("constraints"), RESOURCE_API),
    "counters": Category(_137("counters"), RESOURCE_API),
    "extended": Category(_137("extended"), RESOURCE_API),
    "imagevols": Category(_137("imagevols")),
    "declared": Category(_137("declared")),
    "volumes37": Category(_137("volumes37")),
    "config37": Category(_137("config37")),
    # Devices in every state, and configurations of several profiles:
    "own-devices": Category(own_devices.random_scenario, RESOURCE_API),
    "configurations": Category(_configured),
}
