"""What `extender why` does not read could not have mattered: all scenarios of the corpus, which take a minute."""

import pytest

from tests.cluster.list.test_requests import compare_reads
from tests.parity.agreement import EVERY_CATEGORY, load


@pytest.mark.parametrize("category", EVERY_CATEGORY)
def test_what_is_read_decides_as_the_whole_cluster_does(category):
    compare_reads(load(category))
