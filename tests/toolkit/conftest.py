"""A model without weights, whose folder is empty, and sandboxes behind each wall that stands here."""

import pytest
from counting_engine import DECODING

from mlbench import Model
from mlbench.toolkit import Sandbox, Wall
from mlbench.toolkit.language import TokenProgram
from mlbench.toolkit.sandbox.probe import weakness

REFUSALS = ("not permitted", "denied", "No space left", "no Landlock", "only for x86-64")


@pytest.fixture
def model(tmp_path):
    return Model(name="numbers", graphs={}, program=TokenProgram(DECODING), weights_fingerprint="", files=tmp_path)


def opened_behind(wall):
    with Sandbox(wall) as opened:
        if wall is not Wall.NONE and (reason := weakness(opened)):
            assert any(words in reason for words in REFUSALS), reason
            pytest.skip(f"{wall} does not stand here: {reason}")
        yield opened


@pytest.fixture(scope="module", params=[Wall.NAMESPACES, Wall.LANDLOCK])
def sandbox(request):
    yield from opened_behind(request.param)


@pytest.fixture(scope="module", params=Wall)
def any_sandbox(request):
    yield from opened_behind(request.param)
