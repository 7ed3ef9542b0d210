"""Amounts as an API server prints them."""

import pytest

from extender.admission.pods.resources import spelled
from extender.k8s import quantity


@pytest.mark.parametrize(
    ("name", "text", "printed"),
    [
        ("cpu", "0", "0"),
        ("cpu", "0.25", "250m"),
        ("cpu", "1000m", "1"),
        ("requests.cpu", "1024", "1024"),
        ("pods", "2000", "2k"),
        ("memory", "0", "0"),
        ("memory", "1024Mi", "1Gi"),
        ("limits.memory", "1000M", "1G"),
        ("memory", "1500", "1500"),
        ("requests.storage", "1Ti", "1Ti"),
        ("hugepages-2Mi", "4096Ki", "4Mi"),
    ],
)
def test_amounts_are_printed_canonically(name, text, printed):
    assert spelled(name, quantity.parse(text)) == printed
