"""The categories of random scenarios, by name.

A scenario is a JSON object: `id`, `category`, `tags`, `cluster` (a List, as `kubectl get -o json` prints one), `pod` (the
pending pod that is scheduled) and, in some categories, `config` (a KubeSchedulerConfiguration, which may be refused).

Rule: the same category, seed and number give the same scenario, on every Python; an edit that changes the random stream
of a category changes the digests in test_catalogue.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from tests.upstream.generate import basic, configurations, own_devices, v137, wide

JSON = dict[str, Any]

OLDEST: Final = 29
"""The oldest minor that the judge is built for."""
RESOURCE_API: Final = 34
"""The first minor that has resource.k8s.io/v1, and so the first that allocates the devices of these scenarios."""


@dataclass(frozen=True, slots=True)
class Category:
    """How to make the scenarios of one category: `CATEGORIES["pdb"](seed, number)`."""

    generate: Callable[[str, int], JSON]
    since: int = OLDEST
    """First minor that reads what the category is about; an older one judges its scenarios, too, to little use."""

    def __call__(self, seed: str, number: int) -> JSON:
        return self.generate(seed, number)


def _configured(seed: str, number: int) -> JSON:
    """Return a scenario of another category with pods of several profiles and a configuration of these.

    No extender answers where a scenario is judged: NodeResourcesFit ignores what they would manage, and they are left out.
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


_BASIC: Final = partial(partial, basic.basic_scenario)
_WIDE: Final = partial(partial, wide.wide_scenario)
_V137: Final = partial(partial, v137.scenario_of_137)

CATEGORIES: Final[Mapping[str, Category]] = {
    "resources": Category(_BASIC("resources")),
    "pdb": Category(_BASIC("pdb")),
    "priorities": Category(_BASIC("priorities")),
    "taints": Category(_BASIC("taints")),
    "affinity": Category(_BASIC("affinity")),
    "ports": Category(_BASIC("ports")),
    "spread": Category(_BASIC("spread")),
    "interpod": Category(_BASIC("interpod")),
    "nominated": Category(_BASIC("nominated")),
    "eligibility": Category(_BASIC("eligibility")),
    "volumes": Category(_BASIC("volumes")),
    "images": Category(_BASIC("images")),
    "mixed": Category(_BASIC("mixed")),
    "podlevel": Category(_WIDE("podlevel")),
    "volumes2": Category(_WIDE("volumes2")),
    "owners": Category(_WIDE("owners")),
    "devices": Category(_WIDE("devices"), RESOURCE_API),
    "dra": Category(_WIDE("dra"), RESOURCE_API),
    "features": Category(_WIDE("features")),
    "config": Category(_WIDE("config")),
    "everything": Category(_WIDE("everything")),
    "resize": Category(_V137("resize")),
    "unstarted": Category(_V137("unstarted")),
    "budgets37": Category(_V137("budgets37")),
    "gated": Category(_V137("gated")),
    "namespaces": Category(_V137("namespaces")),
    "taintrules": Category(_V137("taintrules"), RESOURCE_API),
    "capacity": Category(_V137("capacity"), RESOURCE_API),
    "constraints": Category(_V137("constraints"), RESOURCE_API),
    "counters": Category(_V137("counters"), RESOURCE_API),
    "extended": Category(_V137("extended"), RESOURCE_API),
    "imagevols": Category(_V137("imagevols")),
    "declared": Category(_V137("declared")),
    "volumes37": Category(_V137("volumes37")),
    "config37": Category(_V137("config37")),
    "own-devices": Category(own_devices.random_scenario, RESOURCE_API),
    "configurations": Category(_configured),
}
