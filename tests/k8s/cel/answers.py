"""What kube-scheduler said of selectors, and what this project says, in the same words.

answers-1.36.jsonl.gz and answers-1.37.jsonl.gz have rows [expression, answer] about `DEVICE`, and [expression, answer,
device, driver] about another one: every function of the libraries, errors of types, of overloads and at run time, and
expressions drawn at random.
"""

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from extender.k8s.devices.objects import Device, DeviceAttribute, DeviceCapacity
from extender.k8s.devices.selector import DeviceSelectorError, DeviceView, UnsupportedFeature, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached
from extender.k8s.version.features import Features

DRIVER = "gpu.example.com"
DEVICE = Device(
    name="d0",
    attributes={
        "model": DeviceAttribute(string_value="h100"),
        "index": DeviceAttribute(int_value=1),
        "ok": DeviceAttribute(bool_value=True),
        "ver": DeviceAttribute(version_value="1.2.3"),
        "re": DeviceAttribute(string_value="("),
    },
    capacity={"memory": DeviceCapacity(value="80Gi")},
)

compiled = lru_cache(maxsize=4096)(compile_selector)


def recorded(minor: int) -> list[Any]:
    """Return the rows of kube-scheduler's answers in a minor: 36 or 37."""
    packed = (Path(__file__).parent / f"answers-1.{minor}.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]


def agree(found: str, wanted: str) -> bool:
    """Return whether an answer is kube-scheduler's; of an error of syntax the words are ours."""
    return found == wanted or ("Syntax error: " in found and "Syntax error: " in wanted)


def answer_or_feature(
    expression: str,
    device: Device | dict[str, Any] = DEVICE,
    driver: str = DRIVER,
    *,
    minor: int = 36,
    steps: int = 5_000_000,
) -> tuple[str | None, str]:
    """Return kube-scheduler's words for what a selector says of a device, or None and the feature not followed."""
    features = Features.of(minor)
    selector = compiled(expression, of_1_37=features.selectors_of_1_37)
    if selector.unsupported:
        return None, selector.unsupported
    if selector.error:
        return f"CEL compile error: {selector.error}", ""
    if isinstance(device, dict):
        device = msgspec.convert(device, Device)
    try:
        view = DeviceView(driver, device, shows_lists=features.selectors_of_1_37)
        return str(selector.matches(view, WorkBudget(steps))).lower(), ""
    except DeviceSelectorError as error:
        return f"CEL runtime error: {error}", ""
    except UnsupportedFeature as feature:
        return None, str(feature)
    except WorkLimitReached:
        return None, "an evaluation that takes too many steps"


def answer(
    expression: str, device: Device | dict[str, Any] = DEVICE, driver: str = DRIVER, *, minor: int = 36
) -> str | None:
    """Return kube-scheduler's words for what a selector says of a device; None where that is not followed."""
    return answer_or_feature(expression, device, driver, minor=minor)[0]
