"""Spellings of Kubernetes quantities: the canonical one, and those that mean the same."""

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.upstream.generate.words import EPHEMERAL_STORAGE

KI: Final = 1 << 10
MI: Final = 1 << 20
GI: Final = 1 << 30
BINARY: Final = (("Gi", GI), ("Mi", MI), ("Ki", KI))
SUFFIXES: Final = (*BINARY, ("G", 10**9), ("M", 10**6), ("k", 10**3))


# --- as an API server writes them -------------------------------------------------------------------------------------


def canonical(resource: str, value: int) -> str:
    """Return how an API server spells millicores of cpu, bytes of memory or a number of anything else."""
    if resource == "cpu":
        return canonical_cpu(value)
    return canonical_bytes(value) if is_bytes(resource) else str(value)


def canonical_list(values: Mapping[str, int]) -> dict[str, str]:
    return {resource: canonical(resource, value) for resource, value in values.items()}


def canonical_cpu(millicores: int) -> str:
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def canonical_bytes(value: int) -> str:
    for suffix, unit in BINARY:
        if value and value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)


def is_bytes(resource: str) -> bool:
    return resource in ("memory", EPHEMERAL_STORAGE) or resource.startswith("hugepages-")


def count(text: str) -> int:
    """Return a whole number of devices: 1000 for "1k", as extreme nodes have it."""
    return int(text.replace("k", "000"))


# --- as people write them ---------------------------------------------------------------------------------------------


def spelled_cpu(random: Random, millicores: int, fancy: bool) -> str:
    """Return the canonical spelling of the millicores, or a `fancy` one that an API server accepts, too."""
    if not fancy:
        return canonical_cpu(millicores)
    spellings = [f"{millicores}m"]
    if millicores % 1000 == 0:
        cores = millicores // 1000
        spellings += [f"{cores}", f"{cores}.0", f"{cores}e0", f"{cores}000m"]
    decimal = f"{millicores / 1000:.3f}".rstrip("0").rstrip(".")
    spellings += [decimal, f"{millicores}e-3", f"{millicores * 1000}u"]
    if millicores % 100 == 0:
        spellings += [f"{millicores / 1000:.1f}", f"{millicores // 100}E-1"]
    if millicores > 1 and random.random() < 0.15:
        spellings = [f"{millicores * 1000 - random.randint(1, 999)}u"]  # rounded up to the millicores
    return random.choice(spellings)


def spelled_bytes(random: Random, value: int, fancy: bool) -> str:
    if not fancy:
        return canonical_bytes(value)
    spellings = [str(value)]
    for suffix, unit in SUFFIXES:
        if value % unit == 0 and value // unit:
            spellings += [f"{value // unit}{suffix}", f"{value // unit}.0{suffix}"]
        elif value * 2 % unit == 0:
            spellings.append(f"{value / unit:.1f}{suffix}")
        elif value * 4 % unit == 0:
            spellings.append(f"{value / unit:.2f}{suffix}")
    for exponent in (3, 6, 9):
        if value and value % 10**exponent == 0:
            spellings += [f"{value // 10**exponent}e{exponent}", f"{value // 10**exponent}E{exponent}"]
    if random.random() < 0.1:
        spellings.append(f"{value}000m")
    return random.choice(spellings)


def spelled_count(random: Random, value: int, fancy: bool) -> str:
    if not fancy or not value:
        return str(value)
    spellings = [f"{value}", f"{value}.0"]
    if value % 1000 == 0:
        spellings += [f"{value // 1000}k", f"{value // 1000}e3"]
    return random.choice(spellings)


def spelled_list(random: Random, values: Mapping[str, int], fancy: bool) -> dict[str, str]:
    return {resource: _spelled(random, resource, value, fancy) for resource, value in values.items()}


def _spelled(random: Random, resource: str, value: int, fancy: bool) -> str:
    if resource == "cpu":
        return spelled_cpu(random, value, fancy)
    if is_bytes(resource):
        return spelled_bytes(random, value, fancy)
    return spelled_count(random, value, fancy)
