import re

import pytest

from extender.k8s.version.found import FoundVersion
from extender.k8s.version.versions import (
    DEFAULT_MINOR,
    NEWEST_PATCHES,
    NEWEST_VERIFIED,
    OLDEST_MINOR,
    Version,
    image_tag,
    parse_version,
    supported_version,
)


@pytest.mark.parametrize(
    ("text", "patch"),
    [
        ("1.33", None),
        ("v1.33", None),
        ("v1.33.2", 2),
        ("1.33+", None),  # major "1" and minor "33+" of a vendor's /version
        ("v1.33.2+k3s1", 2),
        ("v1.33.2-eks-1234567", 2),
        ("v1.33.2-gke.1234000", 2),
        ("v1.33.12.4", 12),
        ("1.33.0-rc.1", 0),
        ("v1.33.2_vendor", 2),
        ("v1.33.20250101", None),  # a date, no patch
        ("v1.33-2", None),
        (" v1.33.2\n", 2),
    ],
)
def test_the_minor_and_the_patch_of_a_version(text, patch):
    assert parse_version(text) == Version(33, patch)


@pytest.mark.parametrize(
    ("text", "patch"),
    [
        ("1.33", None),
        ("v1.33", None),
        ("1.33+", None),
        ("v1.33-2", None),
        ("v1.33.2+k3s1", 2),
        ("v1.33.2-eks-1234567", 2),
        ("1.33.0-rc.1", 0),
        (" v1.33.12\n", 12),
    ],
)
def test_a_version_that_is_set(text, patch):
    assert supported_version(text) == Version(33, patch)


@pytest.mark.parametrize(
    "text",
    ["1.36.", "1.36.2x", "1.36.x", "1.36.1234", "1.36.²", "1.३६", "1.36.٢", "1.036", "1.36.02", "1.36.2.4", "1.36_2"],
)
def test_what_is_set_and_is_nearly_a_version_is_refused(text):
    with pytest.raises(
        ValueError, match=f'"{re.escape(text)}" is not a version of Kubernetes, such as 1.29 or v1.29.1'
    ):
        supported_version(text)


@pytest.mark.parametrize(
    "text", ["", "latest", "33", "1", "1.", "v1.x", "1.33x", "2.33", "v10.33.1", "11.33", "1.-3", "1.३६"]
)
def test_what_is_not_a_version_of_kubernetes_1_x_is_refused(text):
    with pytest.raises(ValueError, match="is not a version of Kubernetes"):
        parse_version(text)


@pytest.mark.parametrize("text", ["1.28", "v1.39.0", "1.3"])
def test_a_version_that_is_set_must_be_supported(text):
    with pytest.raises(ValueError, match=r"is not supported: 1\.29 to 1\.38"):
        supported_version(text)


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("kube-scheduler:v1.33.2", "v1.33.2"),
        ("registry.k8s.io/kube-scheduler:v1.33.2", "v1.33.2"),
        ("registry.example:5000/kube-scheduler:v1.33.2", "v1.33.2"),
        ("registry.example:5000/k8s/kube-scheduler:v1.33.2@sha256:0123abcd", "v1.33.2"),
        ("docker.io/vendor/hardened-kubernetes:v1.33.2-build20250101", "v1.33.2-build20250101"),
        ("registry.example:5000/kube-scheduler", None),
        ("registry.example:5000/kube-scheduler@sha256:0123abcd", None),
        ("registry.example/1.33:latest", "latest"),
        ("kube-scheduler", None),
        ("kube-scheduler:", None),
        ("", None),
        ("sha256:0123abcd", "0123abcd"),
    ],
)
def test_the_tag_of_an_image_reference(image, tag):
    assert image_tag(image) == tag


def test_a_version_that_is_found_and_not_verified_is_moved_to_the_nearest_that_is_and_says_so():
    assert FoundVersion.of("v1.33.2", "API server") == FoundVersion(33, "API server", 2)
    assert FoundVersion.of("1.33+", "API server") == FoundVersion(33, "API server")
    of_29, of_33 = (Version(minor, NEWEST_PATCHES[minor]) for minor in (29, 33))
    moved = {"1.28.3": of_29, "1.27+": of_29, "v1.33.99": of_33, "v1.38.0": NEWEST_VERIFIED, "1.40": NEWEST_VERIFIED}
    for text, nearest in moved.items():
        one = FoundVersion.of(text, "API server")
        assert one.version == nearest, text
        verified = "" if nearest == of_33 else f" (1.29 to {NEWEST_VERIFIED} are)"
        said = f"API server; {parse_version(text)} is not verified{verified}, so {nearest} is assumed"
        assert one.source == said
    with pytest.raises(ValueError, match="is not a version"):
        FoundVersion.of("unknown", "API server")


def test_a_version_that_is_set_holds_if_its_changes_are_known_and_says_that_it_is_not_verified():
    assert FoundVersion.configured("1.36.2") == FoundVersion(36, "configured", 2)
    assert FoundVersion.configured("v1.36") == FoundVersion(36, "configured")
    assert FoundVersion.configured("1.38.1") == FoundVersion(38, "configured; 1.38 is not verified", 1)
    newest = NEWEST_PATCHES[36]
    said = f"configured; 1.36.99 is not verified, so 1.36.{newest} is assumed"
    assert FoundVersion.configured("1.36.99") == FoundVersion(36, said, newest)


def test_every_verified_minor_has_a_newest_patch():
    assert list(NEWEST_PATCHES) == list(range(OLDEST_MINOR, NEWEST_VERIFIED.minor + 1))
    assert DEFAULT_MINOR in NEWEST_PATCHES
    assert (str(Version(36)), str(Version(36, 2))) == ("1.36", "1.36.2")
