"""Every category of random scenarios: the same stream as before, objects that we read, and all of its topics."""

import gzip
import hashlib
import json
from collections import Counter

import pytest

from tests.builders import stored_cluster
from tests.upstream.generate import CATEGORIES
from tests.upstream.generate.__main__ import main
from tests.upstream.generate.basic import TOPICS as BASIC_TOPICS
from tests.upstream.generate.catalogue import OLDEST, RESOURCE_API
from tests.upstream.generate.large import VARIANTS, large_cluster
from tests.upstream.generate.v137.configuration import CHANGES as CHANGES_OF_137
from tests.upstream.generate.v137.nodes import NEEDS
from tests.upstream.generate.wide import COMBINED
from tests.upstream.generate.wide.configuration import CHANGES
from tests.upstream.generate.wide.features import CHANGES as FEATURES

DIGESTS = {
    "resources": "e80d7af69c7b729a",
    "pdb": "f1b7146ca33d6e54",
    "priorities": "f6e85f2519d340f0",
    "taints": "123093af0c1d16a7",
    "affinity": "5f382608c33b4b5a",
    "ports": "1c8a6e15191003c7",
    "spread": "4155f0bc6a9e04b7",
    "interpod": "f87b2787f293424c",
    "nominated": "f5a87215c61bb92c",
    "eligibility": "6f987392fd3a0539",
    "volumes": "31d0fc38ff7bef0c",
    "images": "44d2a8135b99b305",
    "mixed": "b9cc8f65dd5b43eb",
    "podlevel": "67b62779b8c483af",
    "volumes2": "2e6231e49b9a4c61",
    "owners": "ebb7eeecec50e92d",
    "devices": "201df44e7639be1e",
    "dra": "c35e9bf6bea6bb7b",
    "features": "8476140a4982d7b5",
    "config": "18108838ba26b052",
    "everything": "6ec1ba3a92cb764b",
    "resize": "61d566c03096a5ad",
    "unstarted": "f75a6613b43bfb9a",
    "budgets37": "9ea143a4a92e64ea",
    "gated": "b6b1c88c49ec6429",
    "namespaces": "5d34fc5f9d5c5aa1",
    "taintrules": "381c22236fffd934",
    "capacity": "135b4a198735a430",
    "constraints": "22c48aaff4ea8bca",
    "counters": "32d0b17fa70ec218",
    "extended": "ed68902187ea9a12",
    "imagevols": "3b78838f520f222f",
    "declared": "c81b59aba5c58776",
    "volumes37": "bfed56b7d7f1b9c5",
    "config37": "c5e692d4548b8cd3",
    "own-devices": "8d6a790582924cb4",
    "large resources": "762dd718c77b3c01",
    "large mixed": "3077804e27e131ae",
}
"""Category -> the start of the SHA-256 of some scenarios: a seed and a number in a report stay the same scenario."""
FOLLOWS_THE_PROFILE = "configurations"
"""Has no digest: the plugins of its files are those of extender.core.profile."""
TAGS = {
    "mixed": {f"f-{topic}" for topic in BASIC_TOPICS},
    "features": {f"ft-{name}" for name in FEATURES},
    "config": {f"cfg-{name}" for name in CHANGES},
    "config37": {f"cfg-{name}" for name in CHANGES_OF_137},
    "everything": {f"w-{name}" for name in COMBINED},
    "declared": {f"d-{name}" for name in NEEDS},
}
"""Category -> tags that some of its scenarios have."""


def digest(scenarios):
    text = json.dumps(scenarios, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("category", sorted({*CATEGORIES} - {FOLLOWS_THE_PROFILE}))
def test_the_random_stream_is_as_before(category):
    assert digest([CATEGORIES[category]("digest", number) for number in range(4)]) == DIGESTS[category]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_large_cluster_is_as_before(variant):
    assert digest(large_cluster(10, 6, variant, "digest")) == DIGESTS[f"large {variant}"]


@pytest.mark.parametrize("category", CATEGORIES)
def test_scenarios_differ_by_seed_and_number_and_are_named_by_them(category):
    generate = CATEGORIES[category]
    scenarios = [generate("a", 0), generate("a", 1), generate("b", 0)]
    assert generate("a", 0) == scenarios[0]
    assert len({one["id"] for one in scenarios}) == 3
    assert len({json.dumps(one["cluster"]) for one in scenarios}) == 3


@pytest.mark.parametrize("category", CATEGORIES)
def test_objects_are_such_as_we_read(category):
    for number in range(4):
        stored_cluster(CATEGORIES[category]("load", number)["cluster"])


@pytest.mark.parametrize("category", TAGS)
def test_every_topic_of_a_category_is_reached(category):
    seen = Counter(tag for number in range(32) for tag in CATEGORIES[category]("topics", number)["tags"])
    assert TAGS[category] <= seen.keys()


def test_configurations_are_of_several_categories_and_need_no_extender():
    scenarios = [CATEGORIES["configurations"]("some", number) for number in range(30)]
    bases = [{*one["tags"]} & CATEGORIES.keys() for one in scenarios]
    assert all(bases)
    assert len(set.union(*bases)) > 12
    assert not any("extenders" in one["config"] for one in scenarios)


def test_categories_of_devices_are_for_minors_that_have_the_api():
    for name, category in CATEGORIES.items():
        kinds = {item["kind"] for number in range(2) for item in category("since", number)["cluster"]["items"]}
        if category.since == OLDEST and name not in ("everything", FOLLOWS_THE_PROFILE):
            assert "ResourceSlice" not in kinds, name
        if category.since == RESOURCE_API:
            assert kinds & {"ResourceSlice", "DeviceClass"}, name


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_scenarios_of_a_category(capsys):
    main(["--category", "pdb", "--count", "2", "--seed", "mine"])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [CATEGORIES["pdb"]("mine", 0), CATEGORIES["pdb"]("mine", 1)]


def test_the_command_writes_a_large_cluster_that_loads(tmp_path):
    main(["--scale", "5", "--pods-per-node", "6", "--out", str(tmp_path / "cluster.json")])
    scenario = json.loads((tmp_path / "cluster.json").read_text())
    assert scenario == large_cluster(5, 6, "resources", "1")
    assert len(stored_cluster(scenario["cluster"]).nodes) == 5


def test_the_command_compresses_what_it_writes(tmp_path):
    main(["--scale", "5", "--variant", "mixed", "--out", str(tmp_path / "cluster.json.gz")])
    with gzip.open(tmp_path / "cluster.json.gz") as file:
        assert json.load(file) == large_cluster(5, 30, "mixed", "1")


@pytest.mark.parametrize("arguments", [[], ["--category", "pdb", "--scale", "5"], ["--category", "nothing"]])
def test_the_command_wants_a_category_or_a_scale(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "--category" in capsys.readouterr().err


def test_help_lists_the_categories(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"  {name}" in printed for name in CATEGORIES)
