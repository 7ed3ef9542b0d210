"""Names and times that random scenarios share."""

from datetime import UTC, datetime
from typing import Any, Final

JSON = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
HOST: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
FORMER_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
FORMER_REGION: Final = "failure-domain.beta.kubernetes.io/region"

GPU: Final = "example.com/gpu"
FPGA: Final = "example.org/fpga"
HUGE_PAGES: Final = "hugepages-2Mi"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

APPS: Final = ("web", "api", "db", "cache", "batch", "etl")
MAX_INT32: Final = (1 << 31) - 1
MIN_INT32: Final = -(1 << 31)

EPOCH: Final = datetime(2024, 6, 1, 8, 0, 0, tzinfo=UTC)
"""Times of objects lie around it, well in the past: a missing start time counts as now in kube-scheduler."""


def timestamp(time: datetime, fraction: str = "") -> str:
    """Return the time as an API server writes it; `fraction` is of the second, such as ".5"."""
    return f"{time:%Y-%m-%dT%H:%M:%S}{fraction}Z"


CREATED: Final = timestamp(EPOCH)


def stable_hash(text: str) -> int:
    """Return a number of the text that is the same in every process, as that of `hash` is not."""
    value = 1469598103934665603
    for character in text:
        value = ((value ^ ord(character)) * 1099511628211) % (1 << 256)
    return value * (1 << 190) + value
