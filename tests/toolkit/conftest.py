"""A model without weights, whose folder is empty."""

import pytest
from counting_engine import DECODING

from mlbench import Model
from mlbench.toolkit.language import TokenProgram


@pytest.fixture
def model(tmp_path):
    return Model(name="numbers", graphs={}, program=TokenProgram(DECODING), weights_fingerprint="", files=tmp_path)
