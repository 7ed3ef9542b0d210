"""Random manifests: the same ones each time, of every kind, right and wrong."""

import hashlib
import json

from tests.upstream.generate.manifests import _KINDS, random_manifest, random_world


def test_the_same_seed_gives_the_same_manifests():
    drawn = json.dumps([random_world("a"), *(random_manifest("a", number) for number in range(300))])
    assert hashlib.sha256(drawn.encode()).hexdigest()[:16] == "c3f43bf664f1ffa2"
    assert drawn != json.dumps([random_world("b"), *(random_manifest("b", number) for number in range(300))])


def test_every_kind_is_drawn():
    assert {random_manifest("a", number)[0] for number in range(300)} == _KINDS.keys()
