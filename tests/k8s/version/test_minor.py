import pytest

from extender.k8s.version.minor import FoundVersion, parse_minor, supported_minor, version_of_image


@pytest.mark.parametrize(
    "text",
    [
        "1.33",
        "v1.33",
        "v1.33.2",
        "1.33+",  # major "1" and minor "33+" of a vendor's /version
        "v1.33.2+k3s1",
        "v1.33.2-eks-1234567",
        "v1.33.2-gke.1234000",
        "1.33.0-rc.1",
        "v1.33.2_vendor",
        " v1.33.2\n",
    ],
)
def test_the_minor_of_a_version(text):
    assert parse_minor(text) == supported_minor(text) == 33


@pytest.mark.parametrize("text", ["", "latest", "33", "1", "1.", "v1.x", "1.33x", "2.33", "v10.33.1", "11.33", "1.-3"])
def test_what_is_not_a_version_of_kubernetes_1_x_is_refused(text):
    with pytest.raises(ValueError, match="is not a version of Kubernetes"):
        parse_minor(text)


@pytest.mark.parametrize("text", ["1.28", "v1.39.0", "1.3"])
def test_a_version_that_is_set_must_be_supported(text):
    with pytest.raises(ValueError, match=r"is not supported: 1\.29 to 1\.38"):
        supported_minor(text)


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
        ("registry.example/1.33:latest", None),
        ("kube-scheduler", None),
        ("kube-scheduler:", None),
        ("", None),
        ("sha256:0123abcd", None),
    ],
)
def test_the_version_in_an_image_reference(image, tag):
    assert version_of_image(image) == tag


def test_a_version_that_is_found_is_moved_to_the_nearest_supported_minor_and_says_so():
    assert FoundVersion.of("v1.33.2", "API server") == FoundVersion(33, "API server")
    older, newer = FoundVersion.of("1.27+", "API server"), FoundVersion.of("v1.40.0", "API server")
    assert (older.minor, newer.minor) == (29, 38)
    assert older.source == "API server; 1.27 is not among 1.29 to 1.38, so 1.29 is assumed"
    assert newer.source == "API server; 1.40 is not among 1.29 to 1.38, so 1.38 is assumed"
    with pytest.raises(ValueError, match="is not a version"):
        FoundVersion.of("unknown", "API server")
