"""schema.json is what Kubernetes' own OpenAPI documents say."""

import shutil

import pytest

from tests.upstream.api_types import NEWEST, OLDEST, SCHEMA, documents, schema


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_the_schema_is_up_to_date() -> None:
    paths = documents()
    if missing := sorted(set(range(OLDEST, NEWEST + 1)) - set(paths)):
        pytest.skip(f"not in Go's module cache: k8s.io/kubernetes of 1.{', 1.'.join(map(str, missing))}")
    assert SCHEMA.read_text() == schema(paths), "run python -m tests.upstream.api_types"
