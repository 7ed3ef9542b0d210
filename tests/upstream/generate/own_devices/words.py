"""What scenarios of devices are about, and the names, times and CEL expressions that they are made of."""

from typing import Final

TOPICS: Final = (
    "selectors",
    "first available",
    "constraints",
    "admin access",
    "allocated",
    "binding",
    "templates",
    "extended resources",
    "counters",
    "capacity",
    "taints",
    "placement",
    "pools",
    "several claims",
    "failing",
    "limits",
    "preemption",
    "nominated",
    "configured",
)
WEIGHTS: Final = (4, 8, 6, 3, 4, 3, 2, 6, 5, 6, 4, 5, 4, 3, 4, 2, 5, 2, 2)
"""How often a scenario is about each topic."""
RARELY: Final = 0.03
"""How often devices have taints, constraints or capacity to share where these are no topic. Beside counters, too: since
1.36.5, v1.36 gives back what it took for a device that is then rejected."""
DRIVERS: Final = ("gpu.example.com", "nic.example.com", "tpu.example.org")
PAST, LONG_AGO, FAR_AHEAD = "2025-01-01T00:00:00Z", "2024-06-01T08:00:00Z", "2099-01-01T00:00:00Z"
SELECTORS: Final = (
    'device.driver == "{driver}"',
    'device.attributes["{driver}"].model == "h100"',
    'device.attributes["{driver}"].model != "h100"',
    'device.attributes["{driver}"].model in ["a100", "h100"] && device.attributes["{driver}"].index < 2',
    'device.attributes["{driver}"].model.startsWith("h")',
    'device.attributes["{driver}"].model.matches("^[ab]1")',
    'device.attributes["{driver}"].index >= 1',
    'device.attributes["{driver}"].index % 2 == 0',
    'device.attributes["{driver}"].ok',
    '!device.attributes["{driver}"].ok || device.attributes["{driver}"].index == 0',
    'device.attributes["{driver}"].version.isGreaterThan(semver("1.2.0"))',
    'device.attributes["{driver}"].version.major() == 2',
    'device.attributes["{driver}"].version.compareTo(semver("v1.4", true)) <= 0',
    'device.capacity["{driver}"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["{driver}"].memory.isLessThan(quantity("50Gi"))',
    'device.capacity["{driver}"].memory == quantity("81920Mi")',
    'device.capacity["{driver}"].memory.asInteger() > 25000000000',
    '"{driver}" in device.attributes',
    '"rack" in device.attributes["site.example.com"]',
    'device.attributes["site.example.com"].rack == "r1"',
    'has(device.attributes["{driver}"].link) && device.attributes["{driver}"].link == 1',
    'device.attributes["{driver}"].?link.orValue(0) == 0',
    'device.attributes["{driver}"][?"link"].hasValue()',
    'cel.bind(d, device.attributes["{driver}"], d.model == "h100" || d.index > 0)',
    '["a100", "b100"].exists(m, m == device.attributes["{driver}"].model)',
    'device.attributes["{driver}"].model == "h100" ? device.attributes["{driver}"].ok : true',
    'string(device.attributes["{driver}"].index) == "1"',
    'size(device.attributes["other.example.com"]) == 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'device.attributes["{driver}"].model.lowerAscii().contains("100")',
    'device.attributes["{driver}"].index + 1 == 2',
    'false && device.attributes["{driver}"].none == "x"',
    'device.attributes["{driver}"].none == "x" || device.driver.endsWith("example.com")',
)
FAILING_SELECTORS: Final = (
    'device.attributes["{driver}"].none == "x"',
    'device.attributes["other.example.com"].x == "x"',
    'device.attributes["{driver}"].link == 1',
    'device.capacity["{driver}"].none.compareTo(quantity("1")) >= 0',
    'device.attributes["{driver}"].model < 3',
    'device.attributes["{driver}"].index.startsWith("h")',
    '!device.attributes["{driver}"].model',
    '1 / (device.attributes["{driver}"].index - device.attributes["{driver}"].index) == 1',
    '[1, 2][device.attributes["{driver}"].index + 2] == 1',
    'int(device.attributes["{driver}"].model) == 1',
    'device.attributes["{driver}"].model',
    'device.attributes["{driver}"].index',
    'device.attributes["{driver}"].model.matches(device.attributes["{driver}"].model + "(")',
    'device.attributes["{driver}"].model ==',
    "device.size == 1",
    "unknown",
    "1",
    'device.capacity["{driver}"].memory > quantity("40Gi")',
    'quantity("z").sign() == 1',
)
MEMORY: Final = ("20Gi", "40Gi", "80Gi", "81920Mi")
