from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> Path:
    """Outputs of the official reference on synthetic inputs, of the workload that a test's folder is named for."""
    return Path(__file__).parents[1] / "data" / request.path.parent.name


@pytest.fixture(autouse=True)
def same_time_beside_others(one_torch_thread: None) -> None:
    """So that these tests take as long beside others as alone."""
