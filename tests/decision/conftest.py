"""Networks start with the same weights in every test."""

import pytest
from thinc.api import fix_random_seed


@pytest.fixture(autouse=True)
def same_weights() -> None:
    fix_random_seed(0)
